package doctest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// at returns a file of the repository.
func at(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every module is tested, linted and looked at for known holes by the Makefile, and has its updates proposed.
func TestEveryModuleIsLookedAfter(t *testing.T) {
	var modules []string
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" && filepath.Dir(path) != root {
			module, _ := filepath.Rel(root, filepath.Dir(path))
			modules = append(modules, filepath.ToSlash(module))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(modules)
	_, listed, _ := strings.Cut(at(t, "Makefile"), "\nMODULES = ")
	listed, _, _ = strings.Cut(listed, "\n")
	if got := slices.Sorted(slices.Values(strings.Fields(listed))); !slices.Equal(got, modules) {
		t.Errorf("the Makefile has %q, and there are %q", got, modules)
	}
	var updated []string
	for _, found := range regexp.MustCompile(`(?m)^ +- /(\S+)$`).FindAllStringSubmatch(at(t, ".github/dependabot.yml"), -1) {
		updated = append(updated, found[1])
	}
	if slices.Sort(updated); !slices.Equal(updated, modules) {
		t.Errorf("updates are proposed for %q, and there are %q", updated, modules)
	}
}

// The gate and CI draw the same random examples for a change, in the same order of the tests.
func TestTheGateAndCIDrawTheSame(t *testing.T) {
	seed := regexp.MustCompile(`export RAPID_SEED=(\d+) SHUFFLE=(\d+)\n`).FindStringSubmatch(at(t, ".ci/run"))
	if seed == nil {
		t.Fatal(".ci/run sets no seed")
	}
	for name, value := range map[string]string{"RAPID_SEED": seed[1], "SHUFFLE": seed[2]} {
		if !regexp.MustCompile(name + `: .* '` + value + `' }}\n`).MatchString(at(t, ".github/workflows/ci.yml")) {
			t.Errorf("CI has no %s of %s", name, value)
		}
	}
}

// doors are the modules beside the root that users import, with the modules that each may require besides the root.
var doors = map[string][]string{
	"asynq":   {"github.com/hibiken/asynq"},
	"caddy":   {"github.com/caddyserver/caddy/v2", "go.uber.org/zap", "golang.org/x/crypto"},
	"connect": {"connectrpc.com/connect", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf"},
	"grpc":    {"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"},
	"river": {
		"github.com/jackc/pgx/v5", "github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5", "github.com/riverqueue/river/rivertype",
	},
}

// A release has each module that users import, and no other.
func TestReleaseHasEveryDoor(t *testing.T) {
	_, listed, _ := strings.Cut(at(t, ".ci/release"), "\ndoors=(")
	listed, _, _ = strings.Cut(listed, ")")
	if got, want := strings.Fields(listed), slices.Sorted(maps.Keys(doors)); !slices.Equal(got, want) {
		t.Errorf("a release has %q, want %q", got, want)
	}
	_, modules, _ := strings.Cut(at(t, "Makefile"), "\nMODULES = ")
	modules, _, _ = strings.Cut(modules, "\n")
	for module := range strings.FieldsSeq(modules) {
		top, _, _ := strings.Cut(module, "/")
		if _, door := doors[module]; !door && !slices.Contains([]string{"bench", "cmd", "examples", "internal", "proof"}, top) {
			t.Errorf("users import %s, and it is not released", module)
		}
	}
}

// A user of one door downloads nothing for another: a door requires its own framework alone, and the root module that of none.
func TestNoDoorDownloadsForAnother(t *testing.T) {
	const own = "github.com/weir-go/ratelimit"
	frameworks := []string{
		"connectrpc.com/connect", "github.com/caddyserver/caddy/v2", "github.com/coder/websocket", "github.com/gofiber/fiber/v3", "github.com/hibiken/asynq",
		"github.com/modelcontextprotocol/go-sdk", "github.com/riverqueue/river", "google.golang.org/grpc",
	}
	for door, may := range doors {
		direct, _ := required(at(t, door+"/go.mod"))
		if i := slices.Index(direct, own); i < 0 {
			t.Errorf("%s does not require the root module", door)
		} else if direct = slices.Delete(direct, i, i+1); !slices.Equal(direct, may) {
			t.Errorf("%s requires %q, want %q", door, direct, may)
		}
	}
	direct, indirect := required(at(t, "go.mod"))
	for _, module := range append(direct, indirect...) {
		if slices.Contains(frameworks, module) {
			t.Errorf("the root module requires %s, which one door needs", module)
		}
	}
}

// required returns the modules that a go.mod requires directly and indirectly, in order.
func required(text string) (direct, indirect []string) {
	for _, found := range regexp.MustCompile(`(?m)^(?:require |\t)([\w./-]+) v\S+( // indirect)?$`).FindAllStringSubmatch(text, -1) {
		if found[2] == "" {
			direct = append(direct, found[1])
		} else {
			indirect = append(indirect, found[1])
		}
	}
	slices.Sort(direct)
	return direct, indirect
}

// CI takes its servers out of the images that .ci/images lists, each of which has a digest or none, and no invented one.
func TestImagesOfCI(t *testing.T) {
	var listed []string
	for line := range strings.Lines(at(t, ".ci/images")) {
		if fields := strings.Fields(line); !strings.HasPrefix(line, "#") {
			listed = append(listed, fields[0])
			if len(fields) > 2 || len(fields) == 2 && !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(fields[1]) {
				t.Errorf("%q is no image with its digest", line)
			}
		}
	}
	_, matrix, _ := strings.Cut(at(t, ".github/workflows/ci.yml"), "        image:\n")
	matrix, _, _ = strings.Cut(matrix, "    steps:")
	if used := strings.Fields(strings.ReplaceAll(matrix, "- ", "")); !slices.Equal(used, listed) {
		t.Errorf("CI uses %q, and %q are listed", used, listed)
	}
}

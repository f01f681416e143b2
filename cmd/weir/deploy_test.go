package main

import (
	"bytes"
	"context"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/serving"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// deployed returns the text of a file of deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// staticWeir builds the program without cgo, as the Containerfile does.
func staticWeir(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return path
}

// TestStaticProgram: without cgo there is one file that needs no other, also under the name by which Envoy Gateway starts it, and systemd takes its unit.
func TestStaticProgram(t *testing.T) {
	program := staticWeir(t)
	if binary, err := elf.Open(program); err == nil { // on Linux
		defer func() { _ = binary.Close() }()
		libraries, err := binary.ImportedLibraries()
		loads := slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		if err != nil || len(libraries) > 0 || loads {
			t.Errorf("it needs the libraries %q, or a loader: %t, %v", libraries, loads, err)
		}
	}
	link := filepath.Join(filepath.Dir(program), "ratelimit")
	if err := os.Symlink("weir", link); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), link)
	command.Env = []string{"RUNTIME_ROOT=" + t.TempDir()}
	if output, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != exitInvalid || !strings.Contains(string(output), "RUNTIME_ROOT") {
		t.Errorf("as ratelimit: %d %s", command.ProcessState.ExitCode(), output)
	}

	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // another system
	}
	unit := filepath.Join(t.TempDir(), "weir.service")
	text := strings.ReplaceAll(deployed(t, "systemd/weir.service"), "/usr/local/bin/weir", program)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), systemd, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || bytes.Contains(output, []byte(unit+":")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, output)
	}
}

// TestContainerfile: the image has the program alone, and not as root.
func TestContainerfile(t *testing.T) {
	text := deployed(t, "Containerfile")
	_, image, _ := strings.Cut(text, "\nFROM scratch\n")
	var instructions []string
	for line := range strings.Lines(image) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			instructions = append(instructions, strings.Fields(line)[0])
		}
	}
	if want := []string{"COPY", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}; !slices.Equal(instructions, want) {
		t.Errorf("%q, want %q", instructions, want)
	}
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(gomod))[1]
	if !strings.Contains(text, "golang:"+version+" ") {
		t.Errorf("it builds with another Go than %s", version)
	}
}

// composed is a file of compose, as far as tests look at it.
type composed struct {
	Services map[string]struct {
		Image       string
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Environment map[string]string
		Volumes     []string
		DependsOn   []string `yaml:"depends_on"`
		Networks    []string
		StopGrace   time.Duration `yaml:"stop_grace_period"`
	}
	Networks map[string]struct {
		IPAM struct{ Config []struct{ Subnet string } }
	}
}

// networksOf returns the names of the networks that a service is in.
func (c *composed) networksOf(service string) []string {
	if names := c.Services[service].Networks; len(names) > 0 {
		return names
	}
	return []string{"default"}
}

// TestComposeFiles: all that a file of compose names is there: images, files, services, flags and variables. weir has the time to end as it does.
func TestComposeFiles(t *testing.T) {
	for _, proxy := range []string{"envoy", "traefik", "nginx"} {
		dir := filepath.Join("deploy", proxy)
		var file composed
		if err := yaml.Unmarshal([]byte(deployed(t, proxy+"/compose.yaml")), &file); err != nil {
			t.Fatal(err)
		}
		for name, s := range file.Services {
			if (s.Image == "") == (s.Build.Context == "") {
				t.Errorf("%s: %s has no image, or two", proxy, name)
			}
			if s.Build.Context != "" {
				if _, err := os.Stat(filepath.Join(dir, s.Build.Context, s.Build.Dockerfile)); err != nil {
					t.Error(err)
				}
			}
			for _, volume := range s.Volumes {
				from, _, _ := strings.Cut(volume, ":")
				if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
					t.Error(err)
				}
			}
			for _, other := range s.DependsOn {
				if _, there := file.Services[other]; !there {
					t.Errorf("%s: %s depends on %s, which is not there", proxy, name, other)
				}
			}
		}
		ours := file.Services["weir"]
		if len(ours.Command) == 0 || ours.Command[0] != "serve" {
			t.Errorf("%s: the command of weir is %q", proxy, ours.Command)
		}
		flags := serveFlags()
		for _, argument := range ours.Command[1:] {
			if name, is := strings.CutPrefix(argument, "-"); is && !slices.Contains(flags, name) {
				t.Errorf("%s: weir serve has no flag %s", proxy, argument)
			}
		}
		for name := range ours.Environment {
			knownVariable(t, name)
		}
		if settings, err := serving.FromEnvironment(nil); err != nil || ours.StopGrace <= settings.Leave+settings.Drain {
			t.Errorf("%s: weir is killed after %v, and needs %v + %v to end: %v", proxy, ours.StopGrace, settings.Leave, settings.Drain, err)
		}
	}
}

// TestComposedNetworks: a proxy reaches weir, and weir Redis, by one network each. That of the proxy has the addresses that weir trusts, and nobody else's. With
// two networks the name of weir would stand for two addresses, and the proxy would ask by any of them.
func TestComposedNetworks(t *testing.T) {
	for _, proxy := range []string{"traefik", "nginx"} {
		var file composed
		if err := yaml.Unmarshal([]byte(deployed(t, proxy+"/compose.yaml")), &file); err != nil {
			t.Fatal(err)
		}
		shared := func(a, b string) (names []string) {
			for _, name := range file.networksOf(a) {
				if slices.Contains(file.networksOf(b), name) {
					names = append(names, name)
				}
			}
			return names
		}
		for _, pair := range [][2]string{{proxy, "weir"}, {proxy, "shop"}, {"weir", "redis"}} {
			if names := shared(pair[0], pair[1]); len(names) != 1 {
				t.Errorf("%s: %s and %s share the networks %q, want one", proxy, pair[0], pair[1], names)
			}
		}
		if names := shared(proxy, "redis"); len(names) > 0 {
			t.Errorf("%s: the proxy reaches Redis by %q", proxy, names)
		}
		for name := range file.Services {
			for _, network := range file.networksOf(name) {
				if _, there := file.Networks[network]; !there && network != "default" {
					t.Errorf("%s: %s is in the network %s, which is not there", proxy, name, network)
				}
			}
		}
		names := shared(proxy, "weir")
		if len(names) != 1 {
			continue
		}
		for name := range file.Services {
			if slices.Contains(file.networksOf(name), names[0]) && name != proxy && name != "weir" {
				t.Errorf("%s: %s is among those that weir trusts", proxy, name)
			}
		}
		command := file.Services["weir"].Command
		trusted := command[slices.Index(command, "-trusted")+1]
		if subnets := file.Networks[names[0]].IPAM.Config; len(subnets) != 1 || subnets[0].Subnet != trusted {
			t.Errorf("%s: the network %s has the addresses %+v, and weir trusts %s", proxy, names[0], subnets, trusted)
		}
	}
}

// TestComposedVersions: the image of Envoy is of the version that tests run, and that of Traefik of no older one.
func TestComposedVersions(t *testing.T) {
	scripts, err := filepath.Glob("../../.ci/*")
	if err != nil {
		t.Fatal(err)
	}
	var installs strings.Builder // what the scripts that install programs say
	for _, path := range scripts {
		if text, err := os.ReadFile(path); err == nil { // it is no directory
			_, _ = installs.Write(text)
		}
	}
	for proxy, test := range map[string]struct {
		installed *regexp.Regexp
		later     bool
	}{
		"envoy":   {installed: regexp.MustCompile(`(?m)^(?:version=|install envoy )(\d+)\.(\d+)\.(\d+)`)},
		"traefik": {installed: regexp.MustCompile(`(?m)^(?:version=v|install traefik )(\d+)\.(\d+)\.`), later: true},
	} {
		var file composed
		if err := yaml.Unmarshal([]byte(deployed(t, proxy+"/compose.yaml")), &file); err != nil {
			t.Fatal(err)
		}
		tested := test.installed.FindStringSubmatch(installs.String())
		if tested == nil {
			t.Errorf("no script installs %s", proxy)
			continue
		}
		_, tag, _ := strings.Cut(file.Services[proxy].Image, ":v")
		compared := slices.CompareFunc(strings.Split(tag, "."), tested[1:], func(a, b string) int {
			x, unread := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			if unread != nil {
				t.Errorf("the image %s is of no version", file.Services[proxy].Image)
			}
			return x - y
		})
		if compared < 0 || compared > 0 && !test.later {
			t.Errorf("the image of %s is %s, and %s is tested", proxy, file.Services[proxy].Image, strings.Join(tested[1:], "."))
		}
	}
}

// serveFlags returns the names of the flags of weir serve.
func serveFlags() (names []string) {
	for _, flag := range serveCommand(nil).Flags {
		names = append(names, flag.Names()...)
	}
	return names
}

// knownVariable fails the test if weir serve does not read a variable of the environment.
func knownVariable(t *testing.T, name string) {
	t.Helper()
	files, err := filepath.Glob("internal/serving/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") && bytes.Contains(text, []byte(`.text("`+name+`"`)) ||
			bytes.Contains(text, []byte(`.boolean("`+name+`"`)) || bytes.Contains(text, []byte(`.duration("`+name+`"`)) {
			return
		}
	}
	t.Errorf("weir serve does not read %s", name)
}

// TestEnvoyGatewayValues: the values of the Helm chart are YAML, and their variables are read.
func TestEnvoyGatewayValues(t *testing.T) {
	var values struct {
		Config struct {
			EnvoyGateway struct {
				Provider struct {
					Kubernetes struct {
						Deployment struct {
							Container struct {
								Image string
								Env   []struct{ Name, Value string }
							}
						} `yaml:"rateLimitDeployment"`
					}
				}
				RateLimit struct {
					Backend struct{ Redis struct{ URL string } }
				} `yaml:"rateLimit"`
			} `yaml:"envoyGateway"`
		}
	}
	if err := yaml.Unmarshal([]byte(deployed(t, "envoy-gateway/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	gateway := values.Config.EnvoyGateway
	container := gateway.Provider.Kubernetes.Deployment.Container
	if container.Image == "" || gateway.RateLimit.Backend.Redis.URL == "" || len(container.Env) == 0 {
		t.Errorf("%+v", gateway)
	}
	for _, variable := range container.Env {
		knownVariable(t, variable.Name)
	}
}

// TestProxiesTakeTheirConfigurations: the real Envoy and the real nginx take the files of compose, and weir takes the limits and the policies.
func TestProxiesTakeTheirConfigurations(t *testing.T) {
	validate := func(command *exec.Cmd) {
		t.Helper()
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, output)
		}
	}
	t.Run("envoy", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), envoyPatience)
		defer cancel()
		validate(exec.CommandContext(ctx, servertest.Program(t, "envoy"), "--mode", "validate", "-c", "deploy/envoy/envoy.yaml", "--base-id", servertest.FreePort(t)))
	})
	t.Run("nginx", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "nginx.conf")
		text := strings.NewReplacer("weir:8080", "127.0.0.1:8080", "shop:80", "127.0.0.1:8000").Replace(deployed(t, "nginx/nginx.conf"))
		if err := os.WriteFile(file, []byte("pid "+file+".pid;\nerror_log stderr;\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		validate(exec.CommandContext(t.Context(), servertest.Program(t, "nginx"), "-t", "-e", "stderr", "-c", file))
	})
	t.Run("weir", func(t *testing.T) {
		err := filepath.WalkDir("deploy", func(path string, entry fs.DirEntry, err error) error {
			if name := entry.Name(); err == nil && (name == "shop.yaml" || name == "limits.yaml") {
				if code, _, messages := weir(t, "", "check", path); code != 0 {
					t.Errorf("weir check %s: %d %s", path, code, messages)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("traefik", func(t *testing.T) {
		var dynamic struct {
			HTTP struct {
				Middlewares map[string]struct {
					ForwardAuth struct {
						Address string
						Trust   bool `yaml:"trustForwardHeader"`
					} `yaml:"forwardAuth"`
				}
				Routers map[string]struct {
					Rule        string
					Middlewares []string
					Service     string
				}
				Services map[string]any
			}
		}
		decoder := yaml.NewDecoder(strings.NewReader(deployed(t, "traefik/dynamic.yaml")))
		decoder.KnownFields(true) // Traefik refuses a file with a key that its version does not know
		if err := decoder.Decode(&dynamic); err != nil {
			t.Fatal(err)
		}
		router := dynamic.HTTP.Routers["service"]
		if dynamic.HTTP.Services[router.Service] == nil || !slices.Equal(router.Middlewares, []string{"weir"}) ||
			dynamic.HTTP.Middlewares["weir"].ForwardAuth.Address != "http://weir:8080/check" {
			t.Errorf("%+v", dynamic)
		}
	})
}

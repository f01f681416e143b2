package descriptors

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/referencetest"
)

// asAnswers is the environment variable that makes the program of the tests one that answers questions about files, for the tests of the reference. Its
// value is a file that the program makes, so that it is seen that it was asked.
const asAnswers = "DESCRIPTORS_TEST_AS_ANSWERS"

func TestMain(m *testing.M) {
	if file := os.Getenv(asAnswers); file != "" {
		if err := errors.Join(os.WriteFile(file, nil, 0o600), answers(os.Stdin, os.Stdout)); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// answers reads files, and then answers questions about the limits of descriptors, a line each.
func answers(from io.Reader, to io.Writer) error {
	questions, write := json.NewDecoder(from), json.NewEncoder(to)
	var files struct {
		Files []struct{ Name, Text string }
		Merge bool
	}
	if err := questions.Decode(&files); err != nil {
		return err
	}
	var all []File
	for _, f := range files.Files {
		all = append(all, File{Name: f.Name, Text: []byte(f.Text)})
	}
	c, err := Parse(all, Options{Merge: files.Merge})
	if mistakes, wrong := errors.AsType[Errors](err); wrong {
		return write.Encode(map[string]any{"Mistake": mistakes[0]})
	}
	if err := write.Encode(map[string]any{"Empty": c.Domains() == 0, "Dump": c.Dump()}); err != nil {
		return err
	}
	for {
		var q question
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		found, err := q.answer(c)
		if err != nil {
			return err
		}
		if err := write.Encode(found); err != nil {
			return err
		}
	}
}

// question is about the limit of a descriptor. With Requests the descriptor brings its own.
type question struct {
	Domain   string
	Entries  [][2]string
	Requests *uint32
	Unit     Unit
}

// foundLimit is the limit of a descriptor, as the reference tells it.
type foundLimit struct {
	Unknown, Found                     bool
	Metric                             string
	Requests                           uint32
	Unit                               Unit
	Name                               string
	Replaces                           []string
	Unlimited, Shadow, Quota, Detailed bool
	Shared                             []string // the patterns that are shared, at the places of their entries
}

func (q *question) answer(c *Config) (f foundLimit, err error) {
	if f.Unknown = !c.Has(q.Domain); f.Unknown {
		return f, nil
	}
	entries := make([]Entry, len(q.Entries))
	for i, e := range q.Entries {
		entries[i] = Entry{Key: e[0], Value: e[1]}
	}
	var l *Limit
	if q.Requests != nil {
		l, err = Override(*q.Requests, q.Unit)
		f.Metric = string(AppendOverrideMetric(nil, q.Domain, entries))
	} else if l, _ = c.Find(q.Domain, entries); l != nil {
		f.Metric = string(c.AppendMetric(nil, q.Domain, entries))
		for i, step := range c.Meet(q.Domain, entries) {
			if step.Shared {
				if f.Shared == nil {
					f.Shared = make([]string, len(entries))
				}
				f.Shared[i] = step.Descriptor.Value
			}
		}
	}
	if l == nil || err != nil {
		return f, err
	}
	f.Found, f.Requests, f.Unit, f.Name, f.Replaces = true, l.RequestsPerUnit, l.Unit, l.Name, l.Replaces
	f.Unlimited, f.Shadow, f.Quota, f.Detailed = l.Unlimited, l.Shadow, l.Quota, l.detailed
	return f, nil
}

// TestReferenceConfiguration runs the configuration tests of github.com/envoyproxy/ratelimit: they read their files by this package, find limits by it, and
// compare all mistakes and the names of all metrics to the letter. testdata/reference has the words that differ.
func TestReferenceConfiguration(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	asked := filepath.Join(t.TempDir(), "asked")
	tests := referencetest.Run{
		Dir: referencetest.Copy(t), Overlay: map[string]string{"src/config/config_impl.go": "testdata/reference/config_impl.go"},
		Args: []string{"./test/config/"}, Environment: []string{asAnswers + "=" + asked, "ANSWERS_PROGRAM=" + program},
	}
	if passed := tests.Tests(t); len(passed) != 30 {
		t.Errorf("%d tests have passed, and not 30: %q", len(passed), passed)
	}
	if _, err := os.Stat(asked); err != nil {
		t.Errorf("nobody has asked this package: %v", err)
	}
}

package serve_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/examples/internal/serve"
)

func TestTheFlagWinsOverTheEnvironmentAndThatOverTheLastResort(t *testing.T) {
	for _, test := range []struct {
		environment string
		args        []string
		want        string
	}{
		{"", nil, "memory:"},
		{"redis://environment", nil, "redis://environment"},
		{"redis://environment", []string{"-redis", "redis://flag"}, "redis://flag"},
		{"", []string{"-redis", "redis://flag"}, "redis://flag"},
	} {
		t.Setenv("REDIS_URL", test.environment)
		flags := flag.NewFlagSet("example", flag.ContinueOnError)
		store := serve.StoreFlag(flags, "memory:")
		if err := flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		if got := store(); got != test.want {
			t.Errorf("REDIS_URL=%s, %v: %s, want %s", test.environment, test.args, got, test.want)
		}
	}
}

func TestHelpDoesNotTellTheEnvironment(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://user:secret@db.example:6379")
	var help strings.Builder
	flags := flag.NewFlagSet("example", flag.ContinueOnError)
	flags.SetOutput(&help)
	serve.StoreFlag(flags, "memory:")
	_ = flags.Parse([]string{"-h"}) // it is printed
	if text := help.String(); !strings.Contains(text, "default REDIS_URL, or else memory:") || strings.Contains(text, "secret") || strings.Contains(text, "db.example") {
		t.Errorf("the help is\n%s", text)
	}
}

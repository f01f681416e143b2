package caddyratelimit

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/crypto/bcrypt"
)

// Each configuration that the page about Caddy shows is valid.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/caddy.md")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDIS_URL", "redis://localhost:6379")
	n := 0
	for _, found := range regexp.MustCompile("(?s)```(caddy|json)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		text := []byte(`{"apps": {"http": {"servers": {"one": {"routes": [{"handle": [` + found[2] + `]}]}}}}}`)
		if found[1] == "caddy" {
			if strings.Contains(found[2], "<") {
				continue // the syntax
			}
			if text, err = adapted(strings.ReplaceAll(found[2], "$2a$14$…", string(hash))); err != nil {
				t.Errorf("%s: %v", found[2], err)
				continue
			}
		}
		n++
		var config caddy.Config
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&config); err != nil {
			t.Errorf("%s: %v", found[2], err)
		}
	}
	if n != 4 {
		t.Errorf("%d configurations, want 4", n)
	}
}

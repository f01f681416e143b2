package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The command by which the page has people check their files reads all of them, and tells what is wrong between them, as weir serve does.
func TestCheckOfADirectory(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating-envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(string(page), "`weir check ")
	directory, _, _ := strings.Cut(command, "`")
	if !found || !strings.HasSuffix(directory, "/") {
		t.Fatalf("the page has people check %q, and no directory", directory)
	}
	t.Chdir(t.TempDir())
	checked := func(args ...string) (code int, out, messages string) {
		t.Helper()
		return weir(t, "", append([]string{"check"}, append(args, directory)...)...)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if code, _, messages := checked(); code != exitFailed || !strings.Contains(messages, "no file in it names a domain") {
		t.Errorf("an empty directory: %d %s", code, messages)
	}
	write("shop.yaml", "domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: minute, requests_per_unit: 600}}\n")
	write("below/bank.yaml", "domain: bank\ndescriptors:\n  - {key: card, rate_limit: {unit: day, requests_per_unit: 9}}\n")
	const says = "makes sense.\n\nbank.card: 9 per day.\nshop.tenant: 600 per minute.\n"
	if code, out, messages := checked(); code != 0 || out != directory+" "+says {
		t.Errorf("two domains: %d %s%s", code, out, messages)
	}

	write("more.yaml", "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 9}}\n")
	if code, _, messages := checked(); code != exitFailed || !strings.Contains(messages, `the domain "shop" stands in another file`) {
		t.Errorf("a domain in two files: %d %s", code, messages)
	}
	code, out, _ := checked("-json")
	var result Checked
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	for i := range result.Errors {
		result.Errors[i].Reason = ""
	}
	if want := []Mistake{{File: "limits/shop.yaml", Line: 1, Column: 9}}; code != exitFailed || result.Valid || !reflect.DeepEqual(result.Errors, want) {
		t.Errorf("as JSON: %d %+v, want %+v", code, result, want)
	}
	t.Setenv("MERGE_DOMAIN_CONFIG", "true")
	if code, out, messages := checked(); code != 0 || !strings.Contains(out, "shop.user: 9 per day.\nshop.tenant: 600 per minute.\n") {
		t.Errorf("a domain in two files that are put together: %d %s%s", code, out, messages)
	}
	t.Setenv("MERGE_DOMAIN_CONFIG", "perhaps")
	if code, _, messages := checked(); code != exitUsage || !strings.Contains(messages, "MERGE_DOMAIN_CONFIG") {
		t.Errorf("a variable that makes no sense: %d %s", code, messages)
	}
	t.Setenv("MERGE_DOMAIN_CONFIG", "")
	if code, _, messages := checked("-has", "user"); code != exitUsage || !strings.Contains(messages, "-has") {
		t.Errorf("a flag of policies: %d %s", code, messages)
	}
}

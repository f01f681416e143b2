package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
)

const limitsFile = `limits:
  burst: leaky 20, 5/s
  orders: token-bucket 2, 1/h
plans:
  requests:
    free: sliding-window 10, 1d
    "*": sliding-window 1, 1d
policies:
  - limit: burst
    key: ip trusted 10.0.0.0/8
    shadow: true
  - match: POST /orders
    limit: orders
    key: header X-API-Key
    cost: units
  - match: POST /orders
    limit: requests
    key: user or tenant
  - match: GET /health
    limit: unlimited
`

// policiesFile writes a file.
func policiesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a match says is told in the same order each time, whatever the order in the file.
func TestCheckTellsAMatchInOrder(t *testing.T) {
	const file = "policies:\n  - match:\n      - {pattern: /b}\n      - {pattern: /a, header: {X-E: e, X-D: d, X-C: c, X-B: b, X-A: a}}\n    limit: leaky 3, 1/s\n    key: ip\n"
	const want = "leaky 3, 1/s: /a with X-A: a with X-B: b with X-C: c with X-D: d with X-E: e or /b; leaky 3, 1/s; for each key of \"ip\".\n"
	for range 10 {
		if code, out, messages := weir(t, file, "check", "-"); code != 0 || !strings.HasSuffix(out, want) {
			t.Fatalf("exit code %d: %s%s", code, out, messages)
		}
	}
}

// check returns the command that checks a file like limitsFile.
func check(args ...string) []string {
	return append([]string{"check", "-has", "user", "-has", "tenant", "-has", "units"}, args...)
}

// A name that the program gives no function to, as far as the command is told, is an error with its place, and so is what has no effect.
func TestCheckOfFunctions(t *testing.T) {
	code, out, messages := weir(t, limitsFile, "check", "-has", "user", "-")
	for _, want := range []string{
		"weir: standard input names functions that the program may not have:\nline 15, column 11: the program has no function that is called \"units\"",
		"\nline 18, column 10: key \"user or tenant\": \"tenant\" is no key that is known here",
		"\nIf it has all of them, say so: weir check -has tenant -has units\n",
	} {
		if code != exitFailed || out != "" || !strings.Contains(messages, want) {
			t.Errorf("exit code %d: %s%s, want %s", code, out, messages, want)
		}
	}
	var checked Checked
	code, out, _ = weir(t, limitsFile, "check", "-json", "-")
	if err := json.Unmarshal([]byte(out), &checked); err != nil || code != exitFailed || checked.Valid || len(checked.Errors) != 2 ||
		checked.Errors[0].Line != 15 || !reflect.DeepEqual(checked.Needs.Keys, []string{"user", "tenant"}) {
		t.Errorf("exit code %d: %v: %+v", code, err, checked)
	}
	for text, want := range map[string]string{
		"limits: {a: 'leaky 1, 1/s'}\npolicies: [{limit: 'leaky 2, 1/s', key: ip}]\n":             `no policy uses the limit "a"`,
		"plans: {a: {free: 'leaky 1, 1/s'}}\npolicies: [{limit: a, key: ip}]\n":                   `the plans of "a" have no "*"`,
		"policies: [{limit: 'leaky 2, 1/s', key: ip, match: get /x}]\n":                           "no request matches the pattern",
		"policies: [{limit: 'leaky 2, 1/s', key: ip, match: {header: {X-A: 'a '}}}]\n":            "no request has the header X-A",
		"policies: [{limit: 'leaky 2, 1/s', key: ip, match: {header: {Transfer-Encoding: a}}}]\n": "no request has the header Transfer-Encoding",
		"{}": "no policy limits anything",
		"policies: [{limit: 'leaky 2, 1/s', key: usr}]\n": `"usr" is no key that is known here`,
	} {
		if code, out, messages := weir(t, text, "check", "-has", "user", "-"); code != exitFailed || !strings.Contains(messages, want) {
			t.Errorf("%s: exit code %d: %s%s, want %s", text, code, out, messages, want)
		}
	}
	if code, out, _ := weir(t, "limitsNothing: true\n", "check", "-"); code != 0 || !strings.Contains(out, "No request is limited.") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, _, messages := weir(t, limitsFile, "check", "-has", "a b", "-"); code != exitUsage {
		t.Errorf("exit code %d: %s", code, messages)
	}
}

// endless is a text without an end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// No more is read of a file than it may have.
func TestEndlessFileIsReadWithABound(t *testing.T) {
	var zeros endless
	var out, messages strings.Builder
	if code := run(t.Context(), []string{"weir", "check", "-"}, &zeros, &out, &messages); code != exitFailed || !strings.Contains(messages.String(), "more than 1048576") || zeros.read > 4<<20 {
		t.Errorf("exit code %d, %d bytes are read: %s", code, zeros.read, &messages)
	}
	zeros = endless{}
	if text, err := readCopy("-", &zeros, 1000); err == nil || len(text) > 0 || zeros.read > 4<<10 {
		t.Errorf("%d bytes of a copy of balances are read, %v", zeros.read, err)
	}
	for most, whole := range map[int64]bool{5: false, 6: true} {
		if text, err := readCopy("-", strings.NewReader("[null]"), most); (err == nil) != whole || (string(text) == "[null]") != whole {
			t.Errorf("of %d bytes at most: %q, %v", most, text, err)
		}
	}
	sparse := filepath.Join(t.TempDir(), "balances.json")
	if err := errors.Join(os.WriteFile(sparse, nil, 0o600), os.Truncate(sparse, mostOfCopy+1)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "more than 1048576", []string{"check", "/dev/zero"}},
		{exitInvalid, "more than 1048576", []string{"explain", "/dev/zero", "GET /"}},
		{exitInvalid, "more than 1048576", []string{"plan", "/dev/zero", "/dev/zero"}},
		{exitFailed, "more than the 268435456", []string{"restore", sparse}},
		{exitInvalid, "/dev/zero has more than 16777216", []string{"serve", "-config", "/dev/zero"}},
		{exitInvalid, "is no regular file", []string{"serve", "-policies", "/dev/zero", "-trusted", "10.0.0.0/8"}},
		{exitFailed, "/dev/zero", []string{"check", "-signed", "/dev/zero", "-"}},
		{exitFailed, "/dev/zero", []string{"sign", "-key", "/dev/zero", "-"}},
	} {
		if code, _, messages := weir(t, "limitsNothing: true\n", c.args...); code != c.code || !strings.Contains(messages, c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, messages)
		}
	}
}

func TestCheck(t *testing.T) {
	path := policiesFile(t, limitsFile)
	code, out, messages := weir(t, "", check(path)...)
	want := path + ` makes sense.

burst: all requests; burst: leaky 20, 5/s; for each key of "ip trusted 10.0.0.0/8"; a shadow, which denies no request.
orders: POST /orders; orders: token-bucket 2, 1/h; for each key of "header X-API-Key"; a request costs units.
requests: POST /orders; 2 plans of requests; for each key of "user or tenant".
unlimited: GET /health; unlimited.
The program has to give WithKey functions for user, tenant.
The program has to give WithCost functions for units.
The program has to say by WithPlan which plan a request is of.
`
	if code != 0 || out != want || messages != "" {
		t.Errorf("exit code %d: %s%s, want\n%s", code, out, messages, want)
	}
	code, out, messages = weir(t, "limits:\n  a: leaky 3\n", "check", "-")
	if code != exitFailed || out != "" || !strings.HasPrefix(messages, "weir: standard input makes no sense:\nline 2, column 6: ") {
		t.Errorf("exit code %d: %s%s", code, out, messages)
	}
	code, out, _ = weir(t, "limits:\n  a: leaky 3\n", "check", "-json", "-")
	var checked Checked
	if err := json.Unmarshal([]byte(out), &checked); err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || checked.Valid || len(checked.Errors) != 1 || checked.Errors[0].Line != 2 || checked.Errors[0].Column != 6 {
		t.Errorf("exit code %d: %+v", code, checked)
	}
	if code, _, _ = weir(t, "", "check", filepath.Join(t.TempDir(), "none")); code != exitFailed {
		t.Errorf("exit code %d of a missing file", code)
	}
	if code, _, _ = weir(t, "", "check"); code != exitUsage {
		t.Errorf("exit code %d without a file", code)
	}
}

func TestExplain(t *testing.T) {
	path := policiesFile(t, limitsFile)
	t.Setenv("REDIS_URL", "")
	args := []string{"explain", path, "POST /orders", "-H", "X-API-Key: secret", "-H", "X-Forwarded-For: 203.0.113.9", "-from", "10.0.0.1", "-name", "tenant=tenant:7", "-plan", "free", "-cost", "units=2"}
	code, out, messages := weir(t, "", args...)
	if code != 0 || !strings.Contains(out, "POST /orders meets 3 policies.") || !strings.Contains(out, "tenant:7") || !strings.Contains(out, "Nothing was asked") || strings.Contains(out, "-from") {
		t.Errorf("exit code %d: %s%s", code, out, messages)
	}
	l := server(t)
	explain := func(wantCode int) (e Explained) {
		t.Helper()
		code, out, messages := weir(t, "", append(args, "-json", "-timeout", "1m")...)
		if err := json.Unmarshal([]byte(out), &e); err != nil || code != wantCode {
			t.Fatalf("exit code %d, want %d: %v: %s%s", code, wantCode, err, out, messages)
		}
		return e
	}
	first := explain(0)
	var names, keys []string
	for _, met := range first.Policies {
		names, keys = append(names, met.Policy), append(keys, met.Key)
	}
	if !reflect.DeepEqual(names, []string{"orders", "requests", "burst"}) || keys[1] != "tenant:7" || keys[2] != "ip:203.0.113.9" ||
		!first.Asked || first.From != "10.0.0.1" || first.Status != 0 || first.Policies[0].Numbers.Remaining != 2 {
		t.Errorf("%+v", first)
	}
	if again := explain(0); !reflect.DeepEqual(again.Policies[0].Numbers.Remaining, first.Policies[0].Numbers.Remaining) {
		t.Errorf("it charges: %+v", again)
	}
	allow(t, l, core.Check{Key: keys[0], Limit: core.TokenBucket(2, core.PerHour(1)).Named("orders")})
	if denied := explain(exitDenied); denied.Status != 429 || denied.Policies[0].Numbers.Allowed {
		t.Errorf("%+v", denied)
	}
	for request, meets := range map[string]string{"POST //a.test/orders": "one policy", "POST http://a.test/orders": "3 policies", "POST //orders": "3 policies"} {
		if _, out, messages := weir(t, "", "explain", path, request, "-redis", ""); !strings.Contains(out, " meets "+meets+".") || !strings.Contains(out, "It comes from 192.0.2.1, since -from names no address.") {
			t.Errorf("%s: %s%s", request, out, messages)
		}
	}
	for _, wrong := range [][]string{
		{"explain", path},
		{"explain", path, "orders"},
		{"explain", path, "POST /", "-H", "x"},
		{"explain", path, "POST /", "-from", "x"},
		{"explain", path, "POST /", "-name", "x"},
		{"explain", path, "POST /orders", "-cost", "units=x"},
	} {
		if code, out, messages := weir(t, "", wrong...); code != exitUsage {
			t.Errorf("%q: exit code %d: %s%s", wrong, code, out, messages)
		}
	}
}

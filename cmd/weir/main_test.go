package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/policies"

	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(redistest.Run(m))
}

// asProgram is the environment variable that makes the program of the tests weir itself.
const asProgram = "WEIR_TEST_AS_PROGRAM"

// weir runs the program in an empty directory.
func weir(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	code = run(t.Context(), append([]string{"weir"}, args...), strings.NewReader(stdin), &out, &messages)
	return code, out.String(), messages.String()
}

// recommended runs weir recommend and returns what it writes as JSON.
func recommended(t *testing.T, stdin string, args ...string) report.Report {
	t.Helper()
	code, out, messages := weir(t, stdin, append([]string{"recommend", "-json"}, args...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, messages)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Standard input is read as a file is.
func TestStandardInput(t *testing.T) {
	text := strings.Repeat(line, 30) + strings.ReplaceAll(line, "192.0.2.1", "192.0.2.2")
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, input := recommended(t, "", "-names", "plain", log), recommended(t, text, "-names", "plain", "-")
	input.Log.Files = file.Log.Files
	if a, b := asJSON(t, file), asJSON(t, input); a != b {
		t.Error("standard input gives another report than the file")
	}
}

func asJSON(t *testing.T, r report.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const line = `192.0.2.1 - - [22/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"` + "\n"

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	page := filepath.Join(dir, "page.html")
	for _, c := range []struct {
		code int
		says string
		log  string
		args []string
	}{
		{0, "wrote", line, []string{"-out", page}},
		{exitFailed, "no such file", "", []string{filepath.Join(dir, "missing.log")}},
		{exitFailed, "none of the formats", "hello\n", nil},
		{exitFailed, "no such file", line, []string{"-out", filepath.Join(dir, "missing", "page.html")}},
		{exitUsage, "unknown key", line, []string{"-key", "user"}},
		{exitUsage, "does not have this key", line, []string{"-key", "header:X-Api-Key"}},
		{exitUsage, "-names", line, []string{"-names", "nice"}},
		{exitUsage, "unknown time zone", line, []string{"-zone", "Mars"}},
		{exitUsage, "unknown format", line, []string{"-format", "iis"}},
		{exitUsage, "route", line, []string{"-route", "GET x"}},
		{exitUsage, "flag", line, []string{"-no-such-flag"}},
		{exitUsage, "at least", line, []string{"-keys", "1"}},
		{exitUsage, "no regular file", line, []string{dir}},
		{exitUsage, "read once", line, []string{"-"}},
		{exitEmpty, "no request", line, []string{"-route", "POST /"}},
		{exitEmpty, "no request", "", nil},
		{exitUnreadable, "1 of 2 lines could not be read; standard input, line 2: ", line + "nonsense\n", nil},
		{exitUsage, "timestamp and a status", line, []string{"-format", "$remote_addr $status"}},
		{0, "wrote", line, []string{"-format", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`, "-out", page}},
		{0, "1 of 2 lines could not be read; standard input, line 2: ", line + "nonsense\n", []string{"-max-skipped", "0.5", "-out", page}},
	} {
		code, out, messages := weir(t, c.log, append(append([]string{"recommend"}, c.args...), "-")...)
		if code != c.code || !strings.Contains(messages, c.says) {
			t.Errorf("%q: exit code %d, want %d with %q; it says %s%s", c.args, code, c.code, c.says, out, messages)
		}
	}
	if code, _, messages := weir(t, "", "recommend"); code != exitUsage || !strings.Contains(messages, "name an access log") {
		t.Errorf("without a file: %d, %s", code, messages)
	}
	if code, _, messages := weir(t, "", "no-such-command"); code != exitUsage || !strings.Contains(messages, "no command") {
		t.Errorf("a command that there is not: %d, %s", code, messages)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "weir-*.log")); len(left) > 0 {
		t.Errorf("copies of standard input are left: %v", left)
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "recommend"},
		{[]string{"help"}, "recommend"},
		{[]string{"version"}, "weir "},
		{[]string{"help", "recommend"}, "Exit codes:"},
		{[]string{"completion", "bash"}, "complete"},
		{[]string{"completion", "zsh"}, "compdef"},
		{[]string{"completion", "fish"}, "complete"},
	} {
		if code, out, messages := weir(t, "", c.args...); code != 0 || !strings.Contains(out, c.says) {
			t.Errorf("weir %q: exit code %d, %s%s", c.args, code, out, messages)
		}
	}
}

// A message is for users: it names each file once, and no package of the program.
func TestMessagesNameNoPackages(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	text, cut, nothing := file("text", "hello\nworld\n"), file("cut.gz", "\x1f\x8b\x08\x00\x00"), filepath.Join(dir, "nothing")
	ok, long := file("ok.yaml", "limitsNothing: true\n"), file("long.yaml", strings.Repeat("#", policies.MostBytes+1))
	unfit := file("unfit.yaml", "policies: [{key: ip, limit: 'leaky 1, 1/s', settle: {500: 0}}]\n")
	wrong, envoys := file("wrong.yaml", "policies: [{key: usr, limit: leaky 1}]\n"), file("envoy.yaml", "domain: a\ndescriptors: [")
	pem := file("key.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
	list, debts := file("list.json", `["a"]`), file("debts.json", `[{"key": "a", "left": -1, "spent": 1, "topups": []}]`)
	const gone, ban = "redis://127.0.0.1:1", "b: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d"
	names, tested := packageNames(t), make(map[string]bool)
	server(t)
	for _, args := range [][]string{
		{"nonsense"},
		{"recommend", text},
		{"recommend", cut},
		{"recommend", nothing},
		{"recommend", "-format", "nonsense", text},
		{"recommend", "-key", "nonsense", text},
		{"recommend", "-format", "nginx", "-key", "json:.user", text},
		{"recommend", "-route", "GET a", text},
		{"recommend", "-format", "$status", text},
		{"recommend", "-late", "x", text},
		{"recommend", "-max-skipped", "x", text},
		{"recommend", "-zone", "nowhere", text},
		{"doctor", "-redis", gone},
		{"doctor", "-budget", "x"},
		{"doctor", "-policies", long},
		{"top", "-once", "-redis", gone},
		{"top", "-limit", "x: y"},
		{"top", "-rows", "x"},
		{"top", "-policies", nothing},
		{"peek", "-limit", "requests", "k"},
		{"peek", "-redis", "http://a", "k"},
		{"peek", "-redis", gone, "k"},
		{"peek", "-prefix", "{", "k"},
		{"peek", "-redis", "redis://[", "k"},
		{"peek", "-limit", "leaky 1, 1/s", ""},
		{"reset", "-limit", "leaky", "k"},
		{"reset", "-limit", "leaky 1, 1/s", ""},
		{"reset", "-all", "-redis", gone, "k"},
		{"ban", "-ban", "b: ban 5", "-for", "1h", "k"},
		{"ban", "-ban", ban, "-for", "x", "k"},
		{"ban", "-ban", ban, "-for", "999999h", "k"},
		{"lift", "-ban", ":", "k"},
		{"lift", "-ban", ban, ""},
		{"lift", "-ban", ban, "-redis", gone, "k"},
		{"bans", "-ban", "x: leaky 1, 1/s"},
		{"bans", "-ban", ban, "-redis", gone},
		{"topup", "-units", "x", "-id", "a", "k"},
		{"topup", "-units", strings.Repeat("9", 30), "-id", "a", "k"},
		{"topup", "-units", "1", "-id", "a b", "k"},
		{"topup", "-units", strings.Repeat("9", 18), "-id", "a", "k"},
		{"balances", "-balance", "a b"},
		{"balances", "-redis", gone},
		{"restore", nothing},
		{"restore", text},
		{"restore", list},
		{"restore", debts},
		{"restore", "-redis", gone, debts},
		{"check", nothing},
		{"check", long},
		{"check", wrong},
		{"check", envoys},
		{"check", "-signed", pem, ok},
		{"check", "-signed", text, ok},
		{"sign", "-key", nothing, ok},
		{"sign", "-key", text, ok},
		{"sign", "-key", pem, ok},
		{"sign", "-key", pem, wrong},
		{"explain", wrong, "GET /"},
		{"explain", ok, "GET a"},
		{"explain", ok, "GET /", "-from", "x"},
		{"explain", unfit, "GET /", "-redis", gone},
		{"explain", envoys, "-domain", "a", "a=b"},
		{"explain", unfit, "GET /", "-redis", "http://a"},
		{"plan", ok, long},
		{"plan", "-log", nothing, ok, ok},
		{"plan", "-log", text, ok, ok},
		{"plan", "-redis", gone, ok, unfit, "-exit-code"},
		{"simulate", wrong, text},
		{"simulate", ok, nothing},
		{"simulate", ok, text},
		{"simulate", "-name", "user=x", ok, text},
		{"simulate", "-keys", "x", ok, text},
		{"serve", "-config", nothing},
		{"serve", "-config", envoys},
		{"serve", "-config", ok},
		{"serve", "-config", unfit},
		{"serve", "-config", ok, "-redis", "http://a"},
		{"serve", "-timeout", "x"},
		{"serve", "-policies", ok, "-trusted", "x"},
		{"serve", "-policies", nothing, "-trusted", "10.0.0.0/8"},
		{"serve", "-policies", long, "-trusted", "10.0.0.0/8"},
		{"serve", "-policies", wrong, "-trusted", "10.0.0.0/8"},
		{"serve", "-policies", unfit, "-trusted", "10.0.0.0/8"},
		{"serve", "-policies", envoys, "-trusted", "10.0.0.0/8"},
	} {
		code, _, messages := weir(t, "", args...)
		tested[args[0]] = true
		told, isError := strings.CutPrefix(messages, "weir: ")
		if name := names.FindString(told); name != "" || code == 0 || !isError {
			t.Errorf("%q: exit code %d: it names %q: %s", args, code, name, messages)
		}
		for _, path := range args {
			if filepath.IsAbs(path) && strings.Count(messages, path) > 1 {
				t.Errorf("%q: it names %s more than once: %s", args, path, messages)
			}
		}
	}
	for _, c := range command(nil, io.Discard, io.Discard).Commands {
		if !tested[c.Name] && c.Name != "version" {
			t.Errorf("no message of weir %s is looked at", c.Name)
		}
	}
}

// packageNames matches the beginning of an error of a package: of all of this repository, and of those that programs use most.
func packageNames(t *testing.T) *regexp.Regexp {
	t.Helper()
	names := []string{"asn1", "gzip", "json", "netip", "strconv", "time", "tls", "url", "x509", "yaml"}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if name := filepath.Base(filepath.Dir(path)); err == nil && filepath.Ext(path) == ".go" && name != "weir" && name != "connect" { // which is a system call, too
			names = append(names, regexp.QuoteMeta(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"core", "admin", "policies", "accesslog", "exact"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not found", name)
		}
	}
	slices.Sort(names)
	return regexp.MustCompile(`(?m)(?:^|: |\()(?:` + strings.Join(append(slices.Compact(names), "ratelimit"), "|") + `)(?:\.\w+)?: `)
}

// Only the names of packages are left out of a message, and each of them once: what stands behind may be the name of a file.
func TestPlainMessages(t *testing.T) {
	inner := errors.New("core: it makes no sense")
	for want, err := range map[string]error{
		"it makes no sense":                                    exitError{inner, exitUsage},
		"core: is no file":                                     fmt.Errorf("policies: %s: %w", "core", errors.New("is no file")),
		"-limit: it makes no sense":                            fmt.Errorf("-limit: %w", inner),
		"policy 0: it makes no sense (it makes no sense)":      fmt.Errorf("ratelimit: policy 0: %w (%w)", inner, inner),
		"it makes no sense\nit ends":                           errors.Join(inner, errors.New("core: it ends")),
		`invalid value "a: b" for flag -units: invalid syntax`: errors.New(`invalid value "a: b" for flag -units: strconv.ParseInt: parsing "a: b": invalid syntax`),
		`-has "core: a" is no name`:                            errors.New(`-has "core: a" is no name`),
		"a file core: it makes no sense: it makes no sense":    fmt.Errorf("a file core: it makes no sense: %w", inner),
	} {
		if got := plain(err); got != want {
			t.Errorf("%q is told as %q, want %q", err, got, want)
		}
	}
}

// What check says agrees in number.
func TestNumbersOfEntries(t *testing.T) {
	for lists, want := range map[string]string{
		"{allow: [192.0.2.1], deny: [192.0.2.2, 192.0.2.3]}": "one entry passes and 2 entries are denied",
		"{allow: [192.0.2.1, 192.0.2.4]}":                    "2 entries pass and no entry is denied",
	} {
		file := policiesFile(t, "lists: "+lists+"\npolicies: [{key: ip, limit: 'leaky 10, 1/s', headroom: 1}]\n")
		if code, out, messages := weir(t, "", "check", file); code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "a headroom of 1") {
			t.Errorf("exit code %d: %s%s", code, out, messages)
		}
	}
}

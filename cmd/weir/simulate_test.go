package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
)

const perAddress = `policies:
  - limit: leaky 2, 1/m
    key: ip
  - match: GET /me
    limit: leaky 1, 1/m
    key: user
`

// logFile writes a log.
func logFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// simulated runs weir simulate and returns what it writes as JSON.
func simulated(t *testing.T, args ...string) (result simulate.Result) {
	t.Helper()
	code, out, messages := weir(t, "", append([]string{"simulate", "-json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 {
		t.Fatalf("%q: exit code %d, %v: %s", args, code, err, messages)
	}
	return result
}

func TestSimulate(t *testing.T) {
	limits, page := policiesFile(t, perAddress), filepath.Join(t.TempDir(), "page.html")
	code, out, messages := weir(t, strings.Repeat(line, 5), "simulate", "-names", "plain", "-out", page, limits, "-")
	for _, want := range []string{
		"5 requests, of which 3 would have been denied (60 %). 0 met no limit.", "leaky:2:1/m 5 3 60 % 1 1", "Most denied by leaky:2:1/m:",
		"ip:192.0.2.1 3 of 5 first at 2026-11-22 08:00:01 +0000", `The log does not say "user"`, "5 requests have a timestamp without a fraction",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("it does not say %q, but %s", want, out)
		}
	}
	if code != 0 || messages != "weir: wrote "+page+"\n" {
		t.Errorf("exit code %d: %s", code, messages)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "would have denied 3 of 5 requests") || !strings.Contains(string(html), "ip:192.0.2.1") {
		t.Errorf("%v: %s", err, html)
	}
	var result simulate.Result
	_, out, _ = weir(t, strings.Repeat(line, 5), "simulate", "-json", limits, "-")
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Denied != 3 || !strings.HasPrefix(result.Limits[0].Busiest[0].Key, "#") {
		t.Errorf("%v: %s", err, out)
	}
	users := `{"ts":1772438400.5,"status":200,"ip":"192.0.2.1","method":"GET","path":"/me","sub":"ann"}` + "\n"
	_, out, _ = weir(t, users+users, "simulate", "-names", "plain", "-name", "user=json:.sub", limits, "-")
	if !strings.Contains(out, "user:ann") {
		t.Error(out)
	}
}

// What simulate says of one request and one line agrees in number.
func TestSimulateNumbers(t *testing.T) {
	limits := policiesFile(t, "policies: [{key: ip, limit: 'leaky 1, 1/m'}]\n")
	nameless := `{"ts":1772438400.5,"status":200,"method":"GET","path":"/me"}` + "\n"
	fractional := strings.Replace(nameless, `"path"`, `"ip":"192.0.2.1","path"`, 1)
	for _, c := range []struct{ log, says string }{
		{line, "One request, of which 0 would have been denied (0 %)."},
		{line, "One request has a timestamp without a fraction of a second:"},
		{strings.Repeat(line, 2), "2 requests, of which 1 would have been denied (50 %)."},
		{nameless + fractional, "One line has no address, and was left out."},
		{nameless + nameless + fractional, "2 lines have no address, and were left out."},
	} {
		if code, out, messages := weir(t, c.log, "simulate", limits, "-"); code != 0 || !strings.Contains(out, c.says) {
			t.Errorf("exit code %d: it does not say %q: %s%s", code, c.says, out, messages)
		}
	}
	if code, out, messages := weir(t, "", "plan", "-log", logFile(t, line), limits, limits); code != 0 || !strings.Contains(out, "Of one request in the log, ") {
		t.Errorf("exit code %d: %s%s", code, out, messages)
	}
}

func TestSimulateMisuse(t *testing.T) {
	limits := policiesFile(t, perAddress)
	for _, c := range []struct {
		code int
		says string
		log  string
		args []string
	}{
		{exitUsage, "name a file of policies", line, nil},
		{exitUsage, "name an access log", line, []string{limits}},
		{exitUsage, "-name \"user\"", line, []string{"-name", "user", limits, "-"}},
		{exitUsage, "unknown key", line, []string{"-name", "user=x", limits, "-"}},
		{exitUsage, "unknown key", line, []string{"-plan", "x", limits, "-"}},
		{exitUsage, "needs JSON lines", line, []string{"-name", "user=json:.sub", limits, "-"}},
		{exitUsage, "-keys", line, []string{"-keys", "1", limits, "-"}},
		{exitUsage, "-late", line, []string{"-late", "1ms", limits, "-"}},
		{exitUsage, "-names", line, []string{"-names", "x", limits, "-"}},
		{exitFailed, "no such file", line, []string{"-out", filepath.Join(t.TempDir(), "missing", "page.html"), limits, "-"}},
		{exitInvalid, "line 1, column 1", line, []string{policiesFile(t, "x: 1\n"), "-"}},
		{exitEmpty, "no request", "", []string{limits, "-"}},
		{exitUnreadable, "1 of 2 lines", line + "nonsense\n", []string{limits, "-"}},
	} {
		code, out, messages := weir(t, c.log, append([]string{"simulate"}, c.args...)...)
		if code != c.code || !strings.Contains(messages, c.says) {
			t.Errorf("%q: exit code %d, want %d with %q: %s%s", c.args, code, c.code, c.says, out, messages)
		}
	}
}

func TestPlanOfLog(t *testing.T) {
	was, now, log := policiesFile(t, perAddress), policiesFile(t, strings.Replace(perAddress, "leaky 2,", "leaky 4,", 1)), logFile(t, strings.Repeat(line, 5))
	code, out, messages := weir(t, "", "plan", "-log", log, was, now)
	for _, want := range []string{
		"Its limit is leaky 4, 1/m instead of leaky 2, 1/m.", "starts anew",
		"Of 5 requests in the log, the old file would have denied 3 (60 %), and the new one 1 (20 %).", "leaky:2:1/m 3 1 – –", "leaky:4:1/m – – 1 1", "1 changed.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("it does not say %q, but %s", want, out)
		}
	}
	if code != 0 || messages != "" {
		t.Errorf("exit code %d: %s", code, messages)
	}
	if code, out, _ = weir(t, "", "plan", "-exit-code", "-log", log, was, was); code != 0 || !strings.Contains(out, "Nothing changes.") ||
		!strings.Contains(out, "would have denied 3 (60 %), and the new one 3 (60 %)") {
		t.Errorf("to itself: %d, %s", code, out)
	}
	var plan Plan
	_, out, _ = weir(t, "", "plan", "-json", "-log", log, was, now)
	if err := json.Unmarshal([]byte(out), &plan); err != nil || plan.Log == nil || plan.Log.Was.Denied != 3 || plan.Log.Now.Denied != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

const oldFile = `limits:
  burst: leaky 20, 1/h
  orders: token-bucket 10, 1/s
plans:
  requests:
    free: sliding-window 10, 1d
    "*": sliding-window 5, 1d
policies:
  - limit: burst
    key: ip
  - match: POST /orders
    limit: orders
    key: user
    enforced: 25%
  - limit: requests
    key: user
`

func TestPlan(t *testing.T) {
	was := policiesFile(t, oldFile)
	now := policiesFile(t, strings.NewReplacer("leaky 20,", "leaky 10,", "token-bucket", "leaky", "25%", "50%").Replace(oldFile))
	code, out, messages := weir(t, "", "plan", was, now)
	want := `~ limit burst: leaky 20, 1/h → leaky 10, 1/h
    The units used are kept.
    Used by: burst (all requests).
~ limit orders: token-bucket 10, 1/s → leaky 10, 1/s
    It is another algorithm, which counts in another way. It starts anew: units used before do not count.
    Used by: orders (POST /orders).
~ policy orders (POST /orders)
    It is enforced for 50% of the keys instead of 25%. Keys for which it was a shadow start anew, without the shadow's counts.

3 changed.
`
	if code != 0 || out != want || messages != "" {
		t.Errorf("exit code %d: %s%s, want\n%s", code, out, messages, want)
	}
	if code, out, messages = weir(t, oldFile, "plan", "-exit-code", "-", now); code != exitChanged || out != want || messages != "weir: 3 changed.\n" {
		t.Errorf("from standard input: exit code %d: %s%s", code, out, messages)
	}
	if code, out, messages = weir(t, "", "plan", "-exit-code", was, was); code != 0 || out != "Nothing changes.\n" || messages != "" {
		t.Errorf("to itself: exit code %d: %s%s", code, out, messages)
	}
	var plan Plan
	_, out, _ = weir(t, "", "plan", "-json", was, now)
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Changes) != 3 || plan.Changes[0].State != "kept" || plan.Changes[1].State != "anew" {
		t.Errorf("%v: %s", err, out)
	}
	if _, out, _ = weir(t, "", "plan", "-json", was, was); out != "{\n  \"changes\": []\n}\n" {
		t.Error(out)
	}
}

func TestPlanMisuse(t *testing.T) {
	was := policiesFile(t, oldFile)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "name two files", []string{was}},
		{exitUsage, "name two files", []string{"-", "-"}},
		{exitUsage, "-rows 0", []string{"-rows", "0", was, was}},
		{exitFailed, "no such file", []string{was, was + ".not"}},
		{exitInvalid, "line 2, column 10:", []string{was, policiesFile(t, "limits:\n  burst: leaky x\n")}},
		{exitInvalid, "line 2, column 10:", []string{policiesFile(t, "limits:\n  burst: leaky x\n"), was}},
	} {
		code, out, messages := weir(t, "", append([]string{"plan"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(messages, c.says) {
			t.Errorf("%q: exit code %d: %s%s", c.args, code, out, messages)
		}
	}
}

// What is said of the keys in Redis is what a check says when the new file is in force.
func TestPlanOfKeys(t *testing.T) {
	l := server(t)
	burst, requests := core.Leaky(20, core.PerHour(1)).Named("burst"), core.SlidingWindow(10, 24*time.Hour).Named("requests")
	allow(t, l, core.Check{Key: "ip:1", Limit: burst, Cost: 15}, core.Check{Key: "ip:2", Limit: burst, Cost: 9}, core.Check{Key: "ip:3", Limit: burst, Cost: 20})
	allow(t, l, core.Check{Key: "ip:4", Limit: burst, Cost: 20, Shadow: true}, core.Check{Key: "ip:5", Limit: core.Leaky(20, core.PerHour(1)), Cost: 20})
	allow(t, l, core.Check{Key: "ip:6", Limit: burst, Cost: 18}, core.Check{Key: "user:1", Limit: requests, Cost: 7})
	was := policiesFile(t, oldFile)
	now := policiesFile(t, strings.NewReplacer("leaky 20,", "leaky 10,", "window 10,", "window 6,").Replace(oldFile))
	says(t, 0, []string{
		"Now, of 4 keys under burst: leaky 10, 1/h, the old numbers deny 1 and the new ones 3: 2 newly denied, 0 newly admitted.",
		"KEY USED A REQUEST ip:6 18 of 10 would be denied for", "ip:1 15 of 10 would be denied for",
		"of one key under requests: sliding-window 6, 1d, the old numbers deny 0 and the new ones 1: 1 newly denied, 0 newly admitted.", "Redis does not know the plans of keys",
	}, "plan", was, now)
	says(t, 0, []string{"the new ones 3", "ip:6"}, "plan", "-rows", "1", was, now)
	says(t, 0, []string{"of 4 keys under burst: leaky 20, 1/h, the old numbers deny 3 and the new ones 1: 0 newly denied, 2 newly admitted."}, "plan", now, was)
	plan := read[Plan](t, "plan", was, now)
	if len(plan.Now) != 2 || len(plan.Now[0].Denied) != 2 || plan.Now[0].Denied[0].Key != "ip:6" || plan.Now[0].Denied[0].Used != 18 {
		t.Errorf("%+v", plan.Now)
	}
	smaller := core.Leaky(10, core.PerHour(1)).Named("burst")
	for key, passes := range map[string]bool{"ip:1": false, "ip:2": true, "ip:3": false, "ip:6": false} {
		if d, err := l.Allow(t.Context(), key, smaller); err != nil || d.Allowed != passes {
			t.Errorf("%s: %+v, %v", key, d, err)
		}
	}
	if got := read[Plan](t, "plan", was, was); len(got.Now) != 0 {
		t.Errorf("%+v", got)
	}
}

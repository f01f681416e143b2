package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/guard"

	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
)

// The way of a new user, as docs/choosing-a-limit.md tells it: from the log of nginx to a limit that runs as a shadow, is enforced, and changes
// while requests run.
func TestFromALogToALimit(t *testing.T) {
	limiter := server(t)
	s := newSite(t, limiter)
	path := func(name string) string { return filepath.Join(s.dir, name) }

	// A log makes a proposal, as a file. The user adds a limit of their own.
	before := s.traffic(110, 1, 200)
	r := recommended(t, "", "-names", "plain", "-policies", path("proposal.yaml"), "-proposal", "tight", before)
	proposal := r.Proposals[2]
	if r.Log.Requests != 310 || r.Keys.Distinct != 111 || proposal.Keys != 1 || r.Denied[0].Key != greedy {
		t.Fatalf("%+v, %+v, %+v", r.Log, r.Keys, proposal)
	}
	answers(t, 0, "a shadow, which denies no request", "check", path("proposal.yaml"))
	text, err := os.ReadFile(path("proposal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The web server in front is at 127.0.0.1: the file says where to write that.
	limits, policy, _ := strings.Cut(strings.ReplaceAll(string(text), "ip trusted 192.0.2.1", "ip trusted 127.0.0.1"), "policies:\n")
	shadow := limits + "  daily: leaky 3, 3/d\npolicies:\n" + policy + strings.ReplaceAll(policy, "tight", "daily")
	answers(t, exitChanged, "4 added.", "plan", "-exit-code", s.limits, fileOf(s, "shadow.yaml", shadow))

	// It runs as a shadow. The log says of it what the server has counted.
	s.put(shadow)
	watched := s.traffic(110, 1, 100)
	if got, want := s.daily.Counts(), (guard.ComparisonCounts{BothAllow: 113, OnlyCandidateDenies: 97}); got != want {
		t.Errorf("the server counts %s, want %s", got, want)
	}
	result := simulated(t, "-names", "plain", s.limits, watched)
	daily, tight := outcomeOf(t, result, "daily"), outcomeOf(t, result, "tight")
	if daily.Denied != 97 || daily.Busiest[0].Key != "ip:"+greedy || tight.DeniedKeys != 1 {
		t.Errorf("simulated: %+v and %+v", daily, tight)
	}
	off := int(tight.Denied) - int(s.tight.Counts().OnlyCandidateDenies) // the log has whole seconds
	if off > 2*proposal.Doubt || -off > 2*proposal.Doubt {
		t.Errorf("simulated, tight denies %d, and the server counts %s", tight.Denied, s.tight.Counts())
	}
	top := read[Top](t, "top", "-policies", s.limits, "ip:"+greedy)
	if i := slices.IndexFunc(top.Limits, func(s Sum) bool { return s.Limit == "daily" && s.Shadow }); i < 0 || *top.Limits[i].Denied != 1 {
		t.Errorf("top: %+v", top.Limits)
	}

	// It is enforced while requests run: each meets one file, and only the greedy client is denied.
	enforced := strings.ReplaceAll(shadow, "    shadow: true\n", "")
	answers(t, exitChanged, "It denies now: it is no shadow any more.", "plan", "-exit-code", s.limits, fileOf(s, "enforced.yaml", enforced))
	s.during(func() {
		s.put(enforced)
		s.await("three requests pass in a day", func() bool { return s.passed.Load() == 3 })
	})
	if got := s.ask(t.Context(), greedy, 20); got[http.StatusTooManyRequests] != 20 || s.passed.Load() != 3 {
		t.Errorf("the greedy client got %v, and %d of its requests passed", got, s.passed.Load())
	}
	answers(t, exitDenied, "It would be denied with status 429.", "explain", s.limits, "GET /", "-from", "127.0.0.1", "-H", "X-Forwarded-For: "+greedy)
	answers(t, 0, "It would pass.", "explain", s.limits, "GET /", "-from", "127.0.0.1", "-H", "X-Forwarded-For: 127.2.0.1")
	if got := s.ask(t.Context(), "127.2.0.1", 1); got[http.StatusOK] != 1 {
		t.Errorf("who would pass got %v", got)
	}

	// Its number changes while requests run. The units used are kept.
	changed := strings.Replace(enforced, "daily: leaky 3,", "daily: leaky 5,", 1)
	answers(t, exitChanged, "1 newly admitted", "plan", "-exit-code", s.limits, fileOf(s, "changed.yaml", changed))
	s.during(func() {
		s.put(changed)
		s.await("two more requests pass", func() bool { return s.passed.Load() == 5 })
	})
	if got := s.ask(t.Context(), greedy, 20); got[http.StatusTooManyRequests] != 20 || s.passed.Load() != 5 {
		t.Errorf("the greedy client got %v, and %d of its requests passed", got, s.passed.Load())
	}
	answers(t, 0, "daily: leaky 5, 3/d 5 of 5", "peek", "-policies", s.limits, "ip:"+greedy)
	if n := s.mixed.Load(); n > 0 {
		t.Errorf("%d requests met policies of two files", n)
	}
}

// fileOf writes a file.
func fileOf(s *site, name, text string) string {
	s.t.Helper()
	s.write(filepath.Join(s.dir, name), text)
	return filepath.Join(s.dir, name)
}

func outcomeOf(t *testing.T, r simulate.Result, name string) simulate.Limit {
	t.Helper()
	i := slices.IndexFunc(r.Limits, func(l simulate.Limit) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no limit %s among %+v", name, r.Limits)
	}
	return r.Limits[i]
}

//go:build !race

// These tests read whole logs several times: make test runs them without the race detector, which takes eight times as long. The packages that
// read a log in several goroutines have tests of their own, and so has TestRecommendForARealLog.

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
	"github.com/weir-go/ratelimit/cmd/weir/internal/shoptest"
	"github.com/weir-go/ratelimit/core"
)

func TestRecommendForAShop(t *testing.T) {
	log := shopLog(t, 1, 400)
	r := recommended(t, "", "-names", "plain", log)
	if len(r.Proposals) != 3 || r.Proposals[0].Name != "invisible" || r.Proposals[0].Normal != 0 || r.Keys.Suspects != 5 || len(r.Days) != 1 {
		t.Fatalf("%+v, %+v", r.Proposals, r.Keys)
	}
	for _, p := range r.Proposals {
		limit, err := core.ParseLimit(p.Limit)
		if err != nil || limit.Name() != p.Name || limit.String() != p.Limit {
			t.Errorf("%q is read as %v, %v", p.Limit, limit, err)
		}
	}
	remarks := make(map[string]string)
	suspect := make(map[string]bool)
	for _, s := range r.Denied {
		remarks[s.Key] = strings.Join(s.Remarks, "; ")
		suspect[s.Key] = s.Suspect
	}
	for key, want := range map[string]string{
		shoptest.Scanner: "looks like abuse", shoptest.Guesser: "one or two paths", shoptest.Scraper: "a crawler", shoptest.Office: "many people",
		shoptest.Monitor: "as busy by night as by day",
	} {
		if !strings.Contains(remarks[key], want) {
			t.Errorf("of %s it says %q, and not that it is %s", key, remarks[key], want)
		}
	}
	if !suspect[shoptest.Scanner] || !suspect[shoptest.Guesser] || !suspect[shoptest.Scraper] || suspect[shoptest.Office] {
		t.Errorf("suspects: %v", suspect)
	}
}

// The report names no key of the log, unless it is asked to.
func TestKeysAreHashed(t *testing.T) {
	log := shopLog(t, 1, 100)
	page := filepath.Join(t.TempDir(), "page.html")
	_, out, messages := weir(t, "", "recommend", "-json", "-out", page, log)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err, messages)
	}
	for _, address := range []string{shoptest.Scanner, shoptest.Guesser, shoptest.Scraper, shoptest.Office, "10.1."} {
		if strings.Contains(out, address) || bytes.Contains(text, []byte(address)) {
			t.Errorf("%s is in the report", address)
		}
	}
	one, two, other := hashed("a")("key"), hashed("a")("key"), hashed("b")("key")
	random, again := hashed("")("key"), hashed("")("key")
	if one != two || one == other || random == again {
		t.Errorf("hashes: %s, %s, %s, %s, %s", one, two, other, random, again)
	}
}

// A proposal as a file makes sense, and denies whom the report says.
func TestProposalsAsFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range proposals {
		path := filepath.Join(dir, name+".yaml")
		r := recommended(t, "", "-late", "59s", "-route", "/", "-route", "GET /blog/{page...}", "-policies", path, "-proposal", name, realLog)
		p := r.Proposals[slices.IndexFunc(r.Proposals, func(p report.Proposal) bool { return p.Name == name })]
		code, out, messages := weir(t, "", "check", path)
		if want := name + ": / or GET /blog/{page...}; " + p.Limit + "; "; code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "a shadow") {
			t.Errorf("exit code %d: %s%s, want %s", code, out, messages, want)
		}
		if l := outcomeOf(t, simulated(t, "-late", "59s", path, realLog), name); !l.Shadow || l.Denied != p.Denied || l.DeniedKeys != p.Keys || int64(l.Requests) != r.Log.Requests {
			t.Errorf("%s denies %d requests of %d keys: simulate says %d of %d", p.Limit, p.Denied, p.Keys, l.Denied, l.DeniedKeys)
		}
		before, _ := os.ReadFile(path)
		if code, _, messages = weir(t, line, "recommend", "-out", filepath.Join(dir, "page.html"), "-policies", path, "-"); code != exitFailed || !strings.Contains(messages, "exists") {
			t.Errorf("over a file that is there: exit code %d: %s", code, messages)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("the file that was there is now\n%s", after)
		}
	}
	if code, _, messages := weir(t, line, "recommend", "-proposal", "loose", "-"); code != exitUsage {
		t.Errorf("exit code %d: %s", code, messages)
	}
	if code, _, messages := weir(t, strings.Repeat(strings.ReplaceAll(line, "200", "404"), 20), "recommend", "-out", filepath.Join(dir, "page.html"), "-policies", filepath.Join(dir, "none"), "-"); code != exitEmpty {
		t.Errorf("without a proposal: exit code %d: %s", code, messages)
	}
}

// What recommend says of a real log, the guard and the store in memory say as well: at each rate, the burst that all keys need denies nobody,
// and one less denies somebody; and each proposal denies as many requests, of as many keys.
func TestSimulateAgreesWithRecommendOnARealLog(t *testing.T) {
	r := recommended(t, "", "-late", "59s", realLog)
	var limits, policies strings.Builder
	shadow := func(name, limit string) {
		fmt.Fprintf(&limits, "  %s: %s\n", name, limit)
		fmt.Fprintf(&policies, "  - limit: %s\n    key: ip\n    shadow: true\n", name)
	}
	tried := 0
	for i := 0; i < len(r.Bursts); i += 4 {
		b := r.Bursts[i]
		tried++
		shadow("need"+strconv.Itoa(i), fmt.Sprintf("leaky %d, %s", b.MaxAll, b.Rate))
		if b.MaxAll > 1 {
			shadow("less"+strconv.Itoa(i), fmt.Sprintf("leaky %d, %s", b.MaxAll-1, b.Rate))
		}
	}
	proposals := make(map[string]report.Proposal)
	for _, p := range r.Proposals {
		proposals[p.Name] = p
		shadow(p.Name, strings.TrimPrefix(p.Limit, p.Name+": "))
	}
	result := simulated(t, "-late", "59s", policiesFile(t, "limits:\n"+limits.String()+"policies:\n"+policies.String()), realLog)
	less := 0
	for _, l := range result.Limits {
		p, proposed := proposals[l.Name]
		switch {
		case l.Requests != 10_000 || !l.Shadow:
			t.Errorf("%+v", l)
		case proposed:
			if l.Denied != p.Denied || l.DeniedKeys != p.Keys {
				t.Errorf("%s denies %d requests of %d keys, and recommend says %d of %d", p.Limit, l.Denied, l.DeniedKeys, p.Denied, p.Keys)
			}
		case strings.HasPrefix(l.Name, "less"):
			if less++; l.Denied == 0 {
				t.Errorf("%s denies nobody", l.Name)
			}
		case l.Denied > 0:
			t.Errorf("%s denies %d requests", l.Name, l.Denied)
		}
	}
	if less < tried/2 {
		t.Errorf("at %d of %d rates a key needs more than 1", less, tried)
	}
}

// One line with a wrong year changes no proposal, and is told of.
func TestOneWrongYearChangesNothing(t *testing.T) {
	var lines []string
	for i := range 3000 {
		lines = append(lines, combinedLine(fmt.Sprintf("192.0.2.%d", 1+i%200), "-", `"GET / HTTP/1.1"`, i))
	}
	proposals := func(r report.Report) (all []string) {
		for _, p := range r.Proposals {
			all = append(all, p.Limit)
		}
		return all
	}
	want := proposals(recommended(t, strings.Join(lines, ""), "-"))
	for _, at := range []int{0, 1500, 2999, 3000} {
		wrong := strings.Replace(combinedLine("192.0.2.7", "-", `"GET / HTTP/1.1"`, at), "2026", "2036", 1)
		log := strings.Join(slices.Insert(slices.Clone(lines), at, wrong), "")
		page := filepath.Join(t.TempDir(), "page.html")
		r := recommended(t, log, "-out", page, "-")
		if got := proposals(r); !slices.Equal(got, want) || r.Log.Aside != 1 || r.Log.Requests != 3000 {
			t.Errorf("as line %d: %q, want %q; %+v", at, got, want, r.Log)
		}
		const says = "1 of 3001 lines has a time far outside of the lines around it, and counts nowhere. Its time is 2036-11-22T08:"
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), says) {
			t.Errorf("the page does not say it: %v", err)
		}
		if code, out, _ := weir(t, log, "recommend", "-out", page, "-"); code != 0 || !strings.Contains(out, says) {
			t.Errorf("exit code %d: %s", code, out)
		}
		limits := policiesFile(t, "limits: {a: 'leaky 10, 1/s'}\npolicies: [{key: ip, limit: a}]\n")
		if code, out, messages := weir(t, log, "simulate", limits, "-"); code != 0 || !strings.Contains(out, says) {
			t.Errorf("exit code %d: %s%s", code, out, messages)
		}
	}
}

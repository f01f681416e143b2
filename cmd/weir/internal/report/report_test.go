//go:build !race

// Pages are written by one goroutine: make test runs it without the race detector, which takes ten times as long.

package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
	"github.com/weir-go/ratelimit/cmd/weir/internal/replay"
	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
	"github.com/weir-go/ratelimit/cmd/weir/internal/shoptest"
	"github.com/weir-go/ratelimit/policies"
)

var update = flag.Bool("update", false, "write the golden files")

// of returns the report of a log.
func of(t *testing.T, log []byte, keyText string, most int) *report.Report {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, log, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := accesslog.ParseKey(keyText)
	if err != nil {
		t.Fatal(err)
	}
	options := arrival.Options{Log: accesslog.Options{Key: key}, Keep: demand.Keep}
	tracker := demand.NewTracker(most)
	days := arrival.NewDays(time.UTC, tracker)
	summary, err := arrival.Read(t.Context(), []string{name}, options, nil, days)
	if err != nil {
		t.Fatal(err)
	}
	found := tracker.Demand()
	proposals := found.Propose(10*time.Minute, summary.Span(), 10*time.Minute)
	replayed := replay.New(found, proposals, time.UTC)
	options.Keep = replayed.Keep
	if _, err := arrival.Read(t.Context(), []string{name}, options, nil, replayed); err != nil {
		t.Fatal(err)
	}
	return report.New(report.Input{
		Files: []report.File{{Name: "access.log", Format: "combined"}}, Key: key, Horizon: 10 * time.Minute, Zone: time.UTC, Summary: summary,
		Days: days.All(), Demand: found, Proposals: proposals, Replay: replayed, Name: func(key string) string { return key },
	})
}

// shop returns the report of two days of a shop. Tests share it, and change nothing.
func shop(t *testing.T) *report.Report {
	t.Helper()
	if ofShop == nil {
		var log bytes.Buffer
		if err := shoptest.Write(&log, 1, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), 2, 300); err != nil {
			t.Fatal(err)
		}
		ofShop = of(t, log.Bytes(), "ip", 0)
	}
	return ofShop
}

var ofShop *report.Report

func page(t *testing.T, r *report.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var elements = regexp.MustCompile(`(?s)<(?:section|article)[^>]*id="[^"]*"|<svg[^>]*aria-label="[^"]*"|<h[123]>.*?</h[123]>|<th[ >].*?</th>|<dt>.*?</dt>|<pre>.*?</pre>|<div class="limit">.*?</div>`)

// The page has these parts in this order, and these numbers of a log that is always the same.
func TestPageStructure(t *testing.T) {
	text := page(t, shop(t))
	var parts strings.Builder
	for _, e := range elements.FindAllString(text, -1) {
		if !strings.Contains(e, "by the hour") {
			parts.WriteString(e + "\n")
		}
	}
	got := parts.String()
	const name = "testdata/structure.golden"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the page's structure is\n%s\nand %s has\n%s", got, name, want)
	}
}

var fetches = regexp.MustCompile(`(?i)<(?:script|link|img|iframe|object|embed)|\ssrc=|\shref=|url\(|@import`)

// The page needs no network, and its pictures are well formed.
func TestPageNeedsNothingElse(t *testing.T) {
	text := page(t, shop(t))
	if found := fetches.FindAllString(text, -1); len(found) > 0 {
		t.Errorf("the page has %q", found)
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(pictures) < 4 {
		t.Errorf("%d pictures", len(pictures))
	}
	for _, p := range pictures {
		d := xml.NewDecoder(strings.NewReader(p))
		for {
			if _, err := d.Token(); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatalf("%v in %.200s", err, p)
				}
				break
			}
		}
		if strings.Contains(p, "NaN") || strings.Contains(p, "Inf") || strings.Contains(p, "%!") {
			t.Errorf("no number in %.200s", p)
		}
	}
}

// Whatever a client sends, it stays text.
func TestPageEscapes(t *testing.T) {
	const evil = `<script>alert(1)</script>`
	var log bytes.Buffer
	for range 300 {
		log.WriteString(`x"><b>1</b> - - [22/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 404 1 "-" "` + evil + "\"\n")
	}
	log.WriteString(`192.0.2.1 - - [22/Nov/2026:08:00:02 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"` + "\n")
	text := page(t, of(t, log.Bytes(), "ip", 0))
	if strings.Contains(text, "<script>") || strings.Contains(text, "<b>1") || !strings.Contains(text, "&lt;script&gt;") {
		t.Error("what a client sent is part of the page")
	}
}

// A log of which no key is without signs of abuse, and one of a single request, have a page, too.
func TestPageOfLittle(t *testing.T) {
	const one = `192.0.2.1 - - [22/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 404 1 "-" "curl"` + "\n"
	if r := of(t, []byte(one), "ip", 0); len(r.Proposals) != 3 || r.Proposals[0].Burst != 1 || !strings.Contains(page(t, r), "Nobody.") {
		t.Errorf("one request: %+v", r.Proposals)
	}
	if r := of(t, []byte(strings.Repeat(one, 20)), "ip", 0); len(r.Proposals) != 0 || !strings.Contains(page(t, r), "There is none") {
		t.Errorf("abuse alone: %+v", r.Proposals)
	}
}

func TestPageOfTooManyKeys(t *testing.T) {
	var log bytes.Buffer
	for i := range 3000 {
		fmt.Fprintf(&log, "10.0.%d.%d - - [22/Nov/2026:08:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 1\n", i*7919%307/256, i*7919%307%256, i/60, i%60)
	}
	r := of(t, log.Bytes(), "ip", 50)
	text := page(t, r)
	if r.Keys.Exact || r.Keys.GivenUp == 0 || !strings.Contains(text, "may be too low by") {
		t.Errorf("%+v", r.Keys)
	}
	if r.Keys.Distinct < 290 || r.Keys.Distinct > 325 {
		t.Errorf("about %d keys of 307", r.Keys.Distinct)
	}
}

func TestShadowCode(t *testing.T) {
	const trusted = `keyfuncs.IP(keyfuncs.TrustedProxies("192.0.2.1"))`
	line := `10.0.0.1 - - [22/Nov/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 0 "r" "agent" "198.51.100.1"` + "\n"
	for key, want := range map[string]string{
		"ip": trusted, "header:Referer": `keyfuncs.Header("Referer")`, "header:X-Forwarded-For": trusted,
	} {
		r := of(t, []byte(line), key, 0)
		body := "package p\n\nfunc f() {\n\t" + strings.ReplaceAll(r.Proposals[0].Code, "\n", "\n\t") + "\n}\n"
		if formatted, err := format.Source([]byte(body)); err != nil || string(formatted) != body {
			t.Errorf("gofmt would write %s, %v", formatted, err)
		}
		if code := r.Proposals[0].Code; !strings.Contains(code, want) || !strings.Contains(code, "Shadow: true") {
			t.Errorf("%s: %s", key, code)
		}
		document, err := policies.Parse([]byte(r.Proposals[0].File))
		if err != nil || len(document.Policies) != 1 || !document.Policies[0].Shadow || document.Limits["invisible"].String() != r.Proposals[0].Limit {
			t.Fatalf("%s: %v\n%s", key, err, r.Proposals[0].File)
		}
		if _, err := document.Set(policies.Options{}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	r := of(t, []byte(`{"ts":1646861401.5,"status":200,"user":{"id":7}}`+"\n"), "json:.user.id", 0)
	if code := r.Proposals[0].Code; !strings.Contains(code, "// Return what your log calls user.id.\n\tBy: keyfuncs.User(userID),") {
		t.Error(code)
	}
	if file := r.Proposals[0].File; !strings.Contains(file, "# The key: return what your log calls user.id.\n") || !strings.Contains(file, "key: user\n") {
		t.Error(file)
	}
}

// The names in JSON are part of what scripts rely on.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := shop(t).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"bursts", "days", "denied", "frontier", "keys", "log", "peaks", "proposals", "unlisted"}; !slices.Equal(names, want) {
		t.Errorf("members %q, want %q", names, want)
	}
}

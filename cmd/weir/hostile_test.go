package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
)

// combinedLine is a line of nginx' log, at a second of one hour.
func combinedLine(address, user, request string, second int) string {
	return fmt.Sprintf("%s - %s [22/Nov/2026:08:%02d:%02d +0000] %s 200 12 \"-\" \"curl\"\n", address, user, second/60%60, second%60, request)
}

// A page that cannot be written leaves the one before it whole, and nothing beside it.
func TestFullDiskLeavesTheOldPage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "weir.html")
	if err := os.WriteFile(page, []byte("the old page"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	if err := replaceFile(page, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	text, err := os.ReadFile(page)
	entries, _ := os.ReadDir(dir)
	if err != nil || string(text) != "the old page" || len(entries) != 1 {
		t.Errorf("%q, %v; %v", text, err, entries)
	}
	if err = replaceFile(page, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(page)
	if text, err = os.ReadFile(page); err != nil || string(text) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v", text, err, info.Mode())
	}
}

// A client whose lines cannot be read is told of, by its address, wherever it would vanish.
func TestReportTellsWhatUnreadableLinesHide(t *testing.T) {
	const request = `"GET / HTTP/1.1"`
	var log strings.Builder
	for i := range 100 {
		log.WriteString(combinedLine("192.0.2.1", "-", request, i))
		log.WriteString(combinedLine("192.0.2.2", "x [y", request, i)) // read like any other
	}
	for range 7 {
		log.WriteString("192.0.2.9 - - [at noon] " + request + " 200 1\n")
	}
	log.WriteString(combinedLine("192.0.2.1", "-", "GET", 100) + "nonsense\n")
	const hidden = "9 of 209 lines could not be read, and count nowhere. By their addresses, 8 of them are of 192.0.2.9 (7), 192.0.2.1 (1)."
	const vanished = " Nothing here is about 192.0.2.9 (7): no line of theirs could be read."
	page := filepath.Join(t.TempDir(), "page.html")
	r := recommended(t, log.String(), "-names", "plain", "-out", page, "-")
	if want := []report.Unread{{Address: "192.0.2.9", Lines: 7, Vanished: true}, {Address: "192.0.2.1", Lines: 1}}; r.Log.Hidden != hidden+vanished || fmt.Sprint(r.Log.Unread) != fmt.Sprint(want) || r.Log.Requests != 200 {
		t.Errorf("%d requests; %s; %v", r.Log.Requests, r.Log.Hidden, r.Log.Unread)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), hidden+vanished) {
		t.Errorf("the page does not say it: %v", err)
	}
	if code, out, messages := weir(t, log.String(), "recommend", "-names", "plain", "-out", page, "-"); code != 0 || !strings.Contains(out, hidden+vanished) {
		t.Errorf("exit code %d: %s%s", code, out, messages)
	}
	if code, out, messages := weir(t, log.String(), "recommend", "-out", page, "-"); code != 0 || strings.Contains(out, "192.0.2.") {
		t.Errorf("exit code %d: without -names plain: %s%s", code, out, messages)
	}
	limits := policiesFile(t, "limits: {a: 'leaky 10, 1/s'}\npolicies: [{key: ip, limit: a}]\n")
	if code, out, messages := weir(t, log.String(), "simulate", "-names", "plain", limits, "-"); code != 0 || !strings.Contains(out, hidden) {
		t.Errorf("exit code %d: %s%s", code, out, messages)
	}
	if code, _, messages := weir(t, log.String(), "recommend", "-names", "plain", "-max-skipped", "0.01", "-out", page, "-"); code != exitUnreadable || !strings.Contains(messages, "192.0.2.9 (7)") {
		t.Errorf("exit code %d: %s", code, messages)
	}
}

// Where there is no place for temporary files, weir recommend reads the log twice, and says the same.
func TestRecommendWithoutAPlace(t *testing.T) {
	var log strings.Builder
	for i := range 3000 {
		log.WriteString(combinedLine(fmt.Sprintf("192.0.2.%d", i*i%50), "-", `"GET / HTTP/1.1"`, i))
	}
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var reports []report.Report
	for _, place := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		t.Setenv("TMPDIR", place)
		t.Setenv("TMP", place)
		reports = append(reports, recommended(t, "", "-names", "plain", name))
		if left, _ := os.ReadDir(place); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
	denies := func(c report.Cell) bool { return c.Denied != nil && *c.Denied > 0 }
	if !reflect.DeepEqual(reports[0], reports[1]) || !slices.ContainsFunc(reports[0].Frontier, denies) {
		t.Error("the reports differ, or deny nothing")
	}
}

// A line of many megabytes is one that cannot be read, and those around it can be.
func TestOneEndlessLine(t *testing.T) {
	var log strings.Builder
	log.WriteString(strings.Repeat("x", 3<<20) + "\n")
	for i := range 20 {
		log.WriteString(combinedLine("192.0.2.1", "-", `"GET / HTTP/1.1"`, i))
	}
	log.WriteString(strings.Repeat("y", 30<<20))
	page := filepath.Join(t.TempDir(), "page.html")
	r := recommended(t, log.String(), "-out", page, "-")
	if r.Log.Requests != 20 || r.Log.Skipped != 2 || r.Log.Lines != 22 || r.Log.FirstBad == nil || r.Log.FirstBad.Why != "the line is longer than 1 MiB" {
		t.Errorf("%+v", r.Log)
	}
}

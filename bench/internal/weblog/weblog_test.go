package weblog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/bench/internal/weblog"
)

var combined = regexp.MustCompile(`^(\d+\.\d+\.\d+\.\d+) - - \[(.{26})\] "GET /products/\d+ HTTP/1\.1" (200|404) \d+ "-" "[^"]+"$`)

// The lines are what they should look like, in the order of time, and of as many addresses as Write says.
func TestWrite(t *testing.T) {
	const lines = 3_000
	for _, format := range []weblog.Format{weblog.Combined, weblog.JSON} {
		var log bytes.Buffer
		keys, err := weblog.Write(&log, format, lines)
		if err != nil {
			t.Fatal(err)
		}
		seen, last := map[string]bool{}, time.Time{}
		count := 0
		for line := range strings.Lines(log.String()) {
			address, at := read(t, format, strings.TrimSuffix(line, "\n"))
			if at.Before(last) {
				t.Fatalf("%q stands behind a younger line", line)
			}
			seen[address], last = true, at
			count++
		}
		if count != lines || len(seen) != keys || keys < lines/10 || keys == lines {
			t.Errorf("format %d: %d lines of %d addresses; want %d of %d", format, count, len(seen), lines, keys)
		}
	}
}

func read(t *testing.T, format weblog.Format, line string) (address string, at time.Time) {
	t.Helper()
	if format == weblog.Combined {
		found := combined.FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("%q", line)
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", found[2])
		if err != nil {
			t.Fatal(err)
		}
		return found[1], at
	}
	var caddy struct {
		Seconds float64 `json:"ts"`
		Status  int     `json:"status"`
		Request struct {
			Address string `json:"client_ip"`
			URI     string `json:"uri"`
		} `json:"request"`
	}
	if err := json.Unmarshal([]byte(line), &caddy); err != nil || caddy.Status < 200 || !strings.HasPrefix(caddy.Request.URI, "/products/") {
		t.Fatalf("%q: %v", line, err)
	}
	return caddy.Request.Address, time.UnixMicro(int64(caddy.Seconds * 1e6))
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteFails(t *testing.T) {
	var w io.Writer = full{}
	if _, err := weblog.Write(w, weblog.JSON, 10); !errors.Is(err, errFull) {
		t.Errorf("%v, want %v", err, errFull)
	}
}

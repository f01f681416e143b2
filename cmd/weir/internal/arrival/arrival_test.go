package arrival_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collected is a Sink that keeps everything.
type collected struct{ all []arrival.Arrival }

func (c *collected) Second(arrivals []arrival.Arrival) {
	for _, a := range arrivals {
		a.Key = bytes.Clone(a.Key)
		c.all = append(c.all, a)
	}
}

// of returns the instants of a key, in seconds since noon.
func (c *collected) of(key string) []float64 {
	var all []float64
	for _, a := range c.all {
		if string(a.Key) == key {
			all = append(all, float64(a.Instant-noon.UnixMicro())/1e6)
		}
	}
	return all
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// plain is a line of a log that tells whole seconds, and exact is one that tells more.
func plain(key string, second float64) string {
	at := noon.Add(time.Duration(second * float64(time.Second)))
	return fmt.Sprintf("%s - - [%s] \"GET /a HTTP/1.1\" 200 1 \"-\" \"agent\"\n", key, at.Format("02/Jan/2006:15:04:05 -0700"))
}

func exact(key string, second float64) string {
	at := noon.Add(time.Duration(second * float64(time.Second)))
	return fmt.Sprintf("{\"ts\":%d.%06d,\"remote_addr\":%q,\"status\":200,\"method\":\"GET\",\"uri\":\"/a\"}\n", at.Unix(), at.Nanosecond()/1000, key)
}

func file(t testing.TB, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, o arrival.Options, files ...string) (*collected, arrival.Summary) {
	t.Helper()
	var c collected
	summary, err := arrival.Read(t.Context(), files, o, nil, &c)
	if err != nil {
		t.Fatal(err)
	}
	return &c, summary
}

func TestWholeSecondsAreSpread(t *testing.T) {
	c, s := read(t, arrival.Options{}, file(t, plain("a", 0), plain("b", 0), plain("a", 0), plain("a", 0), plain("a", 0), plain("a", 1)))
	if got, want := c.of("a"), []float64{0, 0.25, 0.5, 0.75, 1}; !slices.Equal(got, want) {
		t.Errorf("at %v, want %v", got, want)
	}
	if got := c.of("b"); !slices.Equal(got, []float64{0}) {
		t.Errorf("at %v", got)
	}
	if s.Whole != 6 || s.Lines != 6 || s.Arrivals != 6 || s.Span() != 2*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestOrder(t *testing.T) {
	log := file(t, exact("a", 3), exact("a", 1.5), exact("a", 1.25), exact("a", 9), exact("a", 2), exact("a", 30), exact("a", 4), exact("a", 20))
	c, s := read(t, arrival.Options{Late: 10 * time.Second}, log)
	if got, want := c.of("a"), []float64{1.25, 1.5, 2, 3, 9, 20, 20, 30}; !slices.Equal(got, want) || s.Late != 1 || s.Behind != 26*time.Second || s.Span() != 28*time.Second+750*time.Millisecond {
		t.Errorf("at %v, %d late by up to %v; want %v", got, s.Late, s.Behind, want)
	}
	if says := s.Disorder(); says != "1 of 8 lines stood behind younger ones by up to 26s, and count at a later instant than they name. -late 26s reads them at their instant." {
		t.Error(says)
	}
	s.Behind = arrival.MostLate + time.Second
	if says := s.Disorder(); !strings.HasSuffix(says, "Sort the log by time.") {
		t.Error(says)
	}
	if c, s = read(t, arrival.Options{Late: 26 * time.Second}, log); s.Late != 0 || s.Disorder() != "" || !slices.Contains(c.of("a"), 4) {
		t.Errorf("with time enough: at %v, %d late by up to %v", c.of("a"), s.Late, s.Behind)
	}
	if _, s = read(t, arrival.Options{Late: 25 * time.Second}, log); s.Late != 1 {
		t.Errorf("with a second less, %d are late", s.Late)
	}
}

// What several servers logged is one sequence, and the order in which their logs are named does not matter.
func TestMerge(t *testing.T) {
	one := file(t, exact("a", 0), exact("a", 100), exact("a", 200.5))
	two := file(t, plain("a", 50), plain("a", 150), plain("a", 200))
	later := file(t, exact("a", 300))
	empty := file(t)
	for _, files := range [][]string{{one, two, later, empty}, {later, empty, two, one}} {
		c, s := read(t, arrival.Options{}, files...)
		if got, want := c.of("a"), []float64{0, 50, 100, 150, 200, 200.5, 300}; !slices.Equal(got, want) || s.Late != 0 {
			t.Errorf("at %v, %d late; want %v", got, s.Late, want)
		}
		if s.Formats[one] != "json" || s.Formats[two] != "combined" || s.Formats[empty] != "" {
			t.Errorf("formats: %v", s.Formats)
		}
	}
}

// Nothing is lost or invented, however many workers parse and whatever the order of the lines.
func TestAllArrive(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var lines []string
		n := rapid.IntRange(1, 150).Draw(r, "lines")
		at := 0.0
		for i := range n {
			at += rapid.SampledFrom([]float64{0, 0.001, 0.4, -0.3, 5}).Draw(r, "apart")
			lines = append(lines, exact(fmt.Sprint("key", i%7), max(at, 0)))
		}
		c, s := read(t, arrival.Options{Workers: rapid.IntRange(1, 4).Draw(r, "workers")}, file(t, lines...))
		if len(c.all) != n || s.Arrivals != int64(n) || s.Late != 0 {
			r.Fatalf("%d of %d, %+v", len(c.all), n, s)
		}
		if !slices.IsSortedFunc(c.all, func(a, b arrival.Arrival) int { return int(a.Instant - b.Instant) }) {
			r.Fatal("out of order")
		}
	})
}

func TestLinesThatDoNotCount(t *testing.T) {
	route, err := arrival.NewRoute("GET /a", "POST /orders/{id}")
	if err != nil {
		t.Fatal(err)
	}
	log := file(t, plain("a", 0), "nonsense\n", "\n", plain("-", 1), strings.Replace(plain("b", 2), "GET /a", "POST /orders/7?x=%zz", 1),
		strings.Replace(plain("c", 2), "GET /a", "GET /orders/7", 1), strings.Replace(plain("c", 2), "GET /a", "GET /%zz", 1), "more\r\n")
	c, s := read(t, arrival.Options{Route: route}, log)
	if s.Lines != 8 || s.Arrivals != 2 || s.OtherRoute != 2 || s.Keyless != 1 || s.Skipped != 2 || len(c.all) != 2 {
		t.Errorf("%+v", s)
	}
	if b := s.FirstBad; b == nil || b.Line != 2 || b.Text != "nonsense" || b.Why == "" || b.File != log {
		t.Errorf("the first bad line: %+v", b)
	}
	for _, patterns := range [][]string{{"GET a"}, {"/a/{x}", "/a/{y}"}} {
		if _, err := arrival.NewRoute(patterns...); err == nil {
			t.Errorf("%q are no error", patterns)
		}
	}
}

// A request whose target is no path, such as "OPTIONS *", meets no route, as weir simulate skips it.
func TestRequestsWithoutAPathMeetNoRoute(t *testing.T) {
	route, err := arrival.NewRoute("/")
	if err != nil {
		t.Fatal(err)
	}
	log := file(t, plain("a", 0), strings.Replace(plain("a", 1), "GET /a", "OPTIONS *", 1), strings.Replace(plain("a", 2), "GET /a", "CONNECT a.example:443", 1))
	if _, s := read(t, arrival.Options{Route: route}, log); s.Arrivals != 1 || s.OtherRoute != 2 {
		t.Errorf("%+v", s)
	}
}

func TestKeep(t *testing.T) {
	parts := map[uint64]arrival.Part{arrival.Hash([]byte("b")): arrival.When, arrival.Hash([]byte("c")): arrival.All}
	c, _ := read(t, arrival.Options{Keep: func(hash uint64) arrival.Part { return parts[hash] }},
		file(t, plain("a", 0), plain("b", 0), plain("c", 0), plain("a", 1)))
	if len(c.all) != 2 {
		t.Fatalf("%+v", c.all)
	}
	if b := c.all[0]; string(b.Key) != "b" || b.Instant != noon.UnixMicro() || b.Agent != "" || b.Path != 0 {
		t.Errorf("of b, whose path nobody needs: %+v", b)
	}
	if all := c.all[1]; string(all.Key) != "c" || all.Agent != "agent" || all.Path == 0 {
		t.Errorf("of c, all of which is needed: %+v", all)
	}
}

func TestReadFails(t *testing.T) {
	var c collected
	good := file(t, plain("a", 0))
	if _, err := arrival.Read(t.Context(), []string{good, good + "x"}, arrival.Options{}, nil, &c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := arrival.Read(t.Context(), []string{file(t, "hello\n")}, arrival.Options{}, nil, &c); !errors.Is(err, accesslog.ErrUnknown) {
		t.Errorf("a text: %v", err)
	}
	key, _ := accesslog.ParseKey("json:.user")
	if _, err := arrival.Read(t.Context(), []string{good}, arrival.Options{Log: accesslog.Options{Key: key}}, nil, &c); err == nil {
		t.Error("a key that is not in the log is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := arrival.Read(ctx, []string{good}, arrival.Options{}, nil, &c); !errors.Is(err, context.Canceled) {
		t.Errorf("a reading that was cancelled: %v", err)
	}
}

// A day has 23 hours when clocks go forward, and 25 when they go back.
func TestDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from  time.Time
		hours []int
	}{{time.Date(2026, 3, 28, 0, 0, 0, 0, berlin), []int{24, 23, 24}}, {time.Date(2026, 10, 24, 0, 0, 0, 0, berlin), []int{24, 25, 24}}} {
		days := arrival.NewDays(berlin, &collected{})
		for at := c.from; at.Before(c.from.AddDate(0, 0, len(c.hours))); at = at.Add(time.Hour) {
			days.Second([]arrival.Arrival{{Instant: at.UnixMicro()}})
		}
		var got []int
		for _, d := range days.All() {
			got = append(got, int(d.Requests))
		}
		if !slices.Equal(got, c.hours) {
			t.Errorf("days from %v have %v hours, want %v", c.from, got, c.hours)
		}
	}
}

// JSON is recognised behind a first line that is no JSON, however long that is.
func TestFormatBehindALongLine(t *testing.T) {
	for _, length := range []int{10, 64 << 10, 300 << 10, 5 << 20} {
		c, s := read(t, arrival.Options{}, file(t, strings.Repeat("x", length)+"\n", exact("a", 1), exact("a", 2)))
		if len(c.all) != 2 || s.Skipped != 1 {
			t.Errorf("behind %d bytes: %d requests, %d lines could not be read", length, len(c.all), s.Skipped)
		}
	}
}

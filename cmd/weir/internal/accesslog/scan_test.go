package accesslog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bothWays returns a parser that scans lines, and one that reads all of them.
func bothWays(o Options) (scanning, whole *jsonLines) {
	o.Zone = time.UTC
	scanning, whole = newJSONLines(o), newJSONLines(o)
	whole.scanner = nil
	return scanning, whole
}

// wholeOptions ask for all that a line says.
func wholeOptions() Options {
	header, _ := ParseKey("header:X-Api-Key")
	field, _ := ParseKey("json:.user.id")
	return Options{Whole: true, Values: []Key{{}, header, field}}
}

// sameRecord fails unless a line that is whole says the same to both.
func sameRecord(t interface {
	Errorf(format string, args ...any)
}, scanning, whole *jsonLines, line string,
) {
	var a, b Record
	errA, errB := scanning.Parse([]byte(line), &a), whole.Parse([]byte(line), &b)
	if errB == errNoObject && !scanning.whole { //nolint:errorlint // it is returned as it is
		return // what is left out may be nonsense
	}
	if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
		t.Errorf("%s: %v, and whole %v", line, errA, errB)
		return
	}
	if errA == nil {
		scanning.Details(&a)
		whole.Details(&b)
	}
	if recordOf(&a) != recordOf(&b) {
		t.Errorf("%s:\n     %v\nwhole %v", line, recordOf(&a), recordOf(&b))
	}
}

func recordOf(r *Record) [9]string {
	whole := "exact"
	if r.Whole {
		whole = "whole"
	}
	rest := fmt.Sprintf("%q %q %q", r.Address, r.Header, r.Values)
	return [9]string{rest, time.UnixMicro(r.Instant).UTC().String(), whole, string(r.Key), string(r.Method), string(r.Host), string(r.Path), string(r.Agent), string(rune('0' + r.Status/100))}
}

// A line that is scanned says what it says when all of it is read: whichever of the names it has, in whichever order and how often, with whatever beside it.
func TestScannedLinesSayTheSame(t *testing.T) {
	const other = `{"ts":1,"status":200,"ip":"a","request_X-A":"b","headers":{"X-B":"c"},"request":{"headers":{"X-C":["d"]}},"user":{"id":1}}`
	header, _ := ParseKey("header:X-Api-Key")
	field, _ := ParseKey("json:.user.id")
	names := []string{
		"ts", "time", "msec", "remote_addr", "ClientHost", "ip", "status", "code", "method", "request_method", "uri", "path", "host", "user_agent", "agent",
		"request", "headers", "client_ip", "User-Agent", "request_X-A", "request_uri", "request_", "http_x_b", "http_", "Host", "", "X-Api-Key", "user", "id", "other", `na"me`, "ü",
	}
	rapid.Check(t, func(t *rapid.T) {
		escapes := rapid.IntRange(0, 9).Draw(t, "escapes") == 0 // of all names: of a name that comes in two ways, which one counts does not matter
		var value func(depth int) string
		object := func(depth int) string {
			var members []string
			for range rapid.IntRange(0, 7).Draw(t, "members") {
				name, _ := json.Marshal(rapid.SampledFrom(names).Draw(t, "name"))
				if escapes {
					name = []byte(strings.ReplaceAll(string(name), "s", `\u0073`))
				}
				members = append(members, string(name)+rapid.SampledFrom([]string{":", ": ", " :\t"}).Draw(t, "colon")+value(depth-1))
			}
			return "{" + strings.Join(members, rapid.SampledFrom([]string{",", ", "}).Draw(t, "comma")) + "}"
		}
		value = func(depth int) string {
			kinds := []string{"text", "number", "known", "known"}
			if depth > 0 {
				kinds = append(kinds, "object", "list")
			}
			switch rapid.SampledFrom(kinds).Draw(t, "kind") {
			case "text":
				text, _ := json.Marshal(rapid.StringN(0, 6, -1).Draw(t, "text"))
				return string(text)
			case "number":
				return rapid.SampledFrom([]string{"0", "-1.5e3", "true", "false", "null", "200", "1790000000.5"}).Draw(t, "number")
			case "object":
				return object(depth)
			case "list":
				return rapid.SampledFrom([]string{"[]", "[ ]", `["a\"]}"]`, `[ "x" , 1]`, "[[1],{}]", "[" + value(depth-1) + "," + value(depth-1) + "]"}).Draw(t, "list")
			}
			return rapid.SampledFrom([]string{
				"1790000000", `"2026-11-22T08:00:01Z"`, "401", `"200"`, `"192.0.2.1"`, `"GET"`, `"/a?b"`, `"GET /a HTTP/1.1"`, `"curl \\ \"x\""`, `["curl"]`, `"\u0031.2.3.4"`,
			}).Draw(t, "known")
		}
		line := object(3)
		if rapid.Bool().Draw(t, "usual") {
			line = `{"ts":1790000000,"status":200,"ip":"192.0.2.1",` + strings.TrimPrefix(line, "{")
			line = strings.Replace(line, ",}", "}", 1)
		}
		for _, o := range []Options{{}, {Key: header}, {Key: field}, wholeOptions()} {
			scanning, whole := bothWays(o)
			for _, line := range []string{line, line, other, line} {
				sameRecord(t, scanning, whole, line)
			}
			for i := range line {
				var r Record
				if scanning.Parse([]byte(line[:i]), &r) == nil {
					t.Errorf("%s is read, which is cut", line[:i])
				}
			}
		}
	})
}

// Where all of a line is asked for, one that is no JSON is refused, wherever the fault is, and one that the parser takes for JSON is read.
func TestWholeLinesAreReadAsTheParserReadsThem(t *testing.T) {
	const usual = `{"ts":1,"status":200,"ip":"a","x":[1,-Inf,nan,{"a" : [ ],"b":true},null],"headers":{"A":"b","C":{}},"y":false,"http_z":2}`
	scanning, whole := bothWays(wholeOptions())
	for from := range usual {
		for _, without := range []int{0, 1, 2, 5} {
			for _, with := range []string{"", "1", " ", `"`, `\`, ",", ":", "}", "]", "{", "[", "-", "e", "x", "nul", "true", "INF", `"b":1,`} {
				sameRecord(t, scanning, whole, usual)
				sameRecord(t, scanning, whole, usual[:from]+with+usual[min(len(usual), from+without):])
			}
		}
	}
	for depth := 290; depth < 310; depth++ {
		for _, name := range []string{"x", "headers"} {
			lists, objects := strings.Repeat("[", depth)+strings.Repeat("]", depth), strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)
			sameRecord(t, scanning, whole, `{"ts":1,"status":200,"ip":"a","`+name+`":`+lists+`}`)
			sameRecord(t, scanning, whole, `{"ts":1,"status":200,"ip":"a","`+name+`":`+objects+`}`)
		}
	}
}

// scanned returns what a scanner finds in a line.
func scanned(s *scanner, line string) string {
	if !s.scan([]byte(line)) {
		return "no object"
	}
	return fmt.Sprintf("%q", s.values)
}

// What a scanner remembers of other lines changes nothing: neither where a line is much like the one before, nor where that was broken.
func TestScannersForgetWhatDoesNotStandThere(t *testing.T) {
	const usual = `{"a":{"x":1,"y":"z"},"b":"text","c":[1,{"d":2}],"e":12.5,"f" : null,"a":3,"g":"\"","k":{"x":1},"k":{"x":2},"h":{}}`
	made := func() *scanner {
		s := newScanner()
		for _, path := range [][]string{{"a"}, {"a", "x"}, {"b"}, {"c"}, {"e"}, {"f"}, {"k", "x"}, {"h", "x"}} {
			s.add(path)
		}
		return s
	}
	if got, want := scanned(made(), usual), `["{\"x\":1,\"y\":\"z\"}" "1" "\"text\"" "[1,{\"d\":2}]" "12.5" "null" "1" ""]`; got != want {
		t.Fatalf("found %s, want %s", got, want)
	}
	remembering := made()
	for from := range usual {
		for _, without := range []int{0, 1, 2, 5} {
			for _, with := range []string{"", "1", " ", `"`, `\`, ",", ":", "}", "]", "{", `"a":{"x":4},`, `"b":"other",`} {
				line := usual[:from] + with + usual[min(len(usual), from+without):]
				want := scanned(made(), line)
				for _, before := range []string{usual, line} { // the line itself is read twice
					scanned(remembering, before)
					if got := scanned(remembering, line); got != want {
						t.Fatalf("behind %s, %s: found %s, want %s", before, line, got, want)
					}
				}
			}
		}
	}
}

// What is remembered is bounded, however many fields lines have and however long they are.
func TestScannersRememberLittle(t *testing.T) {
	s := newScanner()
	s.add([]string{"in", "y"})
	for range 3 {
		var line strings.Builder
		line.WriteString(`{"in":{`)
		for i := range 10 * mostRemembered {
			fmt.Fprintf(&line, `"%s%d":"%s",`, strings.Repeat("n", i), i, strings.Repeat("v", 20*i))
		}
		line.WriteString(`"y":1},"z":2}`)
		if got := scanned(s, line.String()); !strings.Contains(got, `"1"`) {
			t.Fatal(got)
		}
	}
	for _, b := range []*branch{&s.root, s.root.find([]byte("in"))} {
		if len(b.before) > mostRemembered || len(b.before) == 0 {
			t.Errorf("%d fields are remembered", len(b.before))
		}
		for _, f := range b.before {
			if cap(f.text) > 2*longestRemembered {
				t.Errorf("a field takes %d bytes", cap(f.text))
			}
		}
	}
}

// No line makes the scanner panic, and what both read is the same.
func FuzzScannedLines(f *testing.F) {
	for _, line := range []string{
		`{"ts":1,"status":200,"remote_addr":"a"}`, `{"request":{"headers":{"User-Agent":["x"]},"client_ip":"::1"},"request":{}}`, `{"a":[{"b":"]}\\"}],"ts":"x"} `,
		`{"ts":1}{`, `{"":[}`, `{"a\u0062":1,}`,
		`{"ts":1,"status":200,"ip":"a","x":[1, -Inf,nAn,nan,{"a" : [] },e,--1],"headers":{"A":"b","A":"c","X-Api-Key":["d"]},"http_b":{},"user":{"id":7}}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, o := range []Options{{}, wholeOptions()} {
			scanning, whole := bothWays(o)
			for range 2 {
				sameRecord(t, scanning, whole, line)
			}
		}
	})
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// realLog is a log of Apache: testdata/README.md says whose. Its lines are out of order by up to 59 seconds.
var realLog = filepath.Join("testdata", "apache-2015.log.gz")

// All lines of a real log are read, and the report says what stands out in the requests of those whom the proposals deny.
func TestRecommendForARealLog(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	r := recommended(t, "", "-names", "plain", "-late", "59s", "-out", page, realLog)
	if l := r.Log; l.Lines != 10_000 || l.Requests != 10_000 || l.WholeSeconds != 10_000 || l.Skipped+l.Keyless+l.Late != 0 || l.Files[0].Format != "combined" {
		t.Errorf("%+v", l)
	}
	crawlers := r.Keys.Suspects == 4 || r.Keys.Suspects == 5 // of one, about every second path is another: how many they are is an estimate
	if r.Keys.Distinct != 1753 || !r.Keys.Exact || !crawlers || len(r.Days) != 4 || len(r.Proposals) != 3 {
		t.Errorf("%+v, %d days, %d proposals", r.Keys, len(r.Days), len(r.Proposals))
	}
	remarks := make(map[string]string)
	for _, s := range r.Denied {
		remarks[s.Key] = strings.Join(s.Remarks, "; ")
	}
	const google, crawler = "66.249.73.135", "130.237.218.86"
	if got := remarks[google]; !strings.Contains(got, "calls itself a robot") || strings.Contains(got, "many people") {
		t.Errorf("of a search engine: %s", got)
	}
	if got := remarks[crawler]; !strings.Contains(got, "hardly asks for a path twice") || strings.Contains(got, "abuse") {
		t.Errorf("of a crawler: %s", got)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), google) || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("the page has %d bytes: %v", len(text), err)
	}
}

// A log that is out of order is read, and the report says by how much, and what to do.
func TestRecommendSaysThatALogIsOutOfOrder(t *testing.T) {
	const want = "7813 of 10000 lines stood behind younger ones by up to 59s, and count at a later instant than they name. -late 59s reads them at their instant."
	page := filepath.Join(t.TempDir(), "page.html")
	code, _, messages := weir(t, "", "recommend", "-out", page, realLog)
	if text, err := os.ReadFile(page); err != nil || code != 0 || !strings.Contains(messages, want) || !strings.Contains(string(text), want) {
		t.Errorf("exit code %d, %v: %s", code, err, messages)
	}
}

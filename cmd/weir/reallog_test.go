package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
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

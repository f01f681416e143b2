//go:build !race

package demand

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// A label says who sends a request.
type label int

const (
	person label = iota // also one of an office
	robot               // a search engine, a monitor, a partner's program, feed readers
	scraper
	stuffing
	labels
)

// labelled is a request, and who has sent it.
type labelled struct {
	arrival.Arrival

	by label
}

// A site is ten days of traffic of which is known who has sent what.
type site struct {
	random   *rand.Rand
	begin    int64
	requests []labelled
}

var pathSeed = maphash.MakeSeed()

func (s *site) add(by label, at float64, address, request string, status uint16, agent string) {
	s.requests = append(s.requests, labelled{arrival.Arrival{
		Instant: s.begin + int64(at*1e6), Hash: maphash.String(pathSeed, address), Key: []byte(address), Path: maphash.String(pathSeed, request),
		AgentHash: maphash.String(pathSeed, agent), Agent: request, Status: status,
	}, by})
}

// browse adds a visit: perhaps a login, pages with what they are made of, and some who leave a page open that asks for news.
func (s *site) browse(at float64, address, agent string, pages int) {
	if s.random.IntN(3) == 0 {
		for s.random.IntN(8) == 0 { // a typing error
			s.add(person, at, address, "POST /login", 401, agent)
			at += 3 + 10*s.random.Float64()
		}
		s.add(person, at, address, "POST /login", 200, agent)
	}
	for range pages {
		status := uint16(200)
		if s.random.IntN(40) == 0 {
			status = 404
		}
		s.add(person, at, address, fmt.Sprintf("GET /p/%d", s.random.IntN(3000)), status, agent)
		for part := range 2 + s.random.IntN(14) {
			s.add(person, at+2*s.random.Float64(), address, fmt.Sprintf("GET /a/%d", part), 200, agent)
		}
		at += 2 + s.random.ExpFloat64()*25
	}
	if s.random.IntN(50) == 0 {
		for range s.random.IntN(400) {
			s.add(person, at, address, "GET /news", 200, agent)
			at += 15
		}
	}
}

// daytime returns a second of the day: more often by day than by night.
func (s *site) daytime() float64 {
	for {
		hour := 24 * s.random.Float64()
		if weight := 0.1 + max(0, 1-(hour-17)*(hour-17)/80); s.random.Float64() < weight {
			return hour * 3600
		}
	}
}

// every adds requests some seconds apart, not quite evenly.
func (s *site) every(by label, from, until, apart float64, address string, request func() string, status uint16, agent func() string) {
	for at := from; at < until; at += apart * (0.7 + 0.6*s.random.Float64()) {
		s.add(by, at, address, request(), status, agent())
	}
}

func newSite(seed uint64, people int) *site {
	s := &site{random: rand.New(rand.NewPCG(seed, 3)), begin: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).UnixMicro()}
	text := func(text string) func() string { return func() string { return text } }
	numbered := func(prefix string, n int) func() string {
		return func() string { return fmt.Sprint(prefix, s.random.IntN(n)) }
	}
	for day := range 10 {
		midnight := float64(day) * 86400
		for range people {
			pages := 1 + int(s.random.ExpFloat64()*4)
			if s.random.IntN(100) == 0 {
				pages = 40 + s.random.IntN(60)
			}
			n := s.random.IntN(8 * people)
			s.browse(midnight+s.daytime(), fmt.Sprint("person ", n), fmt.Sprint("browser ", n%40), pages)
		}
		for office := range 3 {
			for someone := range 15 << office {
				for range 3 {
					at := midnight + 8*3600 + 9*3600*s.random.Float64()
					s.browse(at, fmt.Sprint("office ", office), fmt.Sprint("browser ", someone), 1+s.random.IntN(8))
				}
			}
		}
		until := midnight + 86400
		for i := range 2 {
			s.every(robot, midnight, until, 20, fmt.Sprint("search engine ", i), numbered("GET /p/", 1_000_000), 200, text("Searchbot"))
			s.every(robot, midnight, until, 30, fmt.Sprint("monitor ", i), text("GET /health"), 200, text("monitor"))
		}
		for hour := range 24 {
			for i := range 100 {
				s.add(robot, midnight+float64(hour)*3600+float64(i)/5, "partner", fmt.Sprintf("GET /api/prices/%d", i), 200, "partner")
			}
		}
		for i := range 20 {
			s.every(robot, midnight, until, 900, fmt.Sprint("feed reader ", i), text("GET /feed"), 200, text("reader"))
		}
		s.every(scraper, midnight+3600, midnight+4*3600, 0.5, "scraper 0", numbered("GET /p/", 1_000_000), 200, text("browser 1"))
		s.every(scraper, midnight, until, 10, "scraper 1", numbered("GET /p/", 1_000_000), 200, numbered("browser ", 40))
		login := text("POST /login")
		for i := range 4 { // those who fail with 401
			at := midnight + 86400*0.8*s.random.Float64()
			s.every(stuffing, at, at+3600, 0.5+float64(i)/2, fmt.Sprint("stuffing ", day, i), login, 401, numbered("browser ", 40))
		}
		at := midnight + 86400*0.8*s.random.Float64() // one whom the site answers with a page that says so
		s.every(stuffing, at, at+3600, 1, "stuffing", login, 200, text("browser 2"))
	}
	slices.SortStableFunc(s.requests, func(a, b labelled) int { return cmp.Compare(a.Instant, b.Instant) })
	return s
}

// judge proposes limits for the requests that count, and returns what part of each label's requests they would have denied.
func (s *site) judge(t *testing.T, counts func(request string) bool) map[string][labels]float64 {
	t.Helper()
	tracker := NewTracker(0)
	var of []labelled
	for i := range s.requests {
		if counts(s.requests[i].Agent) {
			of = append(of, s.requests[i])
			tracker.Second([]arrival.Arrival{s.requests[i].Arrival})
		}
	}
	found := tracker.Demand()
	for _, k := range found.Keys {
		if k.Signs != 0 {
			t.Logf("%s (%d requests): %s", k.Text, k.Requests, k.Signs)
		}
	}
	shares := make(map[string][labels]float64)
	for _, p := range found.Propose(10*time.Minute, 10*24*time.Hour, 10*time.Minute) {
		interval := intervals[p.Cell.Rate]
		empty := make(map[uint64]int64)
		var denied, all [labels]float64
		for i := range of {
			a := &of[i]
			all[a.by]++
			if after := max(empty[a.Hash], a.Instant) + interval; after-a.Instant <= int64(p.Cell.Burst)*interval {
				empty[a.Hash] = after
			} else {
				denied[a.by]++
			}
		}
		for by := range denied {
			denied[by] /= max(1, all[by])
		}
		shares[p.Name] = denied
		t.Logf("%s: %s denies of people %.6f, robots %.3f, scrapers %.3f, stuffing %.3f", p.Name, p.Cell.Limit(), denied[person], denied[robot], denied[scraper], denied[stuffing])
	}
	return shares
}

// Of ten days of which is known who has sent what, invisible denies hardly any person. On the route that is stuffed, guard denies nearly all of
// the stuffing. On the whole site it cannot, since a page with its images is more than an attacker sends in the same time.
func TestProposalsOfLabelledTraffic(t *testing.T) {
	for seed := range uint64(1) { // each is ten days, and takes a second
		s := newSite(seed, 400)
		shares := s.judge(t, func(request string) bool { return request == "POST /login" })
		if people, stuffed := shares["invisible"][person], shares["invisible"][stuffing]; people > 1e-4 || stuffed < 0.9 || len(shares) != 3 {
			t.Errorf("seed %d: invisible denies %v of the logins of people, and %v of the stuffing", seed, people, stuffed)
		}
		if stuffed := shares["guard"][stuffing]; stuffed < 0.95 {
			t.Errorf("seed %d: guard denies %v of the stuffing", seed, stuffed)
		}
		shares = s.judge(t, func(string) bool { return true })
		if people, scraped := shares["invisible"][person], shares["invisible"][scraper]; people > 1e-4 || scraped < 0.25 || len(shares) != 3 {
			t.Errorf("seed %d: invisible denies %v of what people ask for, and %v of what scrapers do", seed, people, scraped)
		}
	}
}

// traffic adds a minute's requests of a key, evenly.
func traffic(tracker *Tracker, key string, minute, requests int, path func(i int) string, agent func(i int) string) {
	for i := range requests {
		tracker.Second([]arrival.Arrival{{
			Instant: start + int64(minute)*60_000_000 + int64(i)*60_000_000/int64(requests), Hash: arrival.Hash([]byte(key)), Key: []byte(key), Status: 200,
			Path: arrival.Hash([]byte(path(i))), AgentHash: arrival.Hash([]byte(agent(i))),
		}})
	}
}

// One address with a fifth of all requests does not count as normal, unless it looks like many people. Where all are programs, none stands out.
func TestWhoStandsOut(t *testing.T) {
	one := func(int) string { return "the same" }
	many := func(i int) string { return strconv.Itoa(i % 50) }
	for _, c := range []struct {
		name        string
		paths       func(int) string
		agents      func(int) string
		often, rest int // requests a minute of one key, and of the other 200
		suspect     bool
	}{
		{"a steady program", one, one, 600, 12, true},
		{"a program that asks for many paths", many, one, 600, 12, true},
		{"an office", many, many, 600, 12, false},
		{"one that asks three times as often", many, one, 36, 12, false},
		{"a busy customer among programs", one, one, 240, 12, false},
	} {
		tracker := NewTracker(0)
		for minute := range 40 {
			traffic(tracker, "one", minute, c.often, c.paths, c.agents)
			for key := range 200 {
				traffic(tracker, fmt.Sprint("key ", key), minute, c.rest, c.paths, one)
			}
		}
		d := tracker.Demand()
		for _, k := range d.Keys {
			if want := c.suspect && k.Text == "one"; k.Suspect() != want {
				t.Errorf("%s: %s is %q", c.name, k.Text, k.Signs)
				break
			}
		}
		if normal := d.Normal[0].Keys(); normal != 200 && c.suspect {
			t.Errorf("%s: %d keys count as normal", c.name, normal)
		}
	}
}

// The number of different paths is off by less than a third, whatever it is.
func TestDifferentPaths(t *testing.T) {
	for _, n := range []int{1, 2, 3, 30, 100, 1000, 100_000} {
		var m marks
		random := rand.New(rand.NewPCG(uint64(n), 1))
		paths := make([]uint64, n)
		for i := range paths {
			paths[i] = random.Uint64()
		}
		for i := range 2 * n {
			m.add(&arrival.Arrival{Path: paths[i%n]})
		}
		if got := m.different(); got < 0.67*float64(n) || got > 1.5*float64(n) {
			t.Errorf("%d different paths are %v", n, got)
		}
	}
}

// All signs of a key are named.
func TestSignsInWords(t *testing.T) {
	if got := (Guessing | Dominant).String(); got != "asks for one or two paths alone: polling, or guessing; makes a tenth of all requests or more" || Sign(0).String() != "" {
		t.Error(got)
	}
}

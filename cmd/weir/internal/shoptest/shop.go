// Package shoptest writes the access log of a shop that there is not: people, an office behind one address, a partner's program, a monitor,
// and attackers. The same seed writes the same log.
package shoptest

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// The addresses of all who are not just people.
const (
	Office  = "198.51.100.20" // sixty people behind one address
	Partner = "198.51.100.77" // a program that fetches 300 prices each hour
	Monitor = "192.0.2.5"
	Scanner = "203.0.113.66" // asks for 404s at night
	Guesser = "203.0.113.9"  // tries passwords
	Scraper = "203.0.113.44" // reads the whole shop
)

var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
}

// request is a line of the log.
type request struct {
	at            time.Duration
	address       string
	method, path  string
	status, agent int
	name          string // of an agent that is no browser
}

// shop collects a day.
type shop struct {
	random   *rand.Rand
	requests []request
}

// usual is how many people a day has when attackers send as much as is written below. With fewer people, they send less.
const usual = 3000

// Write writes a shop's log in the combined format: days from first on, each with the given number of people.
func Write(w io.Writer, seed uint64, first time.Time, days, people int) error {
	out := bufio.NewWriterSize(w, 1<<20)
	s := &shop{random: rand.New(rand.NewPCG(seed, 7))}
	for day := range days {
		s.requests = s.requests[:0]
		s.day(people)
		slices.SortStableFunc(s.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
		begin := first.AddDate(0, 0, day)
		stamp, second := "", time.Duration(-1)
		for i := range s.requests {
			r := &s.requests[i]
			if r.at/time.Second != second {
				second = r.at / time.Second
				stamp = begin.Add(r.at).Format("02/Jan/2006:15:04:05 -0700")
			}
			agent := r.name
			if agent == "" {
				agent = browsers[r.agent%len(browsers)]
			}
			_, _ = fmt.Fprintf(out, "%s - - [%s] \"%s %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", r.address, stamp, r.method, r.path, r.status, 200+i%9000, agent)
		}
	}
	return out.Flush()
}

// day adds a day's requests.
func (s *shop) day(people int) {
	for range people {
		n := s.random.IntN(60_000)
		address := fmt.Sprintf("10.%d.%d.%d", 1+n/65536, n/256%256, n%256)
		s.visit(address, s.evening(), 1+s.random.IntN(12), s.random.IntN(len(browsers)))
	}
	for person := range 60 {
		for range 3 {
			s.visit(Office, 9*time.Hour+s.within(8*time.Hour), 1+s.random.IntN(8), person)
		}
	}
	for hour := range 24 {
		for i := range 300 {
			at := time.Duration(hour)*time.Hour + time.Minute + time.Duration(i)*40*time.Millisecond
			s.add(at, Partner, "GET", fmt.Sprintf("/api/prices/%d", i), 200, "partner-sync/2.1")
		}
	}
	for at := s.within(10 * time.Second); at < 24*time.Hour; at += 10 * time.Second {
		s.add(at, Monitor, "GET", "/health", 200, "uptime-check/1.0")
	}
	longer := max(1, min(usual/max(1, people), 5)) // the factor of their pauses
	for at := 3 * time.Hour; at < 3*time.Hour+10*time.Minute; at += time.Duration(longer) * 50 * time.Millisecond {
		s.add(at, Scanner, "GET", fmt.Sprintf("/%x.php", s.random.IntN(1<<20)), 404, "Mozilla/5.0 zgrab/0.x")
	}
	for at := 13 * time.Hour; at < 17*time.Hour; at += time.Duration(longer) * (700*time.Millisecond + s.within(600*time.Millisecond)) {
		s.add(at, Guesser, "POST", "/login", 401, "python-requests/2.32")
	}
	for at := time.Hour; at < 7*time.Hour; at += time.Duration(longer) * (150*time.Millisecond + s.within(100*time.Millisecond)) {
		s.add(at, Scraper, "GET", fmt.Sprintf("/products/%d", s.random.IntN(1<<20)), 200, "Scrapy/2.13 (+https://scrapy.org)")
	}
}

// visit adds pages with their images, some seconds apart.
func (s *shop) visit(address string, at time.Duration, pages, agent int) {
	for range pages {
		status := 200
		if s.random.IntN(60) == 0 {
			status = 404
		}
		s.browse(at, address, fmt.Sprintf("/products/%d", s.random.IntN(900)), status, agent)
		for part := range 2 + s.random.IntN(10) {
			s.browse(at+s.within(1500*time.Millisecond), address, fmt.Sprintf("/assets/%d.webp", part), 200, agent)
		}
		at += 3*time.Second + s.within(50*time.Second)
	}
}

func (s *shop) browse(at time.Duration, address, path string, status, agent int) {
	s.requests = append(s.requests, request{at: at % (24 * time.Hour), address: address, method: "GET", path: path, status: status, agent: agent})
}

func (s *shop) add(at time.Duration, address, method, path string, status int, name string) {
	s.requests = append(s.requests, request{at: at, address: address, method: method, path: path, status: status, name: name})
}

func (s *shop) within(d time.Duration) time.Duration { return time.Duration(s.random.Int64N(int64(d))) }

// evening returns an instant of the day: more often by day than by night, and most often in the evening.
func (s *shop) evening() time.Duration {
	for {
		at := s.within(24 * time.Hour)
		hour := at.Hours()
		weight := 0.05
		if hour > 7 && hour < 23 {
			weight = 0.4
		}
		if hour > 18 && hour < 22 {
			weight = 1
		}
		if s.random.Float64() < weight {
			return at
		}
	}
}

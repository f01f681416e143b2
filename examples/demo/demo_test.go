package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func TestEveryRequestGoesThroughTheChosenMiddleware(t *testing.T) {
	d := inMemoryDemo(t)
	for _, f := range frameworks {
		t.Run(f.Name, func(t *testing.T) {
			c := d.visit(t)
			c.slow()
			c.must("POST", "/requests", fmt.Sprintf(`{"algorithm":"all","framework":%q,"count":4}`, f.Name))
			_, answers := c.watch(t)(func(_ *frame, answers []answer) bool { return len(answers) == 4*len(algorithms) })
			admitted := make(map[string]int)
			for _, a := range answers {
				switch {
				case a.Framework != f.Name || !a.Decided || a.Headers[0][0] != "RateLimit" || a.Headers[1][0] != "RateLimit-Policy":
					t.Errorf("not what the middleware answers: %+v", a)
				case a.Status == http.StatusOK:
					admitted[a.Algorithm]++
					if a.Body != welcome+f.Title+"." || a.RetryAfter != 0 {
						t.Errorf("admitted, with %+v", a)
					}
				case a.Status == http.StatusTooManyRequests:
					if a.Headers[2][0] != "Retry-After" || a.RetryAfter <= 0 || !strings.Contains(a.Body, "violated-policies") {
						t.Errorf("refused, with %+v", a)
					}
				default:
					t.Errorf("%+v", a)
				}
			}
			for _, a := range algorithms {
				if n := admitted[a.Name]; n != 3 && a.Name != "shaping" || n < 3 {
					t.Errorf("%s admitted %d of 4 under a limit of 3", a.Name, n)
				}
			}
		})
	}
}

// stores are where the counters can be.
var stores = map[string]func(*testing.T) core.Store{
	"memory": func(*testing.T) core.Store { return core.NewMemory() },
	"redis": func(t *testing.T) core.Store {
		return core.NewRedis(redistest.Shared(t).Client(t), core.WithBudget(patience)) // however busy the machine is
	},
}

func TestStateIsWhatTheLimiterSays(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			c := start(t, store(t)).visit(t)
			c.slow()
			c.must("POST", "/requests", `{"algorithm":"all","framework":"nethttp","count":2}`)
			f, _ := c.watch(t)(func(f *frame, answers []answer) bool { return len(answers) == 2*len(algorithms) })
			for _, card := range f.Cards {
				s := card.State
				if card.Algorithm == "shaping" { // has been served
					continue
				}
				if s == nil || !s.Verified || s.Remaining != 1 || s.Next <= 0 || s.Reset < s.Next || s.Level <= 1 || s.Level > 2 {
					t.Errorf("%s after 2 of 3: %+v", card.Algorithm, s)
				}
			}
			if log := f.card("sliding-log").State; len(log.Left) != 2 || log.Left[0] != log.Next || log.Left[1] != log.Reset {
				t.Errorf("the log: %+v", log)
			}
			if sum := f.card("sliding-window").State.Counters; sum == nil || sum.Current+sum.Previous != 2 {
				t.Errorf("the counters: %+v", sum)
			}
		})
	}
}

func TestShapedRequestsReallyWait(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.must("POST", "/limits/shaping", `{"capacity":"4","pace":"5/s"}`)
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"shaping","framework":"echo","count":3}`)
	watch(func(f *frame, _ []answer) bool { return f.card("shaping").Waiting > 0 })
	_, answers := watch(func(_ *frame, answers []answer) bool { return len(answers) == 3 })
	for i, a := range answers {
		if a.Status != http.StatusOK || a.Took < a.Delay || i > 0 && a.Delay <= answers[i-1].Delay {
			t.Errorf("answer %d of a queue: %+v", i, a)
		}
	}
}

func TestVisitorsHaveKeysOfTheirOwn(t *testing.T) {
	d := inMemoryDemo(t)
	one, other := d.visit(t), d.visit(t)
	one.must("POST", "/requests", `{"algorithm":"gcra","framework":"gin","count":10}`)
	one.watch(t)(func(_ *frame, answers []answer) bool { return len(answers) == 10 })
	f, _ := other.watch(t)(func(*frame, []answer) bool { return true })
	if s := f.card("gcra").State; s.Remaining != 5 || s.Reset != 0 {
		t.Errorf("somebody else's burst has used %+v", s)
	}
}

func TestOneCurlOfTheVisitorCountsToo(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.slow()
	for range 3 {
		if response := c.get("/api/echov5/sliding-log"); response.StatusCode != http.StatusOK {
			t.Fatal(response.Status)
		}
	}
	response := c.get("/api/gin/sliding-log") // the limit is one, whatever serves it
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("the fourth of three: %s, %v", response.Status, response.Header)
	}
	f, _ := c.watch(t)(func(*frame, []answer) bool { return true })
	if s := f.card("sliding-log").State; s.Remaining != 0 || len(s.Left) != 3 || !s.Verified {
		t.Errorf("state: %+v", s)
	}
}

// Whatever order the answers of a burst come in, they are listed as the limiter has decided: nothing
// is admitted behind what was refused in the same window, and each leaves less than the one before.
func TestABurstIsListedInTheOrderOfItsDecisions(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			c := start(t, store(t)).visit(t)
			c.slow()
			for _, algorithm := range []string{"fixed-window", "sliding-log", "leaky"} {
				watch := c.watch(t)
				c.must("POST", "/requests", fmt.Sprintf(`{"algorithm":%q,"framework":"nethttp","count":10}`, algorithm))
				of := func(answers []answer) []answer {
					return slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.Algorithm != algorithm })
				}
				_, answers := watch(func(f *frame, answers []answer) bool {
					if !slices.IsSortedFunc(f.Answers, inOrder) {
						t.Errorf("a frame's answers are in no order: %+v", f.Answers)
					}
					return len(of(answers)) == 10
				})
				answers = of(answers)
				slices.SortFunc(answers, inOrder)
				for i, a := range answers {
					admitted := i < 3
					if a.Status == http.StatusOK != admitted || admitted && a.Remaining != 2-i || a.Press != answers[0].Press || a.Of != 10 {
						t.Errorf("%s, answer %d in order: %+v", algorithm, i, a)
					}
				}
			}
		})
	}
}

func TestResetRestoresLimitsAndCounters(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.slow()
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"all","framework":"nethttp","count":4}`)
	watch(func(_ *frame, answers []answer) bool { return len(answers) == 4*len(algorithms) })
	c.must("POST", "/reset", "")
	watch(func(f *frame, _ []answer) bool {
		for _, card := range f.Cards {
			if card.State == nil || card.State.Reset != 0 || card.State.Remaining != 5 || !card.State.Verified {
				return false
			}
		}
		return true
	})
	whole, _ := c.watch(t)(func(*frame, []answer) bool { return true })
	for _, a := range algorithms {
		if limit := whole.card(a.Name).Limit; limit.Capacity != 5 || limit.Pace != a.StandardPace() {
			t.Errorf("%s has the limit %+v, want that of the start", a.Name, limit)
		}
	}
	c.must("POST", "/requests", `{"algorithm":"fixed-window","framework":"nethttp","count":1}`)
	_, answers := watch(func(_ *frame, answers []answer) bool { return len(answers) == 4*len(algorithms)+1 })
	if last := answers[len(answers)-1]; last.Status != http.StatusOK || last.Remaining != 4 {
		t.Errorf("after the reset: %+v", last)
	}
}

func TestResetGivesUpRequestsThatWait(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.must("POST", "/limits/shaping", `{"capacity":"3","pace":"3/m"}`)
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"shaping","framework":"gin","count":3}`)
	watch(func(_ *frame, answers []answer) bool { return len(answers) == 1 })
	c.must("POST", "/reset", "")
	watch(func(f *frame, _ []answer) bool {
		return f.card("shaping").Waiting == 0 && f.card("shaping").State.Reset == 0
	})
}

func TestConfigurationsThatMakeNoSenseAreRefusedAndChangeNothing(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	for _, test := range []struct{ algorithm, capacity, pace, field, says string }{
		{"gcra", "", "1/s", "capacity", "whole number"},
		{"gcra", "0", "1/s", "capacity", "whole number"},
		{"gcra", "-3", "1/s", "capacity", "whole number"},
		{"gcra", "2.5", "1/s", "capacity", "whole number"},
		{"gcra", "five", "1/s", "capacity", "whole number"},
		{"gcra", "51", "1/s", "capacity", "room for 50"},
		{"gcra", "5", "", "pace", ""},
		{"gcra", "5", "1", "pace", ""},
		{"gcra", "5", "0/s", "pace", ""},
		{"gcra", "5", "1/h", "pace", "no longer than 1m0s"},
		{"gcra", "5", "1000000/s", "pace", "too quick"},
		{"gcra", "50", "1/290y", "pace", ""},
		{"fixed-window", "5", "1/s", "pace", ""},
		{"fixed-window", "5", "0s", "pace", ""},
		{"fixed-window", "5", "2h", "pace", "no longer than 1m0s"},
		{"fixed-window", "5", "1ms", "pace", "too quick"},
		{"sliding-window", "5", "1.0000001s", "pace", "whole number of"},
	} {
		status, problem := c.ask("POST", "/limits/"+test.algorithm, fmt.Sprintf(`{"capacity":%q,"pace":%q}`, test.capacity, test.pace))
		if status != http.StatusUnprocessableEntity || problem.Field != test.field || problem.Text == "" || !strings.Contains(problem.Text, test.says) {
			t.Errorf("%s %q, %q: %d %+v", test.algorithm, test.capacity, test.pace, status, problem)
		}
	}
	f, _ := c.watch(t)(func(*frame, []answer) bool { return true })
	for _, card := range f.Cards {
		if card.Limit.Version != 1 || card.Limit.Capacity != 5 {
			t.Errorf("%s has changed: %+v", card.Algorithm, card.Limit)
		}
	}
}

func TestConfigurationStartsTheCardAfresh(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.must("POST", "/limits/token-bucket", `{"capacity":" 2 ","pace":"4/m"}`)
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"token-bucket","framework":"gin","count":3}`)
	watch(func(_ *frame, answers []answer) bool { return len(answers) == 3 })
	c.must("POST", "/limits/token-bucket", `{"capacity":"3","pace":"4/m"}`)
	f, _ := watch(func(f *frame, _ []answer) bool { return f.card("token-bucket").Limit != nil })
	card := f.card("token-bucket")
	if card.State.Reset != 0 || card.Limit.Pace != "4/m" || card.Limit.Code != "ratelimit.TokenBucket(limiter, 3, core.PerMinute(4))" {
		t.Errorf("%+v, %+v", card.State, card.Limit)
	}
}

func TestTheSameNumbersLeaveTheCardAsItIs(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.must("POST", "/limits/token-bucket", `{"capacity":"2","pace":"2/m"}`)
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"token-bucket","framework":"gin","count":3}`)
	watch(func(_ *frame, answers []answer) bool { return len(answers) == 3 })
	c.must("POST", "/limits/token-bucket", `{"capacity":" 2","pace":"2/m"}`)
	f, _ := c.watch(t)(func(f *frame, _ []answer) bool { return f.card("token-bucket").Limit != nil })
	if card := f.card("token-bucket"); card.State.Reset == 0 || card.Limit.Version != 2 {
		t.Errorf("%+v, %+v", card.State, card.Limit)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{"/requests", `{"algorithm":"all","framework":"nethttp","count":11}`, http.StatusBadRequest},
		{"/requests", `{"algorithm":"all","framework":"nethttp","count":0}`, http.StatusBadRequest},
		{"/requests", `{"algorithm":"nosuch","framework":"nethttp","count":1}`, http.StatusBadRequest},
		{"/requests", `{"algorithm":"all","framework":"nosuch","count":1}`, http.StatusBadRequest},
		{"/requests", `{"unknown":1}`, http.StatusBadRequest},
		{"/requests", `{`, http.StatusBadRequest},
		{"/requests", `{"algorithm":"` + strings.Repeat("x", mostPosted) + `"}`, http.StatusBadRequest},
		{"/limits/nosuch", `{}`, http.StatusBadRequest},
		{"/comparison", `{"framework":"gin","pattern":"nosuch","capacity":"5","window":"2"}`, http.StatusUnprocessableEntity},
		{"/comparison", `{"framework":"nosuch","pattern":"steady","capacity":"5","window":"2"}`, http.StatusBadRequest},
		{"/comparison", `{"framework":"gin","pattern":"steady","capacity":"21","window":"2"}`, http.StatusUnprocessableEntity},
		{"/comparison", `{"framework":"gin","pattern":"steady","capacity":"x","window":"2"}`, http.StatusUnprocessableEntity},
		{"/comparison", `{"framework":"gin","pattern":"steady","capacity":"5","window":"99"}`, http.StatusUnprocessableEntity},
		{"/comparison", `{"framework":"gin","pattern":"steady","capacity":"5","window":""}`, http.StatusUnprocessableEntity},
		{"/comparison", `{"framework":"gin","pattern":"steady","capacity":"5","window":"x"}`, http.StatusUnprocessableEntity},
		{"/comparison", `{"framework":"gin","pattern":"own","capacity":"5","window":"2"}`, http.StatusUnprocessableEntity},
	} {
		if status, problem := c.ask("POST", test.path, test.body); status != test.status || problem.Text == "" {
			t.Errorf("POST %s %.80s: %d %+v, want %d", test.path, test.body, status, problem, test.status)
		}
	}
	for _, path := range []string{"/api/nethttp/nosuch", "/api/nosuch/gcra", "/web/index.html", "/nosuch"} {
		if response := c.get(path); response.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s", path, response.Status)
		}
	}
}

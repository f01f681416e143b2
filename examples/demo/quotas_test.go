package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// quota returns what a frame says about a quota.
func (f *frame) quota(name string) *quotaFrame {
	for i := range f.Quotas {
		if f.Quotas[i].Name == name {
			return &f.Quotas[i]
		}
	}
	return nil
}

// sends returns a function that sends requests to a quota, and returns all answers to it as soon as there are so many
// in all, in the order of their decisions.
func (c *client) sends(t *testing.T, framework string) func(quota, way string, count, inAll int) []answer {
	t.Helper()
	watch := c.watch(t)
	all := make(map[string][]answer)
	return func(quota, way string, count, inAll int) []answer {
		t.Helper()
		c.must("POST", "/requests", fmt.Sprintf(`{"algorithm":%q,"way":%q,"framework":%q,"count":%d}`, quota, way, framework, count))
		watch(func(f *frame, _ []answer) bool {
			all[quota] = append(all[quota], f.quota(quota).Answers...)
			return len(all[quota]) >= inAll
		})
		return slices.SortedFunc(slices.Values(all[quota]), inOrder)
	}
}

// statuses returns how many of some answers have which status.
func statuses(answers []answer) map[int]int {
	counts := make(map[int]int)
	for _, a := range answers {
		counts[a.Status]++
	}
	return counts
}

func TestQuotasDecideInEveryMiddleware(t *testing.T) {
	for name, store := range stores {
		d := start(t, store(t))
		for _, f := range frameworks {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				send := d.visit(t).sends(t, f.Name)
				if got := statuses(send("calendar", "", 10, 10)); got[http.StatusOK] != 10 {
					t.Errorf("10 of 20 a day: %v", got)
				}
				c := d.visit(t)
				c.must("POST", "/requests", fmt.Sprintf(`{"algorithm":"credits","way":%q,"framework":%q,"count":10}`, buying, f.Name))
				both := c.sends(t, f.Name)("credits", "", 10, 10)
				if got := statuses(both); got[http.StatusOK] != 10 || both[0].Policy != "plan" || both[9].Policy != "credits" {
					t.Errorf("a plan of 5, then credits: %v, %+v", got, both)
				}
				if got := statuses(send("headroom", batch, 10, 10)); got[http.StatusOK] < 6 || got[http.StatusTooManyRequests] < 2 {
					t.Errorf("a batch of 10 that leaves 4 of 10: %v", got)
				}
				if got := statuses(send("headroom", "", 1, 11)); got[http.StatusOK] < 7 {
					t.Errorf("a person behind the batch: %v", got)
				}
				if got := statuses(send("share", "", 10, 10)); got[http.StatusOK] < 6 || got[http.StatusTooManyRequests] < 2 {
					t.Errorf("the first team asks for 10 of 12: %v", got)
				}
				if got := statuses(send("share", second, 10, 20)); got[http.StatusOK] < 9 || got[http.StatusTooManyRequests] < 6 {
					t.Errorf("the second team behind the first: %v", got)
				}
				for i := range 3 {
					send("ban", wrong, 1, i+1)
				}
				answers := send("ban", "", 1, 4)
				if got := statuses(answers); got[http.StatusUnauthorized] != 3 || answers[3].Status != http.StatusForbidden || !answers[0].Decided {
					t.Errorf("three wrong passwords and a right one: %v", got)
				}
			})
		}
	}
}

func TestCreditsHaveToBeBought(t *testing.T) {
	d := inMemoryDemo(t)
	c := d.visit(t)
	watch := c.watch(t)
	shows := func(left int) {
		t.Helper()
		watch(func(f *frame, _ []answer) bool {
			rows := f.quota("credits").Rows
			return len(rows) == 2 && rows[1].Remaining == left
		})
	}
	shows(0)
	send := c.sends(t, "nethttp")
	if got := statuses(send("credits", "", 10, 10)); got[http.StatusTooManyRequests] < 4 {
		t.Errorf("10 requests with a plan of 5 and no credits: %v", got)
	}
	buy := func(count int) (body string) {
		return fmt.Sprintf(`{"algorithm":"credits","way":%q,"framework":"gin","count":%d}`, buying, count)
	}
	c.must("POST", "/requests", buy(10))
	c.must("POST", "/requests", buy(7))
	shows(17)
	for _, count := range []int{-1, 0, mostBurst + 1} {
		if status, _ := c.ask("POST", "/requests", buy(count)); status < 400 {
			t.Errorf("%d credits: %d", count, status)
		}
	}
	if response := c.get("/api/gin/credits?way=" + buying); response.StatusCode != http.StatusNotFound {
		t.Errorf("a request that buys: %s", response.Status)
	}
	c.must("POST", "/reset", "")
	shows(0)
}

// A balance has no time to live: the store would keep the credits of all visitors who ever bought some.
func TestCreditsOfTheForgottenAreGivenUp(t *testing.T) {
	d := inMemoryDemo(t)
	c := d.visit(t)
	c.must("POST", "/requests", fmt.Sprintf(`{"algorithm":"credits","way":%q,"framework":"gin","count":10}`, buying))
	var key string
	for _, v := range d.visitors.byID {
		key = v.key
	}
	left := func() int {
		got, err := d.limiter.Peek(t.Context(), key, credits)
		if err != nil {
			t.Fatal(err)
		}
		return got.Remaining
	}
	if got := left(); got != 10 {
		t.Fatalf("%d credits, want 10", got)
	}
	d.close()
	if got := left(); got != 0 {
		t.Errorf("%d credits are left behind", got)
	}
}

func TestThreePlacesAreTakenUntilTheirRequestsEnd(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"places","framework":"echo","count":5}`)
	watch(func(f *frame, _ []answer) bool {
		places := f.quota("places")
		return len(places.Rows) == 1 && places.Rows[0].Remaining == 0 && places.Waiting == 3
	})
	c.must("POST", "/reset", "")
	watch(func(f *frame, _ []answer) bool {
		places := f.quota("places")
		return len(places.Rows) == 1 && places.Rows[0].Remaining == 3 && places.Waiting == 0
	})
}

func TestADearAnswerIsPaidForLater(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	send := c.sends(t, "nethttp")
	send("debt", dear, 1, 1)
	watch := c.watch(t)
	watch(func(f *frame, _ []answer) bool { // 14 of 10 are charged when it has ended, a moment later
		debt := f.quota("debt")
		return len(debt.Rows) == 1 && debt.Rows[0].Remaining == 0 && debt.Rows[0].Reset > 10_000_000
	})
	answers := send("debt", "", 1, 2)
	if got := answers[1]; got.Status != http.StatusTooManyRequests || got.RetryAfter <= 1_000_000 {
		t.Errorf("a cheap answer behind a dear one: %d, %d µs to wait", got.Status, got.RetryAfter)
	}
}

func TestResetRestoresQuotasAndLiftsBans(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	send := c.sends(t, "gin")
	send("calendar", "", 10, 10)
	for i := range 3 {
		send("ban", wrong, 1, i+1)
	}
	watch := c.watch(t)
	watch(func(f *frame, _ []answer) bool {
		ban, day := f.quota("ban").Rows[0], f.quota("calendar").Rows[0]
		return ban.Remaining == 0 && ban.Next > 0 && day.Remaining == 10 && day.Reset > 0
	})
	c.must("POST", "/reset", "")
	fresh := false
	watch(func(f *frame, _ []answer) bool {
		ban, day := f.quota("ban"), f.quota("calendar")
		fresh = fresh || ban.Fresh && day.Fresh
		return fresh && len(ban.Rows) == 1 && ban.Rows[0].Remaining == 3 && day.Rows[0].Remaining == 20
	})
}

func TestACurlOfTheVisitorMeetsTheQuotas(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	for range 3 {
		if response := c.get("/api/echov5/ban?way=wrong"); response.StatusCode != http.StatusUnauthorized {
			t.Fatal(response.Status)
		}
	}
	if response := c.get("/api/nethttp/ban"); response.StatusCode != http.StatusForbidden {
		t.Errorf("whom another framework has banned: %s", response.Status)
	}
	if response := c.get("/api/nethttp/ban?way=nosuch"); response.StatusCode != http.StatusNotFound {
		t.Errorf("a way that is not there: %s", response.Status)
	}
	if status, problem := c.ask("POST", "/requests", `{"algorithm":"ban","way":"nosuch","framework":"gin","count":1}`); status != http.StatusBadRequest {
		t.Errorf("a way that is not there: %d, %s", status, problem.Text)
	}
	if status, _ := c.ask("POST", "/limits/ban", `{"capacity":"5","pace":"1/s"}`); status != http.StatusBadRequest {
		t.Errorf("another limit for a quota: %d", status)
	}
}

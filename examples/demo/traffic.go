package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// answer is the answer to a request, as the client has seen it, and beside that
// the decision's exact numbers. Times are microseconds.
type answer struct {
	Number     int64       `json:"number"`
	Algorithm  string      `json:"algorithm"`
	Framework  string      `json:"framework"`
	Press      int64       `json:"press"` // which click has sent it
	Of         int         `json:"of"`    // how many that click has sent to the card
	At         int64       `json:"at"`    // when it was decided, or else sent, on the page's clock
	Rank       int         `json:"rank"`  // its place among those decided at one instant
	Sent       int64       `json:"sent"`  // on the page's clock
	Took       int64       `json:"took"`
	Status     int         `json:"status"` // 0 if there was no response
	Line       string      `json:"line"`   // the status line, or the error
	Headers    [][2]string `json:"headers"`
	Body       string      `json:"body"`
	Decided    bool        `json:"decided"` // by the store: the fields below have a meaning
	Policy     string      `json:"policy"`
	Remaining  int         `json:"remaining"`
	RetryAfter int64       `json:"retryAfter"`
	Delay      int64       `json:"delay"`
}

// traffic sends the page's requests to the page itself, over HTTP. A browser could
// not: it has six connections to a host, and shaped requests hold one each.
type traffic struct {
	client  *http.Client
	address string
}

func newTraffic(address net.Addr) *traffic {
	dialer := new(net.Dialer)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, address.Network(), address.String())
		},
		MaxIdleConnsPerHost: mostInFlight,
		IdleConnTimeout:     patience,
		DisableCompression:  true,
	}
	return &traffic{client: &http.Client{Transport: transport}, address: address.String()}
}

// longestBody is how much of a response is read.
const longestBody = 4 << 10

// send sends one attempt and returns the answer to it.
func (t *traffic) send(ctx context.Context, a *attempt, framework string, now func() time.Duration) answer {
	sent := now()
	result := answer{Algorithm: a.card.Name, Framework: framework, Sent: sent.Microseconds()}
	fail := func(err error) answer {
		result.Line, result.Took = err.Error(), (now() - sent).Microseconds()
		return result
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.address+"/api/"+framework+"/"+a.card.Name, http.NoBody)
	if err != nil {
		return fail(err)
	}
	request.Host = localhost[0] // for any address
	request.Header.Set(attemptHeader, a.id)
	request.AddCookie(&http.Cookie{Name: visitorCookie, Value: a.visitor.id})
	response, err := t.client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestBody))
	if err != nil {
		return fail(err)
	}
	result.Took = (now() - sent).Microseconds()
	result.Status = response.StatusCode
	result.Line = response.Proto + " " + response.Status
	result.Headers = told(response.Header)
	result.Body = strings.TrimSpace(string(body))
	return result
}

// first are the fields that a limiter is about, spelled as it sends them.
var first = []string{"RateLimit", "RateLimit-Policy", "Retry-After"}

// told returns the fields of a response, those first that a limiter is about.
func told(h http.Header) [][2]string {
	var fields [][2]string
	rest := h.Clone()
	for _, name := range first {
		for _, value := range h.Values(name) {
			fields = append(fields, [2]string{name, value})
		}
		rest.Del(name)
	}
	start := len(fields)
	for name, values := range rest {
		for _, value := range values {
			fields = append(fields, [2]string{name, value})
		}
	}
	slices.SortFunc(fields[start:], func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return fields
}

// begin registers count attempts on each of some cards, if there is room for all.
// They end with the context that comes with them.
func (v *visitor) begin(cards []*card, count int, plan func(*attempt)) ([]*attempt, context.Context, error) {
	v.Lock()
	defer v.Unlock()
	if len(v.attempts)+len(cards)*count > mostInFlight {
		return nil, nil, errInFlight
	}
	attempts := make([]*attempt, 0, len(cards)*count)
	for range count {
		for _, c := range cards {
			v.given++
			a := &attempt{visitor: v, card: c, limit: c.limit, key: v.key, id: strconv.FormatInt(v.given, 10)}
			plan(a)
			v.attempts[a.id] = a
			if a.counts {
				c.waiting++
			}
			attempts = append(attempts, a)
		}
	}
	return attempts, v.fresh, nil
}

// end takes an attempt off the list, and reports whether it was still on it. The
// decision is filled into the answer. The visitor is locked.
func (v *visitor) end(a *attempt, result *answer) bool {
	if v.attempts[a.id] != a {
		return false
	}
	delete(v.attempts, a.id)
	result.Press, result.Of, result.At = a.press, a.of, result.Sent
	if d := a.decided; d != nil {
		result.Decided, result.At, result.Rank = true, a.instant.Microseconds(), rankOf(d)+a.card.quota.before(a.policy)
		result.Policy, result.Remaining, result.Delay = a.policy, d.Remaining, d.Delay.Microseconds()
		if d.RetryAfter != core.Never {
			result.RetryAfter = d.RetryAfter.Microseconds()
		}
	}
	return true
}

// finish takes down the answer to an attempt on its card.
func (v *visitor) finish(a *attempt, result answer) {
	v.Lock()
	defer v.Unlock()
	if !v.end(a, &result) {
		return
	}
	c := a.card
	c.waiting--
	v.answers++
	result.Number = v.answers
	c.answers = append(c.answers, result)
	if len(c.answers) > mostAnswers {
		c.answers = append(c.answers[:0], c.answers[1:]...)
	}
}

// begin registers attempts, as the visitor's begin does, if the page has room for
// them, too. Each must be finished.
func (p *page) begin(v *visitor, cards []*card, count int, plan func(*attempt)) ([]*attempt, context.Context, error) {
	n := int64(len(cards) * count)
	if p.requests.Add(n) > mostUnderWay {
		p.requests.Add(-n)
		return nil, nil, errBusy
	}
	attempts, ctx, err := v.begin(cards, count, plan)
	if err != nil {
		p.requests.Add(-n)
	}
	return attempts, ctx, err
}

// sent gives back an attempt's place.
func (p *page) sent() { p.requests.Add(-1) }

// send sends count requests to each of some cards, all at once and in the same way, and
// returns without waiting for the answers.
func (p *page) send(v *visitor, cards []*card, way string, count int, framework string) error {
	if count < 1 || count > mostBurst {
		return fmt.Errorf("count is %d, and must be from 1 to %d", count, mostBurst)
	}
	press := v.click()
	attempts, ctx, err := p.begin(v, cards, count, func(a *attempt) { a.counts, a.way, a.press, a.of = true, way, press, count })
	if err != nil {
		return err
	}
	v.remember(p.now(), count)
	for _, a := range attempts {
		p.under.Go(func() {
			defer p.sent()
			v.finish(a, p.traffic.send(ctx, a, framework, p.now))
		})
	}
	return nil
}

// mostBurst is how many requests a button sends.
const mostBurst = 10

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

const (
	// pace is how often a stream sends the state of the pictures.
	pace = 50 * time.Millisecond
	// calm is how often it does when nothing happens.
	calm = time.Second
)

// frame is one event of a stream. Times are microseconds on the page's clock.
type frame struct {
	Clock   int64        `json:"clock"`
	Cards   []cardFrame  `json:"cards"`
	Answers []answer     `json:"answers,omitempty"` // new ones, of the algorithms
	Quotas  []quotaFrame `json:"quotas"`
	RunID   int64        `json:"runId"`           // of the comparison, or 0
	Run     *runFrame    `json:"run,omitempty"`   // if it has changed
	Error   string       `json:"error,omitempty"` // why there are no states
}

// cardFrame is the news of one card.
type cardFrame struct {
	Algorithm string     `json:"algorithm"`
	State     *state     `json:"state,omitempty"`
	Waiting   int        `json:"waiting"`
	Limit     *cardLimit `json:"limit,omitempty"` // if it has changed
}

// cardLimit is a card's configuration.
type cardLimit struct {
	Version  int64  `json:"version"`
	Capacity int    `json:"capacity"`
	Events   int    `json:"events"` // in each period; of a window, the capacity
	Period   int64  `json:"period"` // microseconds
	Pace     string `json:"pace"`   // as it is typed
	Code     string `json:"code"`
}

// runFrame is the news of a comparison.
type runFrame struct {
	ID      int64   `json:"id"`
	Title   string  `json:"title"`
	Most    int     `json:"most"` // events in a window
	Window  int64   `json:"window"`
	Started int64   `json:"started"`
	Length  int64   `json:"length"`
	Lanes   []lane  `json:"lanes"`
	Points  []point `json:"points"`          // new ones
	Whole   bool    `json:"whole,omitempty"` // the points begin with the first one
	Done    bool    `json:"done"`
	Problem string  `json:"problem,omitempty"`
}

// toldSoFar notes the news that a stream has sent already.
type toldSoFar struct {
	versions []int64          // of the cards' limits
	quotas   map[string]int64 // the quotas' versions
	answers  int64
	bought   int64 // purchases
	run      *comparison
	points   int
	done     bool
	failed   bool // the store has not answered the last time
	last     time.Duration
}

// stream sends a visitor the state of their cards, by Server-Sent Events,
// until the browser goes away.
func (p *page) stream(w http.ResponseWriter, r *http.Request) {
	v, err := p.welcome(w, r, false)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if !v.open() {
		w.WriteHeader(http.StatusNoContent) // tells an EventSource not to come back
		return
	}
	defer func() { v.shut(p.now()) }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(v.known, cancel)() //nolint:contextcheck // the stream ends with the page, and when the visitor is forgotten
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	told := toldSoFar{versions: make([]int64, len(v.cards)), quotas: make(map[string]int64), last: -calm}
	for {
		if f := p.frame(ctx, v, &told); f != nil {
			body, err := json.Marshal(f)
			if err != nil {
				return
			}
			if err := control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", body); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// frame returns the news for a visitor, or nil if there is none.
// All states are those of one instant.
func (p *page) frame(ctx context.Context, v *visitor, told *toldSoFar) *frame {
	f := new(frame)
	v.Lock()
	checks := make([]core.Check, len(v.cards))
	for i, c := range v.cards {
		checks[i] = core.Check{Key: v.key, Limit: c.limit, Mode: core.Look}
	}
	for _, c := range v.quotas {
		checks = c.quota.looks(checks, v.key)
	}
	busy := told.fill(f, v) // before the states, so that none is older than an answer
	v.Unlock()

	before := p.now()
	decisions, err := p.limiter.AllowAll(ctx, checks...)
	now := (before + p.now()) / 2
	f.Clock = now.Microseconds()
	if err != nil {
		f.Error = err.Error()
	}
	busy = busy || told.failed != (err != nil)
	told.failed = err != nil

	v.Lock()
	defer v.Unlock()
	for i, c := range v.cards {
		card := &f.Cards[i]
		card.Waiting = c.waiting
		if err == nil && c.version == told.versions[i] { // or it is the state of an earlier limit
			s := stateOf(&decisions[i], now, &c.kept)
			card.State = &s
			busy = busy || s.Reset > 0
		}
		busy = busy || c.waiting > 0
	}
	if err == nil {
		rest := decisions[len(v.cards):]
		for i, c := range v.quotas {
			var moves bool
			rest, moves = f.Quotas[i].draw(c.quota, rest)
			busy = busy || moves
		}
	}
	if !busy && now-told.last < calm {
		return nil
	}
	told.last = now
	if busy {
		told.last = -calm // the first calm frame is told at once
	}
	return f
}

// fill adds the news to a frame, and reports whether there is any. The
// visitor is locked.
func (t *toldSoFar) fill(f *frame, v *visitor) bool {
	f.Cards = make([]cardFrame, len(v.cards))
	changed := false
	for i, c := range v.cards {
		f.Cards[i].Algorithm = c.Name
		if t.versions[i] != c.version {
			t.versions[i] = c.version
			f.Cards[i].Limit = c.told()
			changed = true
		}
		f.Answers = append(f.Answers, c.since(t.answers)...)
	}
	slices.SortFunc(f.Answers, inOrder)
	changed = changed || len(f.Answers) > 0
	for _, c := range v.quotas {
		told := quotaFrame{Name: c.Name, Waiting: c.waiting, Fresh: t.quotas[c.Name] != c.version, Answers: c.since(t.answers)}
		t.quotas[c.Name] = c.version
		changed = changed || told.Fresh || len(told.Answers) > 0 || told.Waiting > 0
		f.Quotas = append(f.Quotas, told)
	}
	changed = changed || t.bought != v.purchases
	t.answers, t.bought = v.answers, v.purchases
	run := v.run
	if run == nil {
		t.run = nil
		return changed
	}
	f.RunID = run.id
	whole := run != t.run
	if whole {
		t.run, t.points, t.done = run, 0, false
	}
	if t.done {
		return changed
	}
	f.Run = &runFrame{
		ID: run.id, Title: run.pattern.Title, Most: run.n, Window: run.window.Microseconds(),
		Started: run.started.Microseconds(), Length: run.length.Microseconds(),
		Lanes: append([]lane(nil), run.lanes...), Points: append([]point{}, run.points[t.points:]...),
		Whole: whole, Done: run.done, Problem: run.problem,
	}
	t.points, t.done = len(run.points), run.done
	return true
}

// since returns the card's answers after the one with a number, in the order of their decisions. The
// visitor is locked.
func (c *card) since(number int64) []answer {
	var news []answer
	for i := range c.answers {
		if c.answers[i].Number > number {
			news = append(news, c.answers[i])
		}
	}
	slices.SortFunc(news, inOrder)
	return news
}

// told returns a card's configuration. The visitor is locked.
func (c *card) told() *cardLimit {
	rate := c.limit.Rate()
	_, pace, _ := strings.Cut(c.limit.String(), ", ")
	return &cardLimit{
		Version: c.version, Capacity: c.limit.Capacity(), Events: rate.Events, Period: rate.Period.Microseconds(),
		Pace: pace, Code: c.code(c.limit),
	}
}

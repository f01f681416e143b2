// Package offenders finds the keys that were denied most lately, by limits and by bans, in
// bounded memory. It needs no OpenTelemetry.
package offenders

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/weir-go/ratelimit/guard"
)

const (
	defaultSize     = 1000
	defaultHalfLife = 10 * time.Minute
	// leastHashKey is the least number of bytes that make a HashKey: as many as the hash
	// keeps.
	leastHashKey = 16
	// longestKept bounds the keys that are kept as they are. A longer one is known by its
	// hash.
	longestKept = 128
	// shown is how many offenders are printed and served, unless more are asked for.
	shown = 20
)

// Options say how a [Tracker] counts. The zero value is ready to use.
type Options struct {
	// Size is how many keys are counted at once, at about 400 bytes each. The more there
	// are, the less the counts can err: see [Tracker]. The default, 0, is 1000; less is
	// a mistake that panics.
	Size int

	// HalfLife defines "lately": a denial counts half after it, a quarter after two, and so on. The default, 0, is ten
	// minutes; less is a mistake that panics.
	HalfLife time.Duration

	// HashKey hides the keys: each is shown as 128 bits of an HMAC-SHA-256 under it, so that
	// only with HashKey a known key can be found. Use 32 random bytes. The default, nil, shows
	// keys as they are, with addresses and users. An empty HashKey that is not nil, as an
	// unset variable gives it, and one of fewer than 16 bytes panic.
	HashKey []byte
}

// Tracker finds the keys that were denied most lately, among however many there are.
// Nothing is counted unless you ask for it:
//
//	tracker := offenders.New(offenders.Options{})
//	limit := ratelimit.New(limiter, ratelimit.Options{Observe: tracker.Observe}, policies...)
//	admin.Handle("GET /offenders", tracker)
//
// It counts in a fixed number of counters (Space-Saving, of counts that decay forward).
// With m counters and n denials lately, no key's count is too low; none is too high by
// more than n/m, and each says by how much at most; and every key with more than n/m
// denials is among them. So with 1,000 counters, a key with more than a thousandth of all
// denials is found, and its count is too high by at most a thousandth of all denials.
//
// It is made by [New], starts no goroutine, and may be used by many at once. It
// knows of this process alone.
type Tracker struct {
	hashKey []byte

	mu     sync.Mutex
	sketch sketch
}

// Offender is a key that was denied lately.
type Offender struct {
	// Key is the limiter's key, such as "ip:203.0.113.9"; hashed if that was asked for. A
	// key of more than 128 bytes is known by its SHA-256 only.
	Key string `json:"key"`
	// Denials is how often it was denied, each denial counting less as it ages. It may be
	// too high, by Error at most.
	Denials float64 `json:"denials"`
	// Error is by how much Denials may be too high.
	Error float64 `json:"error"`
	// Policy is the policy that has denied it last.
	Policy string `json:"policy"`
	// Last is when that was.
	Last time.Time `json:"last"`
	// BannedUntil is until when the key is banned, by this process's clock, if a ban has denied it last:
	// Policy is the ban's name then. It is zero if a limit has.
	BannedUntil time.Time `json:"banned_until,omitzero"`
}

// New returns a Tracker. It panics with the reason if an option makes no
// sense.
func New(options Options) *Tracker {
	if options.Size < 0 || options.HalfLife < 0 {
		panic(fmt.Sprintf("offenders: %d offenders with a half-life of %v make no sense", options.Size, options.HalfLife))
	}
	if options.HashKey != nil && len(options.HashKey) < leastHashKey {
		panic(fmt.Sprintf("offenders: HashKey of %d bytes, want at least %d, or nil to show keys as they are", len(options.HashKey), leastHashKey))
	}
	if options.Size == 0 {
		options.Size = defaultSize
	}
	if options.HalfLife == 0 {
		options.HalfLife = defaultHalfLife
	}
	return &Tracker{
		hashKey: slices.Clone(options.HashKey),
		sketch: sketch{
			halfLife: options.HalfLife, landmark: time.Now(), most: options.Size, byKey: make(map[string]*counter),
		},
	}
}

// Observe counts denied requests by their keys: it is the Options.Observe of a middleware,
// or is called by it. A request counts once for each of its keys, whether a limit or a ban
// has denied it. Shadow policies and lists do not count, and neither do strikes.
func (t *Tracker) Observe(e guard.Event) {
	banned := e.Banned()
	if e.Settled || e.Status != http.StatusTooManyRequests && !banned {
		return
	}
	now := time.Now()
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		if !o.Denies() || slices.ContainsFunc(e.Outcomes[:i], func(before guard.Outcome) bool {
			return before.Key == o.Key && before.Denies()
		}) {
			continue
		}
		var until time.Time
		if banned {
			until = now.Add(o.Decision.RetryAfter)
		}
		t.count(o, now, until)
	}
}

func (t *Tracker) count(o *guard.Outcome, now, banned time.Time) {
	key := o.Key
	if len(key) > longestKept {
		sum := sha256.Sum256([]byte(key))
		key = "sha256:" + hex.EncodeToString(sum[:])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.sketch.count(key, now, strings.Clone) // a key may be a part of something large
	c.last, c.banned = now, banned
	if c.policy != o.Policy {
		c.policy = strings.Clone(o.Policy)
	}
}

// Top returns the keys that were denied most lately, at most n of them, the worst first.
func (t *Tracker) Top(n int) []Offender {
	offenders := t.all()
	slices.SortFunc(offenders, func(a, b Offender) int {
		if a.Denials != b.Denials {
			if a.Denials > b.Denials {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Key, b.Key)
	})
	offenders = slices.Clip(offenders[:max(0, min(n, len(offenders)))])
	for i := range offenders {
		offenders[i].Key = t.hashed(offenders[i].Key)
	}
	return offenders
}

// all returns all that is counted, in no order.
func (t *Tracker) all() []Offender {
	t.mu.Lock()
	defer t.mu.Unlock()
	growth := t.sketch.growth(time.Now())
	offenders := make([]Offender, len(t.sketch.least))
	for i, c := range t.sketch.least {
		offenders[i] = Offender{
			Key: c.key, Denials: c.weight / growth, Error: c.error / growth, Policy: c.policy, Last: c.last, BannedUntil: c.banned,
		}
	}
	return offenders
}

// Total returns how many denials there were lately, each counting less as it ages.
func (t *Tracker) Total() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	growth := t.sketch.growth(time.Now())
	return t.sketch.total / growth
}

// hashed returns a key as it is shown.
func (t *Tracker) hashed(key string) string {
	if t.hashKey == nil {
		return key
	}
	mac := hmac.New(sha256.New, t.hashKey)
	_, _ = mac.Write([]byte(key)) // a hash takes everything
	return "hmac:" + hex.EncodeToString(mac.Sum(nil)[:leastHashKey])
}

// String prints the first 20 as a table.
func (t *Tracker) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "denials\terror\tlast\tbanned until\tpolicy\tkey")
	for _, o := range t.Top(shown) {
		banned := "-"
		if !o.BannedUntil.IsZero() {
			banned = o.BannedUntil.UTC().Format(time.RFC3339)
		}
		_, _ = fmt.Fprintf(w, "%.1f\t%.1f\t%s\t%s\t%s\t%q\n",
			o.Denials, o.Error, o.Last.UTC().Format(time.RFC3339), banned, o.Policy, o.Key)
	}
	_ = w.Flush() // into memory
	return text.String()
}

// report is the answer of ServeHTTP.
type report struct {
	HalfLifeSeconds float64    `json:"half_life_seconds"`
	Denials         float64    `json:"denials"` // of all keys
	Offenders       []Offender `json:"offenders"`
}

// ServeHTTP answers GET with the first 20 as JSON, or with as many as ?n= says:
//
//	{"half_life_seconds":600,"denials":41.5,"offenders":[
//	  {"key":"ip:203.0.113.9","denials":40.2,"error":0,"policy":"api","last":"2026-11-21T10:00:00Z"}]}
//
// It tells of your clients: mount it where only you can read it.
func (t *Tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	n := shown
	if asked := r.URL.Query().Get("n"); asked != "" {
		var err error
		if n, err = strconv.Atoi(asked); err != nil || n < 1 {
			http.Error(w, "n is how many: 1 or more", http.StatusBadRequest)
			return
		}
	}
	body, err := json.Marshal(report{t.sketch.halfLife.Seconds(), t.Total(), t.Top(n)})
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}

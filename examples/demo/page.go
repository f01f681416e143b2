package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// The bounds of the page.
const (
	mostVisitors = 64
	mostOfClient = mostVisitors / 2 // of one address
	mostUnderWay = 1000             // requests to itself
	mostPosted   = 1 << 10
)

const visitorCookie = "visitor"

var (
	errStranger = errors.New("the page does not know you (any more): load it again")
	errBusy     = errors.New("too many requests are under way on the whole page; try again in a moment")
)

//go:embed web
var web embed.FS

// page is the demo: its visitors, and the requests that it sends to itself for
// them. It is made by [newPage], and ended by close.
type page struct {
	limiter  *core.Limiter
	store    string // where the counters are
	start    time.Time
	traffic  *traffic
	visitors visitors
	hosts    hosts

	open     context.Context //nolint:containedctx // until close: it is the page's life, and no call's
	end      context.CancelFunc
	under    sync.WaitGroup // requests and runs of the page itself
	requests atomic.Int64   // under way
	leases   leaseRuns
}

// newPage returns a page with counters in a store. It tells the visitors where the store is.
func newPage(counters core.Store, store string, address net.Addr) *page {
	p := &page{
		store: store, start: time.Now(), traffic: newTraffic(address),
		visitors: visitors{most: mostVisitors, mostOfClient: mostOfClient, byID: make(map[string]*visitor)},
		hosts:    localhost,
	}
	p.limiter = core.New(&instants{Store: counters, now: p.now})
	p.leases.counters = counters
	p.open, p.end = context.WithCancel(context.Background())
	return p
}

// close ends the streams and the requests under way, and returns when they have
// ended. It may be called twice.
func (p *page) close() {
	p.end()
	p.under.Wait()
	p.traffic.client.CloseIdleConnections()
}

// now is the page's clock: the time since it began.
func (p *page) now() time.Duration { return time.Since(p.start) }

// handler serves the page and all that belongs to it.
func (p *page) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.index)
	assets, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the directory is compiled in
	}
	files := http.FileServerFS(assets)
	for _, name := range []string{"style.css", "app.js", "cards.js", "quotas.js", "pictures.js", "compare.js", "svg.js", "favicon.svg"} {
		mux.Handle("GET /"+name, files)
	}
	mux.HandleFunc("GET /stream", p.stream)
	mux.Handle("POST /requests", p.known(p.postRequests))
	mux.Handle("POST /limits/{algorithm}", p.known(p.postLimit))
	mux.Handle("POST /reset", p.known(p.postReset))
	mux.Handle("POST /comparison", p.known(p.postComparison))
	mux.Handle("DELETE /comparison", p.known(p.deleteComparison))
	mux.Handle("GET /leases.js", files)
	mux.HandleFunc("POST /leases", p.postLeases)
	all := http.NewServeMux()
	all.Handle("/api/", p.limited())
	all.Handle("/", http.NewCrossOriginProtection().Handler(secured(mux)))
	return p.hosts.only(noOtherSite(all))
}

// secured forbids the page everything but itself.
func secured(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// visitorOf returns who sends a request, or nil if the page does not know him.
func (p *page) visitorOf(r *http.Request) *visitor {
	cookie, err := r.Cookie(visitorCookie)
	if err != nil {
		return nil
	}
	return p.visitors.find(cookie.Value, p.now())
}

// welcome returns who sends a request, and makes a stranger a visitor. Where there is no room, one who opens the page takes the
// place of another, but no stream does: else two that come back by themselves would drive each other out for ever.
func (p *page) welcome(w http.ResponseWriter, r *http.Request, opensPage bool) (*visitor, error) {
	if v := p.visitorOf(r); v != nil {
		return v, nil
	}
	client, _ := keyfuncs.RemoteIP(r) // which never fails
	v, err := p.visitors.admit(p.open, p.now(), client, opensPage)
	if err != nil {
		return nil, err
	}
	http.SetCookie(w, &http.Cookie{Name: visitorCookie, Value: v.id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return v, nil
}

var index = template.Must(template.New("index.html").Funcs(template.FuncMap{
	"code": func(a algorithm) string { return a.code(a.standard()) },
}).ParseFS(web, "web/index.html"))

func (p *page) index(w http.ResponseWriter, r *http.Request) {
	if _, err := p.welcome(w, r, true); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var body bytes.Buffer
	err := index.Execute(&body, map[string]any{
		"Store": p.store, "Algorithms": algorithms, "Quotas": quotas, "Frameworks": frameworks, "Patterns": patterns,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(body.Bytes())
}

// known serves a request of a visitor. An error is told as JSON: with 422 and the
// field if a value is to blame.
func (p *page) known(serve func(*visitor, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := p.visitorOf(r)
		err := errStranger
		if v != nil {
			r.Body = http.MaxBytesReader(w, r.Body, mostPosted)
			err = serve(v, r)
		}
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fail(w, err)
	})
}

// fail tells an error as JSON.
func fail(w http.ResponseWriter, err error) {
	status, told := http.StatusBadRequest, &fieldError{Text: err.Error()}
	switch {
	case errors.As(err, &told):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, errStranger):
		status = http.StatusForbidden
	case errors.Is(err, errBusy), errors.Is(err, errInFlight):
		status = http.StatusServiceUnavailable
	case errors.Is(err, errStore):
		status = http.StatusBadGateway
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(told)
}

// read reads the form of a visitor.
func read(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

var (
	errStore       = errors.New("the store does not answer")
	errNoAlgorithm = errors.New("no such algorithm")
	errNoWay       = errors.New("no such way to send a request to this card")
	errNoFramework = errors.New("no such framework")
	errNoPattern   = &fieldError{"pattern", "no such pattern"}
)

func (p *page) postRequests(v *visitor, r *http.Request) error {
	var posted struct {
		Algorithm string `json:"algorithm"` // or "all", or a quota
		Way       string `json:"way"`       // of a quota
		Framework string `json:"framework"`
		Count     int    `json:"count"`
	}
	if err := read(r, &posted); err != nil {
		return err
	}
	if !knownFramework(posted.Framework) {
		return errNoFramework
	}
	if posted.Algorithm == "all" {
		return p.send(v, v.cards, "", posted.Count, posted.Framework)
	}
	c := cmp.Or(v.card(posted.Algorithm), v.quota(posted.Algorithm))
	if c == nil {
		return errNoAlgorithm
	}
	if c.quota != nil {
		switch chosen := c.quota.way(posted.Way); {
		case chosen == nil:
			return errNoWay
		case chosen.buys:
			return p.buy(v, posted.Count)
		}
	}
	return p.send(v, []*card{c}, posted.Way, posted.Count, posted.Framework)
}

func (p *page) postLimit(v *visitor, r *http.Request) error {
	var posted struct {
		Capacity string `json:"capacity"`
		Pace     string `json:"pace"`
	}
	if err := read(r, &posted); err != nil {
		return err
	}
	c := v.card(r.PathValue("algorithm"))
	if c == nil {
		return errNoAlgorithm
	}
	limit, err := c.parse(posted.Capacity, posted.Pace)
	if err != nil {
		return err
	}
	if v.has(c, limit) { // its usage stays
		return nil
	}
	if err := p.limiter.Reset(r.Context(), v.key, limit); err != nil {
		return errors.Join(errStore, err)
	}
	v.change(c, limit)
	return nil
}

func (p *page) postReset(v *visitor, r *http.Request) error {
	limits := v.forget()
	if err := p.limiter.Reset(r.Context(), v.key, limits...); err != nil {
		return errors.Join(errStore, err)
	}
	return nil
}

func (p *page) postComparison(v *visitor, r *http.Request) error {
	var posted struct {
		Pattern   string `json:"pattern"`
		Framework string `json:"framework"`
		Capacity  string `json:"capacity"`
		Window    string `json:"window"` // seconds
	}
	if err := read(r, &posted); err != nil {
		return err
	}
	if !knownFramework(posted.Framework) {
		return errNoFramework
	}
	chosen, ok := findPattern(posted.Pattern)
	if !ok {
		return errNoPattern
	}
	n, err := strconv.Atoi(posted.Capacity)
	if err != nil {
		return &fieldError{"capacity", strconv.Quote(posted.Capacity) + " is not a whole number"}
	}
	window, err := time.ParseDuration(cmp.Or(posted.Window, "0") + "s")
	if err != nil {
		return &fieldError{"window", strconv.Quote(posted.Window) + " is not a number of seconds"}
	}
	return p.compare(v, chosen, n, window, posted.Framework)
}

func (p *page) deleteComparison(v *visitor, _ *http.Request) error {
	v.Lock()
	defer v.Unlock()
	if v.run != nil {
		v.run.stop()
	}
	return nil
}

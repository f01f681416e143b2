package outbound

import (
	"hash/maphash"
	"time"

	"github.com/weir-go/ratelimit/internal/bounded"
)

// mostHosts bounds how many hosts a Transport remembers. The hosts called longest ago are forgotten, and begin anew.
const mostHosts = 1000

// hosts remembers how hosts have answered the calls of a Transport. It keeps hashes of their names, since a host chooses the
// length of the name that it redirects to.
type hosts struct {
	seed  maphash.Seed
	start time.Time
	state *bounded.Map[uint64, *host]
	retry Retry

	accounts bool // an answer of 429 is about an account of the host
}

// host is how a host has answered. The lock of the map guards it.
type host struct {
	window window
	tokens float64 // of the budget of retries
}

// rememberHosts has the Transport remember its hosts, if an option needs it. It panics with the reason if those options make
// no sense.
func (t *Transport) rememberHosts() {
	options := &t.options
	options.Retry = options.Retry.withDefaults()
	if !options.Throttle && options.Retry.Most == 0 {
		if options.Rejected != nil {
			panic("outbound: Rejected has no effect without Throttle or Retry")
		}
		return
	}
	t.hosts = &hosts{
		seed: maphash.MakeSeed(), start: time.Now(), state: bounded.New[uint64, *host](mostHosts), retry: options.Retry,
		accounts: options.By != nil && options.Rejected == nil,
	}
	if options.Rejected == nil {
		options.Rejected = isRejected
	}
}

// update changes the state of a host.
func (h *hosts) update(name string, change func(*host)) {
	h.state.Update(maphash.String(h.seed, name), func(of *host, ok bool) (*host, bool) {
		if !ok {
			of = &host{tokens: float64(h.retry.Tokens)}
		}
		change(of)
		return of, true
	})
}

// count counts the outcome of a call, for the budget alone if it is not about the host. It returns whether the budget allows a
// retry.
func (h *hosts) count(name string, of outcome, budgetAlone bool) (allowed bool) {
	if of == unknown {
		return false
	}
	now := h.part()
	h.update(name, func(host *host) {
		if !budgetAlone {
			host.window.count(now, of == accepted)
		}
		most := float64(h.retry.Tokens)
		if of == accepted {
			host.tokens = min(host.tokens+h.retry.Ratio, most)
		} else {
			host.tokens = max(host.tokens-1, 0)
		}
		allowed = host.tokens > most/2
	})
	return allowed
}

// part returns the number of the part of time that is now.
func (h *hosts) part() int64 { return int64(time.Since(h.start) / windowPart) }

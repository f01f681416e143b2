// Package specs keeps one Spec for all equal Params, so that a limit is copied and compared as a pointer.
package specs

import (
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// known holds the specs that are in use.
var known struct {
	mu sync.RWMutex
	of map[exact.Params]weak.Pointer[exact.Spec]
}

// Of returns the Spec of some Params. Equal Params have the same Spec for as long as it is in use. Of may be
// called by many goroutines at once.
func Of(p exact.Params) *exact.Spec {
	known.mu.RLock()
	s := known.of[p].Value()
	known.mu.RUnlock()
	if s != nil {
		return s
	}
	p.Name = strings.Clone(p.Name) // it may be a part of a whole request
	var identity *exact.Spec
	if shared := p.Identity(); shared != p {
		identity = Of(shared)
	}
	s = exact.NewSpec(p, identity)
	known.mu.Lock()
	defer known.mu.Unlock()
	if first := known.of[p].Value(); first != nil {
		return first
	}
	if known.of == nil {
		known.of = make(map[exact.Params]weak.Pointer[exact.Spec])
	}
	known.of[p] = weak.Make(s)
	runtime.AddCleanup(s, forget, p)
	return s
}

// forget forgets the Spec of some Params, unless they have got another one.
func forget(p exact.Params) {
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.of[p].Value() == nil {
		delete(known.of, p)
	}
}

package exact

import (
	"runtime"
	"strings"
	"sync"
	"weak"
)

// known holds the specs that are in use.
var known struct {
	mu sync.RWMutex
	of map[Params]weak.Pointer[Spec]
}

// SpecOf returns the Spec of some Params. Equal Params have the same Spec for as long as it is in use. SpecOf may be
// called by many goroutines at once.
func SpecOf(p Params) *Spec {
	known.mu.RLock()
	s := known.of[p].Value()
	known.mu.RUnlock()
	if s != nil {
		return s
	}
	p.Name = strings.Clone(p.Name) // it may be a part of a whole request
	var identity *Spec
	if shared := p.Identity(); shared != p {
		identity = SpecOf(shared)
	}
	s = NewSpec(p, identity)
	known.mu.Lock()
	defer known.mu.Unlock()
	if first := known.of[p].Value(); first != nil {
		return first
	}
	if known.of == nil {
		known.of = make(map[Params]weak.Pointer[Spec])
	}
	known.of[p] = weak.Make(s)
	runtime.AddCleanup(s, forget, p)
	return s
}

// forget forgets the Spec of some Params, unless they have got another one.
func forget(p Params) {
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.of[p].Value() == nil {
		delete(known.of, p)
	}
}

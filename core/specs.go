package core

import (
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// specs holds the specs that are in use.
var specs struct {
	mu sync.RWMutex
	of map[exact.Params]weak.Pointer[exact.Spec]
}

// specOf returns the Spec of some Params. Equal Params have the same Spec for as long as it is in use, so
// that a limit is copied and compared as a pointer.
func specOf(p exact.Params) *exact.Spec {
	specs.mu.RLock()
	s := specs.of[p].Value()
	specs.mu.RUnlock()
	if s != nil {
		return s
	}
	p.Name = strings.Clone(p.Name) // it may be a part of a whole request
	var identity *exact.Spec
	if shared := p.Identity(); shared != p {
		identity = specOf(shared)
	}
	s = exact.NewSpec(p, identity)
	specs.mu.Lock()
	defer specs.mu.Unlock()
	if first := specs.of[p].Value(); first != nil {
		return first
	}
	if specs.of == nil {
		specs.of = make(map[exact.Params]weak.Pointer[exact.Spec])
	}
	specs.of[p] = weak.Make(s)
	runtime.AddCleanup(s, forgetSpec, p)
	return s
}

// forgetSpec forgets the Spec of some Params, unless they have got another one.
func forgetSpec(p exact.Params) {
	specs.mu.Lock()
	defer specs.mu.Unlock()
	if specs.of[p].Value() == nil {
		delete(specs.of, p)
	}
}

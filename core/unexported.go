package core

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core/internal/denials"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// Other packages of this module call functions that programs have no use for.
//
//nolint:forcetypeassert // they know the types, which the packages with these variables cannot import
func init() { //nolint:gochecknoinits // see above
	unexported.TraitsOf = func(of any) unexported.Traits {
		l, _ := of.(Limit)
		return specOf(l).Told
	}
	inspect.StoreOf = func(limiter any) inspect.Store { return inspected(limiter.(*Limiter).store) }
	inspect.SpecOf = func(of any) *exact.Spec {
		l, _ := of.(Limit)
		return specOf(l)
	}
	denials.Remember = func(store any, memory denials.Memory, options any) any {
		return rememberDenials(store.(Store), memory, options.([]Option))
	}
	unexported.AllowAll = func(ctx, l, c any) error { return l.(*Limiter).allowAll(ctx.(context.Context), c.(*Call)) }
	unexported.SettleBeside = func(r any, then func(error), costs ...int) error {
		return r.(*Reservation).settleBeside(then, costs)
	}
	unexported.Split = func(r any) any { return r.(*Reservation).split() }
	unexported.Waited = func(r any) time.Duration { return r.(*Reservation).waited }
	unexported.PlacesOnly = waitOption(func(w *waiting) { w.placesOnly = true })
}

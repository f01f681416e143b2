package core_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A verb takes the kind of limit that it can answer, so that the compiler finds every other call.
func TestAVerbTakesTheKindThatItCanAnswer(t *testing.T) {
	quota, places, bans := reflect.TypeFor[core.Quota](), reflect.TypeFor[core.Places](), reflect.TypeFor[core.Bans]()
	limiter := reflect.TypeFor[*core.Limiter]()
	for verb, takes := range map[string][]reflect.Type{
		"Allow": {quota}, "AllowN": {quota}, "AllowAtMost": {quota}, "Wait": {quota}, "WaitN": {quota}, "Do": {quota}, "Charge": {quota}, "Refund": {quota},
		"Acquire": {places}, "TryAcquire": {places},
		"Peek": {quota, places, bans},
	} {
		method, ok := limiter.MethodByName(verb)
		if !ok {
			t.Fatalf("a Limiter has no %s", verb)
		}
		for _, kind := range []reflect.Type{quota, places, bans} {
			want := false
			for _, taken := range takes {
				want = want || taken == kind
			}
			if got := kind.AssignableTo(method.Type.In(3)); got != want {
				t.Errorf("%s takes %v: %t, want %t", verb, kind, got, want)
			}
		}
	}
}

// A missing limit of any kind is an error, and no verb panics because of it.
func TestAMissingLimitIsAnError(t *testing.T) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	want := core.Quota{}.Validate().Error()
	for name, limit := range map[string]core.Limit{"nil": nil, "a zero Quota": core.Quota{}, "zero Places": core.Places{}, "zero Bans": core.Bans{}} {
		check := core.Check{Key: "key", Limit: limit}
		for verb, ask := range map[string]func() error{
			"Peek":    func() error { _, err := limiter.Peek(t.Context(), "key", limit); return err },
			"PeekAll": func() error { _, err := limiter.PeekAll(t.Context(), check); return err },
			"AllowAll": func() error {
				_, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: limit, Mode: core.Look})
				return err
			},
			"Reserve": func() error { _, err := limiter.Reserve(t.Context(), check); return err },
			"WaitAll": func() error { _, err := limiter.WaitAll(t.Context(), []core.Check{check}); return err },
			"Reset":   func() error { return limiter.Reset(t.Context(), "key", limit) },
		} {
			if err := ask(); err == nil || err.Error() != want {
				t.Errorf("%s of %s: %v, want %s", verb, name, err, want)
			}
		}
	}
}

func TestAKindIsReadFromText(t *testing.T) {
	var quota core.Quota
	var places core.Places
	if err := quota.UnmarshalText([]byte("leaky 10, 1/s")); err != nil || quota != core.Leaky(10, core.PerSecond(1)) {
		t.Errorf("%v, %v", quota, err)
	}
	if err := places.UnmarshalText([]byte("concurrent 3, 1m")); err != nil || places != core.Concurrent(3, time.Minute) {
		t.Errorf("%v, %v", places, err)
	}
	for _, text := range []string{"concurrent 3, 1m", "ban 5, 10m"} {
		if err := quota.UnmarshalText([]byte(text)); err == nil || quota != core.Leaky(10, core.PerSecond(1)) {
			t.Errorf("%q is read as %v, %v", text, quota, err)
		}
	}
	if err := places.UnmarshalText([]byte("leaky 10, 1/s")); err == nil || places != core.Concurrent(3, time.Minute) {
		t.Errorf("a quota is read as %v, %v", places, err)
	}
}

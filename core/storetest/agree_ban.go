package storetest

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// AgreeOnBans checks that stores answer the same random histories of strikes and bans as a model does: strikes of
// every kind, bans by hand, other limits in the same call, long waits and clocks that step back. [Run] does it with
// one store; with several, all of them see the same histories, and their bans last equally long.
func AgreeOnBans(t *testing.T, newStores ...Factory) {
	stands := make([]*stand, len(newStores))
	for i, newStore := range newStores {
		stands[i] = newStand(t, newStore)
	}
	agreeOnBans(t, stands...)
}

func agreeOnBans(t *testing.T, stands ...*stand) {
	rapid.Check(t, func(t *rapid.T) {
		h := &banHistory{T: t, stands: stands, ban: drawBan(t), rate: core.FixedWindow(2, time.Minute)}
		h.at(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		for _, s := range stands {
			h.key = s.key()
		}
		h.model.ban = h.ban
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
		}
	})
}

// drawBan draws a ban with all of its numbers.
func drawBan(t *rapid.T) core.Ban {
	first := rapid.SampledFrom([]time.Duration{time.Millisecond, 1234567 * time.Microsecond, time.Second, 10 * time.Minute}).Draw(t, "first")
	return core.Ban{
		Strikes: core.SlidingLog(rapid.IntRange(1, 4).Draw(t, "strikes"), rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(t, "window")),
		First:   first, Factor: rapid.IntRange(1, 4).Draw(t, "factor"),
		Longest: first * time.Duration(rapid.IntRange(1, 40).Draw(t, "longest")),
		Forget:  rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, time.Hour}).Draw(t, "forget"),
		Extend:  rapid.IntRange(0, 3).Draw(t, "extend") == 0,
	}
}

// banHistory is a random history of a key under a ban.
type banHistory struct {
	*rapid.T

	stands []*stand
	ban    core.Ban
	rate   core.Quota
	key    string
	model  sentence
	now    int64
}

func (h *banHistory) at(now int64) {
	h.now = now
	for _, s := range h.stands {
		s.clock.now.Store(now)
	}
}

func (h *banHistory) step() {
	m := &h.model
	switch rapid.IntRange(0, 9).Draw(h.T, "step") {
	case 0, 1:
		h.settleStrikes(rapid.IntRange(-2, 3).Draw(h.T, "strikes"))
	case 2, 3, 4:
		h.call(rapid.SampledFrom([]core.Mode{core.Charge, core.Condition, core.OnDenial, core.OnDenial}).Draw(h.T, "mode"),
			rapid.IntRange(1, 3).Draw(h.T, "strikes"))
	case 5:
		d := time.Duration(rapid.Int64Range(1, 1e8).Draw(h.T, "by hand")) * time.Microsecond
		h.each("Ban", func(s *stand) error { return s.limiter.Ban(tContext(h.T), h.key, h.ban, d, "abuse") })
		m.bans = m.remembered(h.now)
		m.since, m.until, m.strikes = h.now, h.now+d.Microseconds(), nil
	case 6:
		if rapid.IntRange(0, 3).Draw(h.T, "lift") == 0 {
			h.each("Lift", func(s *stand) error { return s.limiter.Lift(tContext(h.T), h.key, h.ban) })
			h.model = sentence{ban: h.ban}
		}
	case 7:
		if left := m.look(h.now).RetryAfter; left > 0 { // to its last microsecond, or its end
			h.at(h.now + left.Microseconds() - rapid.Int64Range(0, 1).Draw(h.T, "early"))
		}
	case 8:
		h.at(h.now + rapid.SampledFrom([]int64{1, 999, 1e5, 1e6, 6e7, 4e9}).Draw(h.T, "wait"))
	default:
		if rapid.IntRange(0, 3).Draw(h.T, "back") == 0 {
			h.at(h.now - rapid.SampledFrom([]int64{1, 1e6, 1e8}).Draw(h.T, "steps back"))
		}
	}
	h.expect("a look", m.look(h.now), func(s *stand) core.Decision {
		d, err := s.limiter.Peek(tContext(h.T), h.key, h.ban.Limit())
		if err != nil {
			h.Fatal(err)
		}
		return d
	})
	m.mend(h.now) // since it was asked
}

// each does something with all stores.
func (h *banHistory) each(what string, do func(*stand) error) {
	for i, s := range h.stands {
		if err := do(s); err != nil {
			h.Fatalf("%s in store %d: %v", what, i, err)
		}
	}
}

// expect compares the answers of all stores with the model's.
func (h *banHistory) expect(what string, want core.Decision, ask func(*stand) core.Decision) {
	for i, s := range h.stands {
		got := asAsked(ask(s))[0]
		if got.Limit = nil; got != want {
			h.Fatalf("%s of store %d under %s at %d: %+v, want %+v", what, i, h.ban, h.now, got, want)
		}
	}
}

// settleStrikes makes strikes after a call, or forgives all if they are fewer than 0.
func (h *banHistory) settleStrikes(n int) {
	m := &h.model
	if n < 0 {
		n = -h.ban.Strikes.Capacity()
	}
	begun := m.strike(h.now, n)
	h.pin(begun, func(s *stand) core.Decision {
		strike := s.limiter.Strike
		if n < 0 {
			strike = func(ctx context.Context, key string, ban core.Ban, _ int) (core.Decision, error) {
				return s.limiter.Forgive(ctx, key, ban)
			}
		}
		d, err := strike(tContext(h.T), h.key, h.ban, n)
		if err != nil {
			h.Fatal(err)
		}
		if d.Began != (begun > 0) {
			h.Fatalf("%d strikes under %s: began is %t", n, h.ban, d.Began)
		}
		return d
	})
}

// call asks about the ban and a rate, and strikes as the mode says.
func (h *banHistory) call(mode core.Mode, strikes int) {
	m := &h.model
	banned := m.inForce(h.now)
	for i, s := range h.stands {
		before := s.peek(h.T, h.key, h.rate)
		got := s.allowAll(h.T, core.Check{Key: h.key, Limit: h.rate}, core.Check{Key: h.key, Limit: h.ban.Limit(), Mode: mode, Cost: strikes})
		if after := s.peek(h.T, h.key, h.rate); banned && after != before {
			h.Fatalf("a call under a ban was charged: %+v of the rate, want %+v", after, before)
		}
		if got[1].Allowed == banned {
			h.Fatalf("under %s: allowed is %t, banned is %t", h.ban, got[1].Allowed, banned)
		}
		if i < len(h.stands)-1 {
			continue
		}
		struck := mode == core.Charge && got[0].Allowed || mode == core.OnDenial && !got[0].Allowed
		if banned {
			struck = mode != core.Condition // which counts only if the ban extends
		}
		if !struck {
			strikes = 0
		}
		begun := m.strike(h.now, strikes)
		if got[1].Began != (begun > 0) {
			h.Fatalf("%d strikes under %s with mode %s: began is %t, want %t", strikes, h.ban, mode, got[1].Began, begun > 0)
		}
		h.pin(begun, func(s *stand) core.Decision { return s.peek(h.T, h.key, h.ban.Limit()) })
	}
}

// pin has the model learn from the stores how long a ban is that has begun, which must be within its bounds.
func (h *banHistory) pin(begun time.Duration, ask func(*stand) core.Decision) {
	m := &h.model
	for i, s := range h.stands {
		got := ask(s)
		if begun == 0 {
			continue
		}
		left := got.NextAfter
		if left < begun || left > begun+begun/10 {
			h.Fatalf("a ban lasts %v, want %v and up to a tenth more", left, begun)
		}
		if i > 0 && left != since(h.now, m.until) {
			h.Fatalf("a ban lasts %v in one store and %v in another one", since(h.now, m.until), left)
		}
		m.until = h.now + left.Microseconds()
	}
}

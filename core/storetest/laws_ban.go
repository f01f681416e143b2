package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// banning are the laws of bans.
var banning = []law{
	{"random histories of bans agree with a model", onBans, func(t *testing.T, s *stand) { agreeOnBans(t, s) }},
	{"a ban ends at its end and not one microsecond before, at no cost", onBans, banEndsExactly},
	{"hammering does not prolong a ban, unless it extends", onBans, hammeringUnderBan},
	{"each ban is longer, up to the longest, until they are forgotten", onBans, bansGrow},
	{"all who use the name of a ban share it", onBans, bansAreShared},
	{"a call that is denied under a ban strikes nobody", onBans, deniedUnderBan},
	{"strikes of a shadow ban nobody", onBans, shadowStrikes},
	{"forgiven strikes do not count", onBans, forgiven},
	{"a denial strikes once, and only where it is asked to", onBans, denialStrikes},
	{"a reservation settles its strikes once", onBans, reservedStrikes},
	{"a ban by hand holds, and Lift ends it", onBans, banByHand},
	{"a clock that steps back locks nobody out longer than the ban", onBans, clockBackUnderBan},
	{"calls about bans without sense are errors that change nothing", onBans, bansWithoutSense},
}

var onBans = []string{"ban"}

var brute = core.Ban{
	Strikes: core.SlidingLog(3, time.Minute), First: time.Minute, Factor: 2, Longest: 5 * time.Minute, Forget: time.Hour,
}

func (s *stand) strike(t rapid.TB, key string, ban core.Ban, n int) core.Decision {
	t.Helper()
	d, err := s.limiter.Strike(tContext(t), key, ban, n)
	if err != nil {
		t.Fatalf("Strike(%q, %s, %d): %v", key, ban, n, err)
	}
	return d
}

// banned returns for how long a key is still banned.
func (s *stand) banned(t rapid.TB, key string, ban core.Ban) time.Duration {
	t.Helper()
	left, err := s.limiter.Banned(tContext(t), key, ban)
	if err != nil {
		t.Fatalf("Banned(%q, %s): %v", key, ban, err)
	}
	return left
}

// heed asks a rate and about a ban in one call.
func (s *stand) heed(t rapid.TB, key string, rate core.Limit, ban core.Ban, mode core.Mode) (passed bool, ofRate, ofBan core.Decision) {
	t.Helper()
	d := s.allowAll(t, core.Check{Key: key, Limit: rate}, core.Check{Key: key, Limit: ban.Limit(), Mode: mode})
	return d[0].Allowed && d[1].Allowed, d[0], d[1]
}

func banEndsExactly(t *testing.T, s *stand) {
	key, rate := s.key(), core.Leaky(10, core.PerHour(1))
	s.strike(t, key, brute, 2)
	if passed, _, d := s.heed(t, key, rate, brute, core.Condition); !passed || d.Remaining != 1 {
		t.Errorf("after two strikes of three: passed is %t, %+v", passed, d)
	}
	if d := s.strike(t, key, brute, 1); !d.Began || d.Remaining != 0 {
		t.Errorf("the third strike: %+v, want that a ban has begun", d)
	}
	left := s.banned(t, key, brute)
	for range 5 {
		passed, _, d := s.heed(t, key, rate, brute, core.Condition)
		if r := s.peek(t, key, rate); passed || d.RetryAfter != left || r.Remaining != 9 {
			t.Errorf("under a ban: passed is %t, %+v, %d of the rate are left", passed, d, r.Remaining)
		}
	}
	s.wait(left - time.Microsecond)
	if left := s.banned(t, key, brute); left != time.Microsecond {
		t.Errorf("one microsecond before its end, %v of the ban are left", left)
	}
	s.wait(time.Microsecond)
	if passed, r, d := s.heed(t, key, rate, brute, core.Condition); !passed || r.Remaining != 8 || d.Remaining != 3 {
		t.Errorf("at the end of the ban: passed is %t, %d of the rate and %d strikes are left", passed, r.Remaining, d.Remaining)
	}
}

func hammeringUnderBan(t *testing.T, s *stand) {
	extending := brute
	extending.Extend = true
	for _, ban := range []core.Ban{brute, extending} {
		for _, mode := range []core.Mode{core.Condition, core.OnDenial, core.Charge} {
			key, rate := s.key(), core.Leaky(10, core.PerHour(1))
			s.strike(t, key, ban, 3)
			full := s.banned(t, key, ban)
			s.wait(10 * time.Second)
			for range 3 {
				s.heed(t, key, rate, ban, mode)
			}
			if !ban.Extend {
				s.strike(t, key, ban, 5)
			}
			want := full - 10*time.Second
			if ban.Extend && mode != core.Condition {
				want = full
			}
			if left := s.banned(t, key, ban); left != want {
				t.Errorf("%s hammered at with mode %s: %v are left, want %v", ban, mode, left, want)
			}
			s.wait(s.banned(t, key, ban))
			if d := s.peek(t, key, ban.Limit()); !d.Allowed || d.Remaining != 3 {
				t.Errorf("%s hammered at with mode %s, at its end: %+v", ban, mode, d)
			}
		}
	}
}

func bansGrow(t *testing.T, s *stand) {
	key := s.key()
	for i, minutes := range []int{1, 2, 4, 5, 5, 5} {
		want := time.Duration(minutes) * time.Minute
		s.strike(t, key, brute, 3)
		left := s.banned(t, key, brute)
		if left < want || left > want+want/10 {
			t.Errorf("ban %d lasts %v, want %v and up to a tenth more", i, left, want)
		}
		s.wait(left + time.Hour - time.Microsecond)
	}
	s.wait(time.Microsecond)
	if d := s.peek(t, key, brute.Limit()); d.ResetAfter != 0 {
		t.Errorf("an hour after the last ban: %+v, want a key as good as new", d)
	}
	s.strike(t, key, brute, 3)
	if left := s.banned(t, key, brute); left > time.Minute+6*time.Second {
		t.Errorf("the first ban after the others were forgotten lasts %v", left)
	}

	for _, factor := range []int{2, 3, 1000} { // no overflow
		huge := core.Ban{Strikes: core.SlidingLog(1, time.Second), First: 5 * 365 * 24 * time.Hour, Factor: factor, Longest: 10 * 365 * 24 * time.Hour, Forget: 10 * 365 * 24 * time.Hour}
		key := s.key()
		for range 4 {
			s.strike(t, key, huge, 1)
			left := s.banned(t, key, huge)
			if left < huge.First || left > huge.Longest+huge.Longest/10 {
				t.Fatalf("a ban of %s lasts %v", huge, left)
			}
			s.clock.now.Add(left.Microseconds())
		}
		s.clock.now.Store(start.UnixMicro())
	}
}

func bansAreShared(t *testing.T, s *stand) {
	key, one := s.key(), brute.Named("logins")
	other := core.Ban{Strikes: core.SlidingLog(10, time.Hour), First: time.Second}.Named("logins")
	s.strike(t, key, one, 2)
	if d := s.peek(t, key, other.Limit()); d.Remaining != 8 {
		t.Errorf("two strikes elsewhere under the same name: %+v, want 8 of 10 left", d)
	}
	s.strike(t, key, one, 1)
	if a, b := s.banned(t, key, one), s.banned(t, key, other); a != b || a < time.Minute {
		t.Errorf("banned for %v here and %v elsewhere under one name", a, b)
	}
	if left := s.banned(t, key, brute.Named("orders")) + s.banned(t, key, brute) + s.banned(t, s.key(), one); left != 0 {
		t.Errorf("another name, no name or another key is banned for %v", left)
	}

	smaller := s.key()
	s.strike(t, smaller, other, 7)
	if d := s.peek(t, smaller, one.Limit()); !d.Allowed || d.Remaining != 1 {
		t.Errorf("seven strikes under a ban that is made to take three: %+v, want that the next one bans", d)
	}
	if d := s.strike(t, smaller, one, 1); !d.Began {
		t.Errorf("the next strike: %+v", d)
	}
}

func deniedUnderBan(t *testing.T, s *stand) {
	key, other, rate := s.key(), s.key(), core.FixedWindow(1, time.Hour)
	perUser := brute.Named("users")
	s.allow(t, key, rate, 1) // so that the rate denies, too
	s.strike(t, key, brute, 3)
	for range 5 {
		s.allowAll(t, core.Check{Key: key, Limit: rate}, core.Check{Key: key, Limit: brute.Limit(), Mode: core.Condition},
			core.Check{Key: other, Limit: perUser.Limit(), Mode: core.OnDenial}, core.Check{Key: key, Limit: perUser.Limit(), Mode: core.OnDenial})
	}
	for _, key := range []string{key, other} {
		if d := s.peek(t, key, perUser.Limit()); d.Remaining != 3 || d.ResetAfter != 0 {
			t.Errorf("a call that is denied under another ban strikes: %+v", d)
		}
	}
}

func shadowStrikes(t *testing.T, s *stand) {
	key, rate := s.key(), core.FixedWindow(1, time.Hour)
	shadow := core.Check{Key: key, Limit: brute.Limit(), Mode: core.Condition, Shadow: true}
	for range 4 {
		r := s.reserve(t, shadow)
		settleAs(t, r, 1)
	}
	if left := s.banned(t, key, brute); left != 0 {
		t.Errorf("strikes of a shadow ban for %v", left)
	}
	d := s.allowAll(t, shadow, core.Check{Key: key, Limit: rate})
	if d[0].Allowed || !d[1].Allowed {
		t.Errorf("the shadow, which is banned, and another check: %t, %t", d[0].Allowed, d[1].Allowed)
	}
	onDenial := core.Check{Key: key, Limit: brute.Limit(), Mode: core.OnDenial}
	for range 3 { // a shadow's denial is none
		s.allowAll(t, onDenial, core.Check{Key: key, Limit: rate, Shadow: true})
	}
	if d := s.peek(t, key, brute.Limit()); d.Remaining != 3 {
		t.Errorf("denials of a shadow strike: %+v", d)
	}
}

func (s *stand) forgive(t rapid.TB, key string) core.Decision {
	t.Helper()
	d, err := s.limiter.Forgive(tContext(t), key, brute)
	if err != nil {
		t.Fatalf("Forgive: %v", err)
	}
	return d
}

func forgiven(t *testing.T, s *stand) {
	key := s.key()
	s.strike(t, key, brute, 2)
	if d := s.forgive(t, key); d.Remaining != 3 || d.ResetAfter != 0 {
		t.Errorf("all strikes forgiven: %+v, want a key as good as new", d)
	}
	s.strike(t, key, brute, 3)
	left := s.banned(t, key, brute)
	s.forgive(t, key)
	if after := s.banned(t, key, brute); after != left {
		t.Errorf("forgiven during a ban of %v: %v are left", left, after)
	}
	s.wait(left)
	s.strike(t, key, brute, 2)
	s.forgive(t, key)
	s.strike(t, key, brute, 3)
	if left := s.banned(t, key, brute); left < 2*time.Minute {
		t.Errorf("the second ban lasts %v, though forgiving does not forget the first one", left)
	}
}

func denialStrikes(t *testing.T, s *stand) {
	rate := core.FixedWindow(1, time.Hour)
	for _, mode := range []core.Mode{core.OnDenial, core.Condition} {
		key := s.key()
		for i, want := range []int{3, 2, 1, 0} {
			passed, r, d := s.heed(t, key, rate, brute, mode)
			if mode == core.Condition {
				want = 3
			}
			if passed != (i == 0) || r.Remaining != 0 || d.Remaining != want || d.Began != (want == 0) || !d.Allowed {
				t.Errorf("request %d with mode %s: %+v, %d strikes are left, want %d", i, mode, d, d.Remaining, want)
			}
		}
		if banned := s.banned(t, key, brute) > 0; banned != (mode == core.OnDenial) {
			t.Errorf("after three denials with mode %s: banned is %t", mode, banned)
		}
	}
	one, other := s.key(), s.key() // of several keys, which may be in several places
	for range 3 {
		s.allowAll(t, core.Check{Key: one, Limit: rate, Cost: 2}, core.Check{Key: other, Limit: brute.Limit(), Mode: core.OnDenial})
	}
	if s.banned(t, other, brute) == 0 {
		t.Error("three denials under another key do not ban")
	}
	many := s.key()
	s.allowAll(t, core.Check{Key: many, Limit: rate, Cost: 2}, core.Check{Key: many, Limit: brute.Limit(), Mode: core.OnDenial, Cost: 1_000_000})
	if s.banned(t, many, brute) == 0 {
		t.Error("a denial of a million strikes does not ban")
	}
}

func reservedStrikes(t *testing.T, s *stand) {
	key, rate := s.key(), core.Leaky(5, core.PerHour(1))
	checks := []core.Check{{Key: key, Limit: brute.Limit(), Mode: core.OnDenial}, {Key: key, Limit: rate}}
	for _, step := range []struct{ strikes, want int }{{0, 3}, {2, 1}, {-1, 2}, {-3, 3}, {3, 0}} {
		r := s.reserve(t, checks...)
		settleAs(t, r, step.strikes, 1)
		if d := s.peek(t, key, brute.Limit()); d.Remaining != step.want {
			t.Errorf("settled with %d strikes: %d are left, want %d", step.strikes, d.Remaining, step.want)
		}
		if err := r.Settle(tContext(t), 3, 1); err == nil {
			t.Error("settled twice")
		}
	}
	if d := s.peek(t, key, rate); d.Remaining != 0 {
		t.Errorf("%d of the rate are left, want 0", d.Remaining)
	}
	denied := s.reserve(t, checks...)
	if denied.Allowed() {
		t.Fatal("a reservation under a ban passes")
	}
}

func banByHand(t *testing.T, s *stand) {
	key := s.key()
	ban := func(d time.Duration) {
		t.Helper()
		if err := s.limiter.Ban(tContext(t), key, brute, d, "scraping"); err != nil {
			t.Fatal(err)
		}
		if left := s.banned(t, key, brute); left != d {
			t.Errorf("banned by hand for %v: %v are left", d, left)
		}
	}
	lift := func() {
		t.Helper()
		if err := s.limiter.Lift(tContext(t), key, brute); err != nil {
			t.Fatal(err)
		}
		if d := s.peek(t, key, brute.Limit()); !d.Allowed || d.Remaining != 3 || d.ResetAfter != 0 {
			t.Errorf("lifted: %+v", d)
		}
	}
	ban(time.Hour)
	ban(time.Microsecond)
	lift()
	s.strike(t, key, brute, 2)
	ban(time.Second)
	s.wait(time.Second)
	if d := s.peek(t, key, brute.Limit()); !d.Allowed || d.Remaining != 3 {
		t.Errorf("after a ban by hand: %+v, want that earlier strikes are forgotten", d)
	}
	s.strike(t, key, brute, 3)
	if left := s.banned(t, key, brute); left < time.Minute || left > 66*time.Second {
		t.Errorf("the first ban by strikes after one by hand lasts %v", left)
	}
	lift()
	lift()
}

func clockBackUnderBan(t *testing.T, s *stand) {
	key, rate := s.key(), core.Leaky(10, core.PerHour(1))
	s.strike(t, key, brute, 3)
	length := s.banned(t, key, brute)
	s.wait(10 * time.Second)
	s.wait(-time.Hour)
	if _, _, d := s.heed(t, key, rate, brute, core.Condition); d.Allowed || d.RetryAfter != length {
		t.Errorf("an hour before a ban of %v began: %+v", length, d)
	}
	s.wait(length - time.Microsecond)
	if left := s.banned(t, key, brute); left != time.Microsecond {
		t.Errorf("%v are left, want 1µs", left)
	}
	s.wait(time.Microsecond)
	if left := s.banned(t, key, brute); left != 0 {
		t.Errorf("%v are left of a ban that was asked about when the clock had stepped back", left)
	}
}

func bansWithoutSense(t *testing.T, s *stand) {
	key, limit, rate := s.key(), brute.Limit(), core.Leaky(1, core.PerHour(1))
	for name, checks := range map[string][]core.Check{
		"OnDenial of a rate":  {{Key: key, Limit: rate, Mode: core.OnDenial}},
		"headroom":            {{Key: key, Limit: limit, Mode: core.Condition, Headroom: 1}},
		"two modes":           {{Key: key, Limit: limit, Mode: core.Condition}, {Key: key, Limit: limit, Mode: core.OnDenial}},
		"a negative cost":     {{Key: key, Limit: limit, Mode: core.OnDenial, Cost: -1}},
		"a ban without sense": {{Key: key, Limit: core.Ban{Strikes: rate}.Limit(), Mode: core.Condition}},
	} {
		if _, err := s.limiter.AllowAll(tContext(t), checks...); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	for _, d := range []time.Duration{0, -1, 11 * 365 * 24 * time.Hour} {
		if err := s.limiter.Ban(tContext(t), key, brute, d, ""); err == nil {
			t.Errorf("a ban by hand for %v is no error", d)
		}
	}
	if d := s.peek(t, key, limit); d.Remaining != 3 || d.ResetAfter != 0 {
		t.Errorf("errors have changed something: %+v", d)
	}
}

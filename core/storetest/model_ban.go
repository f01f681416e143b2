package storetest

import (
	"time"

	"github.com/weir-go/ratelimit/core"
)

// sentence is the model of a key under a ban: every strike, and the ban that began last, in microseconds. It
// counts them all, each time.
type sentence struct {
	ban     core.Ban
	strikes []int64
	since   int64
	until   int64
	bans    int
}

// inForce reports whether the key is banned at an instant. If the clock has stepped back behind the
// beginning, the ban is as long as it was, from now on.
func (s *sentence) inForce(now int64) bool { return s.end(now) > now }

func (s *sentence) end(now int64) int64 {
	if s.since > now {
		return now + s.until - s.since
	}
	return s.until
}

// remembered returns how many bans make the next one longer.
func (s *sentence) remembered(now int64) int {
	if s.end(now)+s.ban.Forget.Microseconds() > now {
		return s.bans
	}
	return 0
}

// live returns the strikes that count.
func (s *sentence) live(now int64) (live []int64) {
	window := s.ban.Strikes.Rate().Period.Microseconds()
	for _, at := range s.strikes {
		if at > now-window {
			live = append(live, min(at, now))
		}
	}
	return live
}

// mend begins a ban anew that is from the future.
func (s *sentence) mend(now int64) {
	if s.since > now {
		s.since, s.until = now, s.end(now)
	}
}

// length returns how long the next ban lasts, without its jitter.
func (s *sentence) length(now int64) time.Duration {
	length := s.ban.First
	for range s.remembered(now) {
		if length = min(length*time.Duration(s.ban.Factor), s.ban.Longest); length == s.ban.Longest {
			break
		}
	}
	return length
}

// strike adds strikes, and returns how long the ban lasts that they begin, without its jitter, or 0.
func (s *sentence) strike(now int64, n int) (begun time.Duration) {
	if s.inForce(now) {
		if s.ban.Extend && n > 0 {
			s.until, s.since = now+s.until-s.since, now
		}
		return 0
	}
	if n == 0 || n < 0 && len(s.live(now)) == 0 {
		return 0
	}
	if s.strikes = s.live(now); s.remembered(now) == 0 {
		s.bans, s.since, s.until = 0, 0, 0
	}
	for range n {
		s.strikes = append(s.strikes, now)
	}
	if n < 0 {
		s.strikes = s.strikes[:max(0, len(s.strikes)+n)]
	}
	if len(s.strikes) < s.ban.Strikes.Capacity() {
		return 0
	}
	begun = s.length(now)
	s.bans, s.since, s.until, s.strikes = s.remembered(now)+1, now, now+begun.Microseconds(), nil
	return begun
}

// look returns the answer to a check that heeds the ban.
func (s *sentence) look(now int64) core.Decision {
	if s.inForce(now) {
		left := since(now, s.end(now))
		return core.Decision{RetryAfter: left, NextAfter: left, ResetAfter: left + s.ban.Forget}
	}
	live, window := s.live(now), s.ban.Strikes.Rate().Period
	d := core.Decision{Allowed: true, Remaining: s.ban.Strikes.Capacity() - len(live)}
	if s.remembered(now) > 0 {
		d.ResetAfter = since(now, s.end(now)) + s.ban.Forget
	}
	if n := len(live); n > 0 {
		d.NextAfter = since(now, live[0]) + window
		d.ResetAfter = max(d.ResetAfter, since(now, live[n-1])+window)
	}
	return d
}

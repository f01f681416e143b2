package main

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Every kind of call is answered beside what lies there.
func TestSoaks(t *testing.T) {
	if _, err := soak(t.Context(), contents{ended: 50, holders: 50, banned: 100}, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

// What has held a server is told by the script, and apart from what Redis compiles and from commands that are no scripts.
func TestCommandsThatHoldAServerAreToldApart(t *testing.T) {
	names, err := scriptNames()
	if err != nil {
		t.Fatal(err)
	}
	hash := ""
	for own, name := range names {
		if name == "decide.lua" {
			hash = own
		}
	}
	long := func(d time.Duration, args ...string) redis.SlowLog { return redis.SlowLog{Duration: d, Args: args} }
	runs, compiled, others := heldBy([]redis.SlowLog{
		long(2*time.Millisecond, "evalsha", hash, "2", "a"), long(time.Millisecond, "ZREM", "key", "member"),
		long(5*time.Millisecond, "EVALSHA", hash, "7", "b"), long(3*time.Millisecond, "evalsha", "unknown", "1", "c"),
		long(4*time.Millisecond, "eval", "-- Settles.\nreturn 1", "1", "d"), long(3*time.Millisecond, "TIME"),
	}, names)
	told := func(all []held) (list []string) {
		for _, one := range all {
			list = append(list, one.name, one.longest.String(), one.most.Args[2])
		}
		return list
	}
	if got, want := told(runs), []string{"decide.lua", "5ms", "7", "unknown", "3ms", "1"}; !slices.Equal(got, want) || runs[0].count != 2 {
		t.Errorf("the runs are %v, want %v", got, want)
	}
	if got, want := told(compiled), []string{"-- Settles.", "4ms", "1"}; !slices.Equal(got, want) {
		t.Errorf("those that were compiled are %v, want %v", got, want)
	}
	if others.count != 2 || others.longest != 3*time.Millisecond {
		t.Errorf("%d other commands have taken %v at most, want 2 and 3ms", others.count, others.longest)
	}
}

package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// reserveWork is the environment variable that makes this test binary a process that reserves, and then waits to be
// killed. It holds the URL of the server and the prefix of the keys.
const reserveWork = "RATELIMIT_FAULTS_RESERVE"

var tokens = core.FixedWindow(100, time.Hour).Named("tokens")

// reservedUntil is how long the process that is killed reserves.
const reservedUntil = 2 * time.Second

// beReserving reserves, says so, and waits.
func beReserving(text string) int {
	url, prefix, _ := strings.Cut(text, "\n")
	options, err := redis.ParseURL(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	limiter, ctx := core.New(core.NewRedis(redis.NewClient(options), core.WithPrefix(prefix), core.WithBudget(time.Minute))), context.Background()
	check := core.Check{Key: "user:42", Limit: tokens, Cost: 20, ReserveFor: reservedUntil}
	for range 2 {
		r, err := limiter.Reserve(ctx, check)
		if err == nil {
			_, err = r.Grow(ctx, 25)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	forGood := check
	forGood.Cost, forGood.ReserveFor = 3, 0
	settled, err := limiter.Reserve(ctx, check)
	if err == nil {
		err = settled.Settle(ctx, 7)
	}
	if err == nil {
		_, err = limiter.Reserve(ctx, forGood)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = fmt.Fprintln(os.Stdout, "reserved")
	select {}
}

// A process that has reserved is killed. What it has reserved for a time is back after that time, on the server's
// clock, and what it has settled or reserved for good stays charged.
func TestAKilledProcessGivesBackWhatItHasReserved(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	client := server.Client(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(time.Minute)))
	now := func() time.Time {
		t.Helper()
		at, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	left := func() int {
		t.Helper()
		r, err := limiter.Reserve(t.Context(), core.Check{Key: "user:42", Limit: tokens, Cost: 101, ReserveFor: time.Minute}) // it looks
		if err != nil {
			t.Fatal(err)
		}
		return r.Decisions()[0].Remaining
	}
	earliest := now()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), reserveWork+"="+server.URL()+"\n"+prefix)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "reserved\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	latest := now()
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	for {
		before := now()
		got := left()
		after := now()
		switch {
		case after.Before(earliest.Add(reservedUntil)):
			if got != 40 {
				t.Fatalf("%v before the time is over, %d are left, want 40", earliest.Add(reservedUntil).Sub(after), got)
			}
		case before.After(latest.Add(reservedUntil)):
			if got != 90 {
				t.Fatalf("%v after the time is over, %d are left, want 90", before.Sub(latest.Add(reservedUntil)), got)
			}
			if again := left(); again != 90 {
				t.Fatalf("it came back again: %d are left", again)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

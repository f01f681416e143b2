package core

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// Checks of a batch that come in a row and share their limit, their cost and how often they are
// asked, have the words for these once.
func TestChecksInARowShareTheirWords(t *testing.T) {
	const (
		take     = "take leaky 36000000000 1 1" // an event weighs an hour in microseconds
		takeMore = "take+ leaky 36000000000 1 1"
		event    = "3600000000"
	)
	limit := Leaky(10, PerHour(1))
	one := func(keys ...string) (checks []Check) {
		for _, key := range keys {
			checks = append(checks, Check{Key: key, Limit: limit, Cost: 1})
		}
		return checks
	}
	for _, c := range []struct {
		name  string
		calls [][]Check
		want  []string
	}{
		{"one check", [][]Check{one("a")}, []string{take, event}},
		{"three in a row", [][]Check{one("a"), one("b"), one("c")}, []string{take, event + " 1 3"}},
		{"asked twice", [][]Check{one("a"), one("a")}, []string{take, event + " 2"}},
		{"asked twice, in a row", [][]Check{one("a"), one("b"), one("a"), one("b")}, []string{take, event + " 2 2"}},
		{"asked twice and once", [][]Check{one("a"), one("b"), one("b"), one("c")}, []string{take, event, take, event + " 2", take, event}},
		{"other costs", [][]Check{one("a"), {{Key: "b", Limit: limit, Cost: 2}}, one("c")}, []string{take, event, take, "7200000000", take, event}},
		{"other limits", [][]Check{one("a"), {{Key: "b", Limit: GCRA(10, PerHour(1)), Cost: 1}}}, []string{take, event, "take gcra 36000000000 1 1", event}},
		{"calls of several checks", [][]Check{one("a", "b", "c"), one("d")}, []string{takeMore, event + " 1 2", take, event + " 1 2"}},
		{"costs that add up", [][]Check{one("a", "a")}, []string{"ask+ leaky 36000000000 1 1", event, take, "7200000000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				var sent []string // with the last batch
				client := clientAt(t, "192.0.2.1:6379", func(command redis.Cmder) (string, error) {
					arguments := command.Args()
					keys := arguments[2].(int)
					<-hold
					sent = nil
					for _, word := range arguments[3+keys:] {
						if text := wordOf(word); text != "at" {
							sent = append(sent, text)
						}
					}
					return strings.TrimSpace(strings.Repeat("0 ", keys)), nil
				})
				r := NewRedis(client, WithBudget(time.Hour), WithInFlight(1))
				var group sync.WaitGroup
				for _, checks := range append([][]Check{one("first")}, c.calls...) { // the others wait for it
					group.Go(func() {
						if err := r.Decide(t.Context(), checks, make([]Decision, len(checks))); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				close(hold)
				group.Wait()
				_ = r.Close()
				if !slices.Equal(sent, c.want) {
					t.Errorf("the words are %q, want %q", sent, c.want)
				}
			})
		})
	}
}

// wordOf returns a word of a call as it is sent.
func wordOf(word any) string {
	if text := asString(word); text != "" {
		return text
	}
	return fmt.Sprint(word)
}

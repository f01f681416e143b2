package redisstore

import (
	"context"
	"encoding"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// What a denied call was charged is given back once it can be, whatever a server refuses until then; after a time-out, when
// it may have been given back, it is left.
func TestGivingBackGoesOnUntilItIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		failures []error
		want     int // settlements that are sent
	}{
		"at once":           {nil, 1},
		"refused":           {[]error{proto("LOADING"), proto("READONLY"), proto("CLUSTERDOWN")}, 4},
		"nobody knows":      {[]error{context.DeadlineExceeded}, 1},
		"in the end nobody": {[]error{proto("LOADING"), context.DeadlineExceeded}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				var mu sync.Mutex
				var settled []string
				failures := slices.Clone(c.failures)
				r := wired(t, func(command redis.Cmder) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					if word(command, "settle") {
						_, _ = command.Args()[len(command.Args())-1].(encoding.BinaryMarshaler).MarshalBinary() // it is sent
						settled = append(settled, asString(command.Args()[3]))
						if len(failures) > 0 {
							err := failures[0]
							failures = failures[1:]
							return "", err
						}
					}
					return "0", nil
				})
				given := r.giveBack(t.Context(), callOf(call.Check{Key: "key", Spec: hourly, Units: 3}).Groups[0])
				if given != (len(c.failures) == 0) {
					t.Errorf("given back at once: %t", given)
				}
				time.Sleep(2 * givingBack) // by the fake clock
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if len(settled) != c.want {
					t.Errorf("%d settlements were sent, want %d", len(settled), c.want)
				}
			})
		})
	}
}

package core_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// Each function takes the options that suit it, and panics at start-up when it gets another one.
func TestOptionsSuitWhoTakesThem(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	takers := map[string]func(core.Option){
		"NewRedis":        func(o core.Option) { core.NewRedis(client, core.WithLogger(discard), core.Option{}, o) },
		"NewMemory":       func(o core.Option) { core.NewMemory(core.Option{}, o) },
		"denialcache.New": func(o core.Option) { denialcache.New(core.NewMemory(), 1, core.Option{}, o) },
		"New":             func(o core.Option) { core.New(core.NewMemory(), core.Option{}, o) },
	}
	for _, option := range []struct {
		name   string
		option core.Option
		takers []string
		suits  string // as the panic says it
	}{
		{"WithPrefix", core.WithPrefix("shop"), []string{"NewRedis"}, "NewRedis"},
		{"WithBudget", core.WithBudget(time.Second), []string{"NewRedis"}, "NewRedis"},
		{"WithInFlight", core.WithInFlight(1), []string{"NewRedis"}, "NewRedis"},
		{"WithQueue", core.WithQueue(1, time.Second), []string{"NewRedis"}, "NewRedis"},
		{"WithBreaker", core.WithBreaker(0, 0), []string{"NewRedis"}, "NewRedis"},
		{"WithMaxKeys", core.WithMaxKeys(7), []string{"NewMemory"}, "NewMemory"},
		{"WithLogger", core.WithLogger(slog.New(slog.DiscardHandler)), []string{"NewRedis", "denialcache.New", "New"}, "NewRedis, denialcache.New, Lease and New"},
		{"WithTrace", core.WithTrace(core.Trace{}), []string{"NewRedis", "NewMemory", "denialcache.New", "New"}, "NewRedis, NewMemory, denialcache.New, Lease and New"},
		{"WithClock", core.WithClock(time.Now), []string{"NewRedis", "NewMemory", "denialcache.New"}, "NewRedis, NewMemory and denialcache.New"},
	} {
		for taker, take := range takers {
			t.Run(option.name+" for "+taker, func(t *testing.T) {
				want := fmt.Sprintf("core: %s is no option of %s: it suits %s", option.name, taker, option.suits)
				if slices.Contains(option.takers, taker) {
					want = "<nil>"
				}
				defer func() {
					if got := fmt.Sprint(recover()); got != want {
						t.Errorf("panic %q, want %q", got, want)
					}
				}()
				take(option.option)
			})
		}
	}
}

func TestValidatePrefix(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"shop": true, "shop:eu-1": true, "größe": true,
		"": false, "{shop}": false, "shop}": false, "my shop": false, "shop\n": false, "\x01": false, "\x7f": false,
	} {
		if err := core.ValidatePrefix(prefix); (err == nil) != valid {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

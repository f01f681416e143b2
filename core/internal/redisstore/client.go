package redisstore

import (
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix      = "ratelimit"
	defaultBudget      = 100 * time.Millisecond
	defaultInFlight    = 2
	defaultMostWaiting = 65_536

	defaultBreakerFailures = 5
	defaultBreakerPause    = 500 * time.Millisecond
)

// Defaults returns the Config of a client as it is without options.
func Defaults(client redis.UniversalClient) Config {
	return Config{
		Client:          client,
		Prefix:          defaultPrefix,
		Budget:          defaultBudget,
		InFlight:        defaultInFlight,
		MostWaiting:     defaultMostWaiting,
		BreakerFailures: defaultBreakerFailures,
		BreakerPause:    defaultBreakerPause,
		Logger:          slog.Default,
	}
}

// WarnOfClient logs which settings of a user's client can do harm.
func (r *Store) WarnOfClient() {
	logger := r.Logger()
	settings, known := r.topology.Settings()
	if settings.Retries > 0 {
		logger.Warn("core: the redis client repeats a call when the answer is late, so a request may be charged twice: set MaxRetries to -1")
	}
	if known && !settings.Deadlines {
		logger.Warn("core: the redis client ignores deadlines, which makes each call slower: set ContextTimeoutEnabled")
	}
	if known && settings.NoDialer {
		logger.Warn("core: in a crowd the redis client may read answers too late: set Dialer to core.Dialer(nil), or to core.Dialer(config) for TLS")
	}
}

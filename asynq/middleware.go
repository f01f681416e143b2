package asynqratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/jobs"
)

// Policy is a limit of tasks, and the key that a task counts for: [Queue], [Type], [Payload], or a function of the program's own.
type Policy = jobs.Policy[*asynq.Task]

// Options say how tasks wait. The default of five seconds in a worker suits the intervals of [Config].
type Options = jobs.Options

// New returns middleware for an [asynq.ServeMux]. A task that is over a limit goes back with an error, which [Config] has asynq take for no failure. A place of
// a core.Concurrent limit is held while the task is processed, and given back once, also after a panic. New panics as [jobs.New] does.
func New(l *core.Limiter, options Options, policies ...Policy) asynq.MiddlewareFunc {
	limits := jobs.New(l, options, policies...)
	options.LongestWait = longest
	patient := jobs.New(l, options, policies...)
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			process := func(ctx context.Context) error { return next.ProcessTask(ctx, task) }
			if !isLastTry(ctx) {
				return limits.Run(ctx, task, process)
			}
			for {
				err := patient.Run(ctx, task, process)
				later, is := errors.AsType[*jobs.LaterError](err)
				if !is {
					return err
				}
				select {
				case <-time.After(soon(later)):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
}

// longest is how long a task waits that must not go back. Its own timeout comes before.
const longest = 365 * 24 * time.Hour

// soon returns how long a task waits in its worker that must not go back, before it asks again.
func soon(later *jobs.LaterError) time.Duration {
	wait := time.Second // until the store may answer again
	if limited, denied := errors.AsType[*core.LimitedError](later.Err); denied {
		wait = limited.Decision.RetryAfter
	}
	return wait + rand.N(time.Second)
}

// isLastTry reports whether asynq archives the task if it ends with an error.
func isLastTry(ctx context.Context) bool {
	retried, _ := asynq.GetRetryCount(ctx)
	most, known := asynq.GetMaxRetry(ctx)
	return known && retried >= most
}

// Config returns a configuration with which a task that is over a limit is tried again when it is its turn, and that is no failure: it counts as no retry, and
// the ErrorHandler is not called. For all other errors, the functions of the given configuration decide, or asynq's own. If it says no
// DelayedTaskCheckInterval, that is a second, in place of asynq's five, so that tasks come back in time.
func Config(c asynq.Config) asynq.Config {
	delay, isFailure, handler := c.RetryDelayFunc, c.IsFailure, c.ErrorHandler
	if delay == nil {
		delay = asynq.DefaultRetryDelayFunc
	}
	c.RetryDelayFunc = func(retried int, err error, task *asynq.Task) time.Duration {
		if later, is := errors.AsType[*jobs.LaterError](err); is {
			return later.After
		}
		return delay(retried, err, task)
	}
	c.IsFailure = func(err error) bool { return !isLater(err) && (isFailure == nil || isFailure(err)) }
	if handler != nil {
		c.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			if !isLater(err) {
				handler.HandleError(ctx, task, err)
			}
		})
	}
	if c.DelayedTaskCheckInterval == 0 {
		c.DelayedTaskCheckInterval = time.Second
	}
	return c
}

func isLater(err error) bool {
	_, is := errors.AsType[*jobs.LaterError](err)
	return is
}

// Queue is the key of the task's queue.
func Queue(ctx context.Context, _ *asynq.Task) string {
	name, _ := asynq.GetQueueName(ctx)
	return "queue " + name
}

// Type is the key of the task's type, as it was enqueued. A handler for a pattern such as "email:" serves as many types as programs make up: use [Payload],
// which is about a pattern.
func Type(_ context.Context, task *asynq.Task) string { return "type " + task.Type() }

// Payload returns a function for the key of tasks with a payload in JSON: the pattern, and the value that of returns. It is about the types that begin with the
// pattern, as a pattern of [asynq.ServeMux] is. Other tasks have no key, so that the policy does not limit them. Payloads that cannot be decoded share a key.
func Payload[T any](pattern string, of func(T) string) func(context.Context, *asynq.Task) string {
	return func(_ context.Context, task *asynq.Task) string {
		if !strings.HasPrefix(task.Type(), pattern) {
			return ""
		}
		var payload T
		if err := json.Unmarshal(task.Payload(), &payload); err != nil {
			return "type " + pattern
		}
		return "type " + pattern + " " + of(payload)
	}
}

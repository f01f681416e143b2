package core_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core/storetest"
)

func TestMemoryKeepsTheLaws(t *testing.T) { storetest.Run(t, newMemory) }

func TestRedisKeepsTheLaws(t *testing.T) { storetest.Run(t, newRedis(t)) }

// Law 12: the pure Go arithmetic is the reference for the Lua, and the model is the
// reference for both.
func TestMemoryRedisAndTheModelAgree(t *testing.T) {
	t.Parallel()
	storetest.Agree(t, newMemory, newRedis(t))
}

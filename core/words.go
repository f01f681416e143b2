package core

import (
	"maps"
	"sync"
	"sync/atomic"
)

// wordCache keeps the words that tell a script of a limit, since there are few limits
// and many questions. The zero value is empty. It may be used concurrently.
type wordCache struct {
	known atomic.Pointer[map[wordKey]words]
	mu    sync.Mutex // of who adds to known, by a copy
}

// mostWords bounds the cache, where limits are made up for each request.
const mostWords = 1024

type wordKey struct {
	limit        Limit
	charge, more bool
}

// words are the arguments for a check that costs one event.
type words struct{ limit, cost any }

// append appends what check.lua expects to be told of an ask. more says that the next
// ask belongs to the same question.
func (c *wordCache) append(arguments []any, a *ask, more bool) []any {
	key := wordKey{limit: a.check.Limit, charge: a.charge, more: more}
	known := c.known.Load()
	var w words
	ok := false
	if known != nil {
		w, ok = (*known)[key]
	}
	if !ok {
		w = words{limit: string(a.appendLimit(nil, more)), cost: a.check.Limit.units.weight}
		c.add(key, w)
	}
	if units := a.unitsAsked(); units != a.check.Limit.units.weight {
		return append(arguments, w.limit, units)
	}
	return append(arguments, w.limit, w.cost)
}

func (c *wordCache) add(key wordKey, w words) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := map[wordKey]words{}
	if known := c.known.Load(); known != nil {
		if len(*known) >= mostWords {
			return
		}
		more = maps.Clone(*known)
	}
	more[key] = w
	c.known.Store(&more)
}

package main

import (
	"github.com/throttled/throttled/v2/store/memstore"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
)

// inMemory are all contenders that keep their state inside the process.
func inMemory() []contender {
	return append(ownInMemory(), httprateMemory(), httprateMemoryWithHeaders(), ululeMemory(), throttledMemory())
}

func ululeMemory() contender {
	return contender{
		name:      "ulule/limiter memory",
		algorithm: "fixed window",
		note:      "Fixed window only; no bound on the number of keys.",
		open: func(_ *setup, q quota) (Ask, error) {
			return ululeAsk(ululememory.NewStore(), q), nil
		},
	}
}

func throttledMemory() contender {
	return contender{
		name:      "throttled memory",
		algorithm: "GCRA",
		note:      "A million keys here, evicted in the order of use; its documentation says 65,536.",
		open: func(_ *setup, q quota) (Ask, error) {
			store, err := memstore.NewCtx(1 << 20)
			if err != nil {
				return nil, err
			}
			return throttledAsk(store, q)
		},
	}
}

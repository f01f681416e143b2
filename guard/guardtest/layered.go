package guardtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var layeredCases = []testCase{
	{"Redis: who makes up users, headers and costs makes no more keys than his address allows", testMintedKeys},
	{"a layered limit is by user, and by address where there is no user", testLayered},
	{"layers that protect nothing panic when they are made", testLayersMistakes},
}

func layers() (address, user guard.Policy) {
	return guard.Policy{Limit: core.FixedWindow(5, time.Minute).Named("address")},
		guard.Policy{Limit: core.FixedWindow(2, time.Minute).Named("user"), By: keyfuncs.Header("X-Api-Key")}
}

func testMintedKeys(t *testing.T, s *suite) {
	url, f := s.startRedis(t), s.fixture(t)
	f.limiter = redisLimiter(t, url, f.clock)
	address, user := layers()
	user.Cost = func(r *http.Request) int { return len(r.Header.Get("X-Size")) }
	h := f.around(f.layered(f.limiter, f.options(), address, user))
	counts := make(map[int]int)
	for i := range 100 {
		r := ask(http.MethodGet, fmt.Sprintf("/items/%d", i), fmt.Sprintf("X-Api-Key: %d", i), "X-Size: "+strings.Repeat("x", 1+i%2))
		counts[answer(h, r).StatusCode]++
	}
	if counts[http.StatusOK] != 5 || counts[http.StatusTooManyRequests] != 95 {
		t.Errorf("statuses %v, want 5 of 200 and 95 of 429", counts)
	}
	if n, err := redisClient(t, url).DBSize(t.Context()).Result(); err != nil || n != 6 {
		t.Errorf("%d keys, %v, want the address and five made up", n, err)
	}
}

func testLayered(t *testing.T, s *suite) {
	f := s.fixture(t)
	address, user := layers()
	h := f.around(f.layered(f.limiter, f.options(), address, user))
	expect(t, "a user", get(h, "X-Api-Key: secret"), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "address";r=4;t=60, "user";r=1;t=60
Ratelimit-Policy: "address";q=5;w=60, "user";q=2;w=60

served
`)
	f.event()
	get(h)
	f.expectKeys("ip:203.0.113.9", "ip:203.0.113.9")
	get(h, "X-Api-Key: secret")
	f.event()
	expect(t, "the user's third", get(h, "X-Api-Key: secret"), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "address";r=2;t=60, "user";r=0;t=60
Ratelimit-Policy: "address";q=5;w=60, "user";q=2;w=60
Retry-After: 60

`+quotaExceeded+`["user"]}
`)
	f.event()
	get(h, "X-Api-Key: another")
	f.event()
	get(h, "X-Api-Key: a third")
	f.event()
	expect(t, "the address's sixth", get(h, "X-Api-Key: a fourth"), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "address";r=0;t=60, "user";r=2;t=60
Ratelimit-Policy: "address";q=5;w=60, "user";q=2;w=60
Retry-After: 60

`+quotaExceeded+`["address"]}
`)

	f = s.fixture(t)
	address, user = layers()
	address.By = keyfuncs.IP(keyfuncs.TrustedProxies("203.0.113.0/24"))
	h = f.around(f.layered(f.limiter, f.options(), address, user))
	get(h, "X-Forwarded-For: 198.51.100.7")
	f.expectKeys("ip:198.51.100.7", "ip:198.51.100.7")

	f = s.fixture(t) // as the documentation has it
	h = f.around(f.layered(f.limiter, f.options(), guard.PolicyFor(address.Limit, address.By), guard.PolicyFor(user.Limit, user.By)))
	get(h, "X-Forwarded-For: 198.51.100.7")
	f.expectKeys("ip:198.51.100.7", "ip:198.51.100.7")
}

func testLayersMistakes(t *testing.T, s *suite) {
	l := core.New(core.NewMemory())
	address, user := layers()
	keyless, shadow := user, address
	keyless.By, shadow.Shadow = nil, true
	expectPanic(t, func() { s.layered(l, guard.Options{}, address, keyless) }, "ratelimit: ", "By")
	expectPanic(t, func() { s.layered(l, guard.Options{}, shadow, user) }, "ratelimit: ", "shadow")
	expectPanic(t, func() { s.layered(l, guard.Options{}, address, guard.Policy{By: user.By}) }, "ratelimit: ", "policy 1")
}

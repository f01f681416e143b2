package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/policies"
)

const twoKeys = `limits:
  burst: leaky 20, 1/h
  orders: token-bucket 4, 1/h
policies:
  - limit: burst
    key: ip
  - match: POST /orders
    limit: orders
    key: header X-API-Key
`

func TestOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	l := openOn(t, cluster.URL())
	denied := asksWell(t, l)
	var mutex sync.Mutex
	servers := 0
	err := cluster.Client(t).ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		names, err := node.Keys(ctx, "*").Result()
		mutex.Lock()
		defer mutex.Unlock()
		if slices.ContainsFunc(denied, func(key string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "{"+key+"}") })
		}) {
			servers++
		}
		return err
	})
	if err != nil || servers != 3 {
		t.Errorf("the keys that would begin to be denied are on %d servers: %v", servers, err)
	}
	examined := make(map[string]bool)
	for _, f := range read[[]Finding](t, "doctor", "-budget", "30s") {
		examined[f.Server] = true
	}
	for _, address := range cluster.Addrs() {
		if !examined[address] {
			t.Errorf("the doctor has examined %v, and not %s", examined, address)
		}
	}
}

func TestOnSentinel(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	l := openOn(t, "redis://"+sentinel.Addr()+"?"+url.Values{"master_name": {sentinel.MasterName()}}.Encode())
	asksWell(t, l)
	says(t, 0, []string{"ok scripts"}, "doctor", "-budget", "30s")

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "peek", "nobody")
	command.Env = append(os.Environ(), asProgram+"=1")
	var messages strings.Builder
	command.Stderr = &messages
	if out, err := command.Output(); err != nil || messages.Len() > 0 || !strings.HasPrefix(string(out), "nothing is used") {
		t.Errorf("the program says %s%s, and ends with %v", out, messages.String(), err)
	}
}

// asksWell sees that the commands say of a store what the guard then does. It returns the keys that plan says would begin to be denied.
func asksWell(t *testing.T, l *core.Limiter) []string {
	t.Helper()
	const most = 20
	burst := core.Leaky(most, core.PerHour(1)).Named("burst")
	var checks []core.Check
	for i := range 15 * most { // fifteen keys have used all
		checks = append(checks, core.Check{Key: fmt.Sprintf("ip:203.0.113.%d", i), Limit: burst, Cost: i%most + 1})
	}
	for part := range slices.Chunk(checks, 50) {
		allow(t, l, part...)
	}
	was := policiesFile(t, twoKeys)
	now := policiesFile(t, strings.Replace(twoKeys, "leaky 20", "leaky 21", 1))
	if plan := read[Plan](t, "plan", was, now); len(plan.Now) != 1 || plan.Now[0].Keys != 300 || plan.Now[0].DeniedWas != 15 || plan.Now[0].End != 15 {
		t.Errorf("%+v", plan.Now)
	}
	var denied []string
	plan := read[Plan](t, "plan", "-rows", "30", was, policiesFile(t, strings.Replace(twoKeys, "leaky 20", "leaky 5", 1)))
	if len(plan.Now) != 1 || plan.Now[0].Begin != 15*15 || len(plan.Now[0].Denied) != 30 {
		t.Fatalf("%+v", plan.Now)
	}
	for i, key := range plan.Now[0].Denied { // those that have used 20 are denied already
		if want := 19 - i/15; key.Used != want {
			t.Errorf("the %d. of the busiest has used %d, want %d", i+1, key.Used, want)
		}
		denied = append(denied, key.Key)
	}
	if top := read[Top](t, "top", "-policies", was); len(top.Limits) != 1 || top.Limits[0].Keys != 300 || *top.Limits[0].Denied != 15 || top.Keys[0].Numbers.Used != most {
		t.Errorf("%+v", top.Limits)
	}
	if got := read[[]Standing](t, "peek", "-policies", was, "ip:203.0.113.7"); len(got) != 1 || got[0].Numbers.Used != 8 {
		t.Errorf("%+v", got)
	}
	explainsAsTheGuardDecides(t, l, was)
	return denied
}

// explainsAsTheGuardDecides explains requests, and then sends them.
func explainsAsTheGuardDecides(t *testing.T, l *core.Limiter, file string) {
	t.Helper()
	document, err := policies.Parse([]byte(twoKeys))
	if err != nil {
		t.Fatal(err)
	}
	set, err := document.Set(policies.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var event guard.Event
	options := ratelimit.Options{Observe: func(e guard.Event) { event = e }}
	handler := ratelimit.FromPolicies(l, set, options)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	denials := 0
	for i := range 24 {
		address, token := fmt.Sprintf("198.51.100.%d", i%2), fmt.Sprintf("key%d", i%4)
		code, out, messages := weir(t, "", "explain", "-json", "-timeout", "1m", file, "POST /orders", "-from", address, "-H", "X-API-Key: "+token)
		explained := decode[Explained](t, out)
		r := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
		r.RemoteAddr = address + ":1"
		r.Header.Set("X-Api-Key", token)
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if explained.Status != event.Status || (code == exitDenied) != (event.Status != 0) || len(explained.Policies) != 2 || len(event.Outcomes) != 2 {
			t.Fatalf("%d. explained: exit code %d, %s%s, decided: %+v", i, code, out, messages, event)
		}
		for j, o := range event.Outcomes {
			if met := explained.Policies[j]; met.Key != o.Key || met.Policy != o.Policy || met.Numbers.Allowed != o.Decision.Allowed {
				t.Errorf("%d. explained: %+v, decided: %+v", i, met, o)
			}
		}
		if event.Status != 0 {
			denials++
		}
	}
	if denials != 8 { // four keys of four orders each
		t.Errorf("%d of 24 are denied, want 8", denials)
	}
}

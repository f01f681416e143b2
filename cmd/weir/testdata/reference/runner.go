// This file takes the place of src/service_cmd/runner/runner.go of github.com/envoyproxy/ratelimit when its integration tests are run: they ask a process
// of weir serve, which WEIR_PROGRAM names, and read its metrics.

package runner

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"

	gostats "github.com/lyft/gostats"

	"github.com/envoyproxy/ratelimit/src/settings"
)

// Runner runs weir serve.
type Runner struct {
	settings settings.Settings
	store    gostats.Store

	mu      *sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
}

func NewRunner(s settings.Settings) Runner {
	return Runner{settings: s, mu: new(sync.Mutex), store: counted{gostats.NewStore(gostats.NewNullSink(), false), s.DebugPort}}
}

// variables returns the settings as the variables of the environment from which they come.
func variables(s settings.Settings) (all []string) {
	of := reflect.ValueOf(s)
	for i := range of.NumField() {
		name := of.Type().Field(i).Tag.Get("envconfig")
		if name == "" {
			continue
		}
		value := of.Field(i)
		text := fmt.Sprint(value.Interface())
		switch value.Kind() {
		case reflect.Map:
			var pairs []string
			for _, key := range value.MapKeys() {
				pairs = append(pairs, fmt.Sprint(key, ":", value.MapIndex(key)))
			}
			sort.Strings(pairs)
			text = strings.Join(pairs, ",")
		case reflect.Slice:
			text = strings.Trim(strings.ReplaceAll(text, " ", ","), "[]")
		}
		all = append(all, name+"="+text)
	}
	return append(all, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0")
}

// Run runs the process until Stop is called. Without STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT the tests want denied requests to be charged.
func (r *Runner) Run() {
	args := []string{"serve", "-leave", "0s"}
	if !r.settings.StopCacheKeyIncrementWhenOverlimit {
		args = append(args, "-as-reference")
	}
	process := exec.Command(os.Getenv("WEIR_PROGRAM"), args...)
	process.Env = append(os.Environ(), variables(r.settings)...)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	r.mu.Lock()
	r.process, r.ended = process, make(chan struct{})
	err := process.Start()
	r.mu.Unlock()
	if err != nil {
		panic(err)
	}
	if err := process.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "weir serve:", err)
	}
	close(r.ended)
}

func (r *Runner) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.process.Process.Signal(syscall.SIGTERM)
	<-r.ended
}

func (r *Runner) GetStatsStore() gostats.Store { return r.store }

// store is embedded: it has a method named Store.
type store = gostats.Store

// counted is a store whose counters have the values that weir serve tells to Prometheus.
type counted struct {
	store
	port int
}

func (c counted) NewCounter(name string) gostats.Counter {
	counter := c.store.NewCounter(name)
	response, err := http.Get(fmt.Sprintf("http://localhost:%d/metrics", c.port))
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	wanted := told(name) + " "
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), wanted); found {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(err)
			}
			counter.Set(uint64(number))
		}
	}
	return counter
}

// told returns the name by which Prometheus is told of a counter.
func told(name string) string {
	descriptor, found := strings.CutPrefix(name, "ratelimit.service.rate_limit.")
	if !found {
		return strings.ReplaceAll(name, ".", "_")
	}
	parts := strings.Split(descriptor, ".")
	return fmt.Sprintf(`ratelimit_service_rate_limit_%s{domain=%q,key1=%q}`, parts[2], parts[0], parts[1])
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// referenceModule is the rate limit service that Envoy's documentation names, as the proxy of Go modules has it.
const referenceModule = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"

// The rows of the tables about services for Envoy.
const (
	serveName           = "weir serve"
	serveOverName       = "weir serve -over 0.01"
	referenceName       = "envoyproxy/ratelimit"
	referenceWindowName = "envoyproxy/ratelimit, REDIS_PIPELINE_WINDOW=150us"
)

// serviceLimits are those of the services: of the descriptors that the load asks about, which nobody reaches, and of one that is verified.
const serviceLimits = `domain: load
descriptors:
  - {key: key0, rate_limit: {unit: minute, requests_per_unit: 1000000}}
  - {key: key1, rate_limit: {unit: minute, requests_per_unit: 1000000}}
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 1000000}}
  - {key: key3, rate_limit: {unit: minute, requests_per_unit: 1000000}}
  - {key: verified, rate_limit: {unit: minute, requests_per_unit: %d}}
`

// patientlyFor is how long services wait for Redis, so that a call is measured which a busy machine takes long for.
const patientlyFor = time.Minute

// envoyService is a rate limit service for Envoy, in a process of its own.
type envoyService struct {
	name      string
	own       bool
	program   string // that of programs by this name
	arguments []string
	variables []string
}

func envoyServices() []envoyService {
	return []envoyService{
		{name: serveName, own: true, program: "weir", arguments: []string{"serve", "-leave", "0s"}},
		{name: serveOverName, own: true, program: "weir", arguments: []string{"serve", "-leave", "0s", "-over", "0.01"}},
		{name: referenceName, program: "reference"},
		{name: referenceWindowName, program: "reference", variables: []string{"REDIS_PIPELINE_WINDOW=150us"}},
	}
}

// serviceLoad is how many requests are asked at once, how many descriptors each has, and how many values a descriptor may have.
type serviceLoad struct{ callers, descriptors, values int }

// hotValues are few enough that leases last.
const hotValues = 100

// service compares services for Envoy, each a process that is asked over four connections.
func (b *bench) service(ctx context.Context) (_ []comparison, err error) {
	if runtime.GOOS != "linux" {
		b.report("services for Envoy: left out, since this system does not tell the processor time of another process")
		return nil, nil
	}
	directory, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	b.report("building services for Envoy")
	if err := buildServices(ctx, directory); err != nil {
		return nil, err
	}
	var contenders []contender
	for _, s := range envoyServices() {
		contenders = append(contenders, contender{name: s.name, own: s.own, open: func(to *setup, _ quota) (Ask, error) {
			return nil, s.start(ctx, to, directory)
		}})
	}
	var all []comparison
	for _, l := range []serviceLoad{
		{1, 1, b.names}, {64, 1, b.names}, {512, 1, b.names}, {64, 4, b.names}, {512, 4, b.names}, {64, 1, hotValues}, {512, 1, hotValues},
	} {
		b.report("services for Envoy, %d callers, %d descriptors, %d values", l.callers, l.descriptors, l.values)
		entries, err := b.with(ctx, contenders, roomiest, func(entries []*entry) error {
			asking := func(ctx context.Context, e *entry, _ int, d time.Duration) (tally, error) {
				return l.ask(ctx, directory, e.setup, d)
			}
			return turns{rounds: b.Rounds, duration: b.asked, warmup: b.warmup, run: asking}.take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, l.comparison(entries))
	}
	return all, nil
}

// comparison returns the table of a load.
func (l serviceLoad) comparison(entries []*entry) comparison {
	descriptors := "one descriptor"
	if l.descriptors > 1 {
		descriptors = fmt.Sprintf("%d descriptors", l.descriptors)
	}
	callers := "1 caller"
	if l.callers > 1 {
		callers = fmt.Sprintf("%d callers", l.callers)
	}
	better := func(of metric) column { // the better of the reference's two settings
		return column{"× the better " + referenceName, of.better, func(e *entry, all []*entry) string {
			one, other := samplesOf(all, referenceName), samplesOf(all, referenceWindowName)
			baseline := one
			if median(each(other, of)) < median(each(one, of)) == (of.better == less) {
				baseline = other
			}
			return showRatio(ratio(of, e.samples, baseline))
		}}
	}
	return comparison{
		slug:  fmt.Sprintf("service-%d-%d-%d", l.callers, l.descriptors, l.values),
		title: fmt.Sprintf("Rate limit services for Envoy: %s, %s, %d values", callers, descriptors, l.values),
		text: "A process of its own asks over four connections of gRPC, each caller one request after the other, with a deadline as Envoy sets one. " +
			"Server CPU is that of the service, and neither that of the caller nor that of Redis. The services have the same file, wait for " +
			"Redis as long as it takes, and are otherwise as they are by default.",
		entries: entries,
		columns: []column{
			figure("requests/s", perSecond, showRate), better(perSecond),
			figure("server CPU", serverCPUEach, showTime), better(serverCPUEach),
			figure("Redis CPU", redisCPUEach, showTime), better(redisCPUEach),
			figure("p50", p50, showTime), figure("p99", p99, showTime), better(p99),
			share("errors", func(s sample) int64 { return int64(s.errors) }),
		},
	}
}

// serverCPUEach is the processor time of a service in a process of its own.
var serverCPUEach = metric{func(s sample) float64 { return s.server.Seconds() / float64(s.checks) }, less, 0}

// buildServices builds the services and the program that asks them, and writes the limits.
func buildServices(ctx context.Context, directory string) error {
	if err := buildWeir(ctx, filepath.Join(directory, "weir")); err != nil {
		return err
	}
	for _, c := range []struct {
		into, variable string
		arguments      []string
	}{
		{"asker", "", []string{"build", "-C", filepath.Join("..", "cmd", "weir"), "-o", filepath.Join(directory, "asker"), "./internal/rlsload"}},
		{"reference", "GOBIN=" + directory, []string{"install", referenceModule}},
	} {
		build := exec.CommandContext(ctx, "go", c.arguments...) //nolint:gosec // all of it stands here
		build.Env = append(os.Environ(), c.variable, "GOFLAGS=")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("bench: building %s: %w\n%s", c.into, err, output)
		}
	}
	if err := os.Rename(filepath.Join(directory, "service_cmd"), filepath.Join(directory, "reference")); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	config := filepath.Join(directory, "current", "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	text := fmt.Sprintf(serviceLimits, strict().n)
	return os.WriteFile(filepath.Join(config, "load.yaml"), []byte(text), 0o600)
}

// start starts the service until the setup ends, and sees that it admits and then denies.
func (s envoyService) start(ctx context.Context, to *setup, directory string) error {
	grpc, web, debug, err := threePorts(ctx)
	if err != nil {
		return err
	}
	service := exec.Command(filepath.Join(directory, s.program), s.arguments...) //nolint:gosec // it was built above
	service.Env = append(append(os.Environ(),
		"RUNTIME_ROOT="+filepath.Join(directory, "current"), "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_URL="+to.address, "REDIS_SOCKET_TYPE=tcp",
		"REDIS_TIMEOUT="+patientlyFor.String(), "GRPC_HOST=127.0.0.1", "GRPC_PORT="+grpc, "HOST=127.0.0.1", "PORT="+web,
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+debug, "USE_STATSD=false", "LOG_LEVEL=error"), s.variables...)
	var messages bytes.Buffer
	service.Stderr = &messages
	if err := service.Start(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	to.atEnd(func() error {
		_ = service.Process.Kill()
		_ = service.Wait()
		return nil
	})
	to.serves, to.process = "127.0.0.1:"+grpc, service.Process.Pid
	question := `{"domain": "load", "descriptors": [{"entries": [{"key": "verified", "value": "` + s.name + `"}]}]}`
	ask := func() (admitted bool, err error) {
		response, err := http.Post("http://127.0.0.1:"+web+"/json", "application/json", strings.NewReader(question))
		if err != nil {
			return false, err
		}
		defer func() { _ = response.Body.Close() }()
		switch response.StatusCode {
		case http.StatusOK, http.StatusTooManyRequests:
			return response.StatusCode == http.StatusOK, nil
		}
		return false, fmt.Errorf("status %d", response.StatusCode)
	}
	for end := time.Now().Add(patientlyFor); ; time.Sleep(10 * time.Millisecond) {
		if _, err := ask(); err == nil {
			break
		} else if time.Now().After(end) {
			return fmt.Errorf("bench: %s does not answer: %w\n%s", s.name, err, &messages)
		}
	}
	question = strings.Replace(question, s.name, s.name+"'s", 1)
	return admitsThenDenies(s.name, ask)
}

// threePorts returns ports that are free.
func threePorts(ctx context.Context) (one, two, three string, err error) {
	var ports []string
	for range 3 {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", "", fmt.Errorf("bench: %w", err)
		}
		defer func() { _ = listener.Close() }()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		ports = append(ports, port)
	}
	return ports[0], ports[1], ports[2], nil
}

// ask has a process of its own ask a service for a time.
func (l serviceLoad) ask(ctx context.Context, directory string, of *setup, d time.Duration) (tally, error) {
	before, err := cpuOf(of.process)
	if err != nil {
		return tally{}, err
	}
	//nolint:gosec // it was built above
	asker := exec.CommandContext(ctx, filepath.Join(directory, "asker"), "-address", of.serves, "-callers", strconv.Itoa(l.callers),
		"-descriptors", strconv.Itoa(l.descriptors), "-keys", strconv.Itoa(l.values), "-duration", d.String())
	var messages bytes.Buffer
	asker.Stderr = &messages
	output, err := asker.Output()
	if err != nil {
		return tally{}, fmt.Errorf("bench: asking a service: %w\n%s", err, &messages)
	}
	after, err := cpuOf(of.process)
	if err != nil {
		return tally{}, err
	}
	var seen httpTally
	if err := json.Unmarshal(output, &seen); err != nil {
		return tally{}, fmt.Errorf("bench: the result of asking a service: %w", err)
	}
	counted := seen.tally()
	counted.server = after - before
	return counted, nil
}

// cpuOf returns the processor time that the threads of a process have used.
func cpuOf(process int) (used time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", process))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("bench: process %d has ended: %w", process, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread) //nolint:gosec // the system's
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("bench: %s: %w", thread, err)
		}
		used += time.Duration(nanoseconds)
	}
	return used, nil
}

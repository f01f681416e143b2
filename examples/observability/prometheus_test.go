package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// watcher is a real Prometheus.
type watcher struct{ url string }

// startPrometheus has a Prometheus scrape the service, and evaluate the alert rules, four
// times a second until the test ends.
func startPrometheus(t *testing.T, target string) watcher {
	t.Helper()
	binary := program(t, "prometheus")
	directory := t.TempDir()
	rules, err := filepath.Abs("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(directory, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
rule_files: [%q]
scrape_configs: [{job_name: observability, static_configs: [{targets: [%q]}]}]
`, rules, strings.TrimPrefix(target, "http://")), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	log, err := os.Create(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(directory, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("prometheus has logged:\n%s", text)
		}
	})
	p := watcher{"http://" + address}
	poll(t, func() string {
		if status, body := get(t, p.url+"/-/ready"); status != 200 {
			return "prometheus is not ready: " + body
		}
		return ""
	})
	return p
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// query returns the values of a query's result, by their labels.
func (p watcher) query(t *testing.T, query string) map[string]float64 {
	t.Helper()
	status, body := get(t, p.url+"/api/v1/query?query="+url.QueryEscape(query))
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
		t.Fatalf("%s is answered with %d: %s", query, status, body)
	}
	values := make(map[string]float64)
	for _, result := range answer.Data.Result {
		value, err := strconv.ParseFloat(result.Value[1].(string), 64)
		if err != nil {
			t.Fatal(err)
		}
		if value != value { // nothing has happened
			continue
		}
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(result.Metric)) {
			labels = append(labels, name+"="+result.Metric[name])
		}
		values[strings.Join(labels, ",")] = value
	}
	return values
}

// Every panel of the dashboard shows something while the service is under load, and
// what happens when Redis goes down is to be seen.
func TestDashboardUnderLoad(t *testing.T) {
	program(t, "prometheus") // before anything is started
	server, store := underLoad(t)
	p := startPrometheus(t, server.URL)
	panels := dashboardQueries(t)
	for _, title := range slices.Sorted(maps.Keys(panels)) {
		for _, query := range panels[title] {
			var values map[string]float64
			poll(t, func() string {
				if values = p.query(t, query); len(values) == 0 {
					return title + " shows nothing: " + query
				}
				return ""
			})
			t.Logf("%s: %s", title, shortly(values))
		}
	}

	const failOpen, asked = "Let through unchecked", "Servers asked"
	for title, want := range map[string]float64{failOpen: 0, asked: 1} {
		if got := p.query(t, panels[title][0]); got[""] != want {
			t.Errorf("%s: %v, want %v", title, got, want)
		}
	}
	const alert = `ALERTS{alertname="RateLimitRedisFailingOpen"}`
	if got := p.query(t, alert); len(got) > 0 {
		t.Errorf("there is an alert already: %v", got)
	}
	outage(t, p, store, panels[failOpen][0], panels[asked][0], alert)
	for _, title := range []string{failOpen, "Undecided, by what is done then", "Failures by kind"} {
		for _, query := range panels[title] {
			var values map[string]float64
			poll(t, func() string {
				if values = p.query(t, query); len(values) == 1 && values[""] == 0 {
					return title + " shows nothing: " + query
				}
				return ""
			})
			t.Logf("in the outage, %s: %s", title, shortly(values))
		}
	}
}

// outage ends Redis and waits until that is to be seen: requests go through unchecked, no
// server is asked, and the alert is on its way.
func outage(t *testing.T, p watcher, store *redistest.Server, failOpen, asked, alert string) {
	t.Helper()
	store.Stop(t)
	poll(t, func() string {
		switch {
		case p.query(t, failOpen)[""] == 0:
			return "nothing fails open"
		case p.query(t, asked)[""] != 0:
			return "the server is still asked"
		case len(p.query(t, alert)) == 0:
			return "no alert is on its way"
		}
		return ""
	})
}

// shortly prints a few values.
func shortly(values map[string]float64) string {
	var list []string
	for _, labels := range slices.Sorted(maps.Keys(values)) {
		list = append(list, fmt.Sprintf("{%s} %.4g", labels, values[labels]))
	}
	return strings.Join(list, "  ")
}

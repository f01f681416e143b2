package metrics

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
)

const (
	// MostOfFiles is how many limits of files are counted by their own names. All others are counted together.
	MostOfFiles = 10_000
	// MostOfValues is how many names there are that are made of the values of requests. All others are counted together.
	MostOfValues = 2_000
	// longest is how many bytes a name may have that is made of the values of a request.
	longest = 512
	// other is the domain and the key of all that have no name of their own.
	other = "other"
	// mostHits is how many hits of a descriptor count, so that no request can make a counter overflow.
	mostHits = 1 << 33
)

// Reference has the metrics of github.com/envoyproxy/ratelimit. It may be used by many goroutines at once. It is a prometheus.Collector.
type Reference struct {
	nearRatio float64

	limits atomic.Pointer[map[*descriptors.Limit]*Descriptor] // of the files
	mu     sync.RWMutex
	names  map[string]*Descriptor
	values int // those of names that are made of the values of requests
	others *Descriptor

	requests                   prometheus.Counter
	durations                  prometheus.Histogram
	storeErrors, serviceErrors prometheus.Counter
	loaded, unloaded, shadowed prometheus.Counter
}

func newReference(nearRatio float64) *Reference {
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "ratelimit_service_" + name, Help: help, ConstLabels: labels})
	}
	method := prometheus.Labels{"grpc_method": "ShouldRateLimit"}
	return &Reference{
		nearRatio: nearRatio, names: make(map[string]*Descriptor), others: &Descriptor{name: name{domain: other, key1: other}},
		requests: counter("total_requests", "Requests.", method),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ratelimit_service_response_time_seconds", Help: "How long requests took.", ConstLabels: method, Buckets: seconds,
		}),
		storeErrors:   counter("should_rate_limit_error", "Requests that were not decided.", prometheus.Labels{"err_type": "redis_error"}),
		serviceErrors: counter("should_rate_limit_error", "Requests that were not decided.", prometheus.Labels{"err_type": "service_error"}),
		loaded:        counter("config_load_success", "Configurations that were read and made sense.", nil),
		unloaded:      counter("config_load_error", "Configurations that made no sense.", nil),
		shadowed:      counter("global_shadow_mode", "Requests that passed because of SHADOW_MODE.", nil),
	}
}

// Descriptor has the counters of one descriptor, by its name.
type Descriptor struct {
	name

	ofFile                                    bool
	total, over, near, within, shadow, cached atomic.Uint64
	unknown                                   atomic.Uint64
}

// name has the labels of a descriptor. To Prometheus, an empty label is none.
type name struct{ domain, key1, key2 string }

// address is how the reference finds addresses, of which it replaces the dots.
var address = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// cleaned replaces the signs that the reference does not put into names.
var cleaned = strings.NewReplacer(":", "_", "|", "_")

// clean returns a text as it stands in a name.
func clean(text string) string {
	text = strings.ToValidUTF8(cleaned.Replace(text), "_")
	return address.ReplaceAllStringFunc(text, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// nameOf cuts a name at its dots, as the mapping of the reference does: what comes after the second key has no label.
func nameOf(text string) name {
	parts := strings.SplitN(clean(text), ".", 4)
	n := name{domain: strings.Clone(parts[0])}
	if len(parts) > 1 {
		n.key1 = strings.Clone(parts[1])
	}
	if len(parts) > 2 {
		n.key2 = strings.Clone(parts[2])
	}
	return n
}

// Use counts the limits of a configuration by their names. Limits that it no longer has are no longer told.
func (r *Reference) Use(config *descriptors.Config) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limits := make(map[*descriptors.Limit]*Descriptor)
	seen := make(map[string]bool)
	for limit, text := range config.Metrics() {
		if len(seen) == MostOfFiles {
			limits[limit] = r.others
			continue
		}
		seen[text] = true
		d := r.names[text]
		switch {
		case d == nil:
			d = &Descriptor{name: nameOf(text), ofFile: true}
			r.names[text] = d
		case !d.ofFile:
			d.ofFile = true
			r.values--
		}
		limits[limit] = d
	}
	for text, d := range r.names {
		if d.ofFile && !seen[text] {
			delete(r.names, text)
		}
	}
	r.limits.Store(&limits)
}

// Of returns the counters of a limit that a descriptor has met.
func (r *Reference) Of(config *descriptors.Config, domain string, entries []descriptors.Entry, limit *descriptors.Limit) *Descriptor {
	if limits := r.limits.Load(); limits != nil {
		if d := (*limits)[limit]; d != nil {
			return d
		}
	}
	var space [longest]byte
	return r.find(config.AppendMetric(space[:0], domain, entries), nameOf)
}

// OfOverride returns the counters of a descriptor that brings its own limit.
func (r *Reference) OfOverride(domain string, entries []descriptors.Entry) *Descriptor {
	var space [longest]byte
	return r.find(descriptors.AppendOverrideMetric(space[:0], domain, entries), nameOf)
}

// Unknown counts a descriptor of a domain that is in no file.
func (r *Reference) Unknown(domain string) {
	if r == nil {
		return
	}
	var space [longest]byte
	r.find(append(append(space[:0], unknown...), domain...), nameOfUnknown).unknown.Add(1)
}

// unknown stands before the name of a domain that is in no file.
const unknown = "\x00"

// nameOfUnknown returns the whole name of a domain that is in no file.
func nameOfUnknown(text string) name {
	return name{domain: clean(strings.TrimPrefix(text, unknown))}
}

// find returns the counters of a name that is made of the values of a request. If they are new, a function returns their labels.
func (r *Reference) find(text []byte, labels func(string) name) *Descriptor {
	if len(text) > longest {
		return r.others
	}
	r.mu.RLock()
	d, full := r.names[string(text)], r.values >= MostOfValues
	r.mu.RUnlock()
	switch {
	case d != nil:
		return d
	case full:
		return r.others
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.names[string(text)]; d != nil { // in the meantime
		return d
	}
	if r.values >= MostOfValues {
		return r.others
	}
	own := string(text)
	d = &Descriptor{name: labels(own)}
	r.names[own] = d
	r.values++
	return d
}

// StoreFailed counts a request that the store has not answered.
func (r *Reference) StoreFailed() {
	if r != nil {
		r.storeErrors.Inc()
	}
}

// Refused counts a request that makes no sense, or for which there is no configuration.
func (r *Reference) Refused() {
	if r != nil {
		r.serviceErrors.Inc()
	}
}

// Shadowed counts a request that passes only because all requests pass.
func (r *Reference) Shadowed() {
	if r != nil {
		r.shadowed.Inc()
	}
}

// Hits are those of a descriptor, and the verdict of its limit about them.
type Hits struct {
	// Hits are counted in any case.
	Hits uint64
	// Decided says that the store has answered. The others only count then.
	Decided bool
	// Before is how much of Limit was used before, and Limit how much there is.
	Before, Limit uint64
	// Over says that the hits are too many. Partly says that those count which fit, though the others do not.
	Over, Partly bool
	// Shadow says that the limit denies nothing, and Cached that the denial was remembered in this process.
	Shadow, Cached bool
}

// Count counts the hits of a descriptor.
func (r *Reference) Count(d *Descriptor, h Hits) {
	hits := min(h.Hits, mostHits)
	if hits == 0 {
		return
	}
	d.total.Add(hits)
	if !h.Decided {
		return
	}
	threshold := uint64(math.Floor(float64(float32(h.Limit) * float32(r.nearRatio))))
	if h.Over {
		d.countOver(hits, threshold, h)
		return
	}
	d.within.Add(hits)
	if after := h.Before + hits; after > threshold {
		d.near.Add(min(hits, after-threshold))
	}
}

// countOver counts hits that are too many, or some of which are.
func (d *Descriptor) countOver(hits, threshold uint64, h Hits) {
	beyond := hits
	if h.Partly && h.Before < h.Limit {
		beyond = min(hits, h.Before+hits-h.Limit)
		if from := max(threshold, h.Before); from < h.Limit {
			d.near.Add(h.Limit - from)
		}
	}
	d.over.Add(beyond)
	if h.Shadow {
		d.shadow.Add(beyond)
	}
	if h.Cached {
		d.cached.Add(beyond)
	}
}

// kinds are the counters of a descriptor.
var kinds = [...]struct {
	metric, help string
	value        func(*Descriptor) *atomic.Uint64
}{
	{"total_hits", "Hits.", func(d *Descriptor) *atomic.Uint64 { return &d.total }},
	{"over_limit", "Hits over a limit.", func(d *Descriptor) *atomic.Uint64 { return &d.over }},
	{"over_limit_with_local_cache", "Hits over a limit that were denied from memory.", func(d *Descriptor) *atomic.Uint64 { return &d.cached }},
	{"near_limit", "Hits within a limit that were near it.", func(d *Descriptor) *atomic.Uint64 { return &d.near }},
	{"within_limit", "Hits within a limit.", func(d *Descriptor) *atomic.Uint64 { return &d.within }},
	{"shadow_mode", "Hits over a limit that denies nothing.", func(d *Descriptor) *atomic.Uint64 { return &d.shadow }},
	{notFound, "Descriptors of a domain that is in no file.", func(d *Descriptor) *atomic.Uint64 { return &d.unknown }},
}

const notFound = "domain_not_found"

// labels returns the labels of a counter: a domain that is in no file has no keys.
func (d *Descriptor) labels(metric string) name {
	if metric == notFound {
		return name{domain: d.domain}
	}
	return d.name
}

// Describe describes nothing: which labels there are depends on the names.
func (*Reference) Describe(chan<- *prometheus.Desc) {}

// Collect tells all counters that have counted something.
func (r *Reference) Collect(to chan<- prometheus.Metric) {
	for _, one := range []prometheus.Metric{
		r.requests, r.durations, r.storeErrors, r.serviceErrors, r.loaded, r.unloaded, r.shadowed,
	} {
		to <- one
	}
	r.mu.RLock()
	all := make([]*Descriptor, 0, len(r.names)+1)
	all = append(all, r.others)
	for _, d := range r.names {
		all = append(all, d)
	}
	r.mu.RUnlock()
	for _, kind := range kinds {
		sums := make(map[name]uint64) // several names may have the same labels
		for _, d := range all {
			if n := kind.value(d).Load(); n > 0 {
				sums[d.labels(kind.metric)] += n
			}
		}
		for n, sum := range sums {
			labels, values := []string{"domain", "key1", "key2"}, []string{n.domain, n.key1, n.key2}
			for len(values) > 1 && values[len(values)-1] == "" {
				labels, values = labels[:len(values)-1], values[:len(values)-1]
			}
			desc := prometheus.NewDesc("ratelimit_service_rate_limit_"+kind.metric, kind.help, labels, nil)
			to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(sum), values...)
		}
	}
}

package rlqs

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/core"
)

// length is how long a lease of these tests is.
const length = 5 * time.Second

// proxy is a model of Envoy's filter for one bucket: it spends the tokens that it was assigned until their time is over, and reports from time to time.
type proxy struct {
	name     string
	stream   *stream
	tokens   int
	ends     time.Time
	every    time.Duration // between reports
	coarse   bool          // it tells whole seconds, as Envoy does, and loses no report
	next     time.Time
	reported time.Time
	allowed  uint64
	denied   uint64
	last     *pb.RateLimitQuotaUsageReports
	rate     float64 // requests a second
}

// message is one on its way.
type message struct {
	at      time.Time
	to      *proxy
	actions []*pb.RateLimitQuotaResponse_BucketAction // to the proxy
	reports *pb.RateLimitQuotaUsageReports            // or from it
}

// world is a service and its proxies, with a clock of their own.
type world struct {
	*rapid.T

	service  *Service
	now      time.Time
	proxies  []*proxy
	messages []message
	passed   []time.Time
	asks     map[*proxy][]time.Time
}

// However proxies send and report, with reports that are lost, repeated and late, no more passes in any time t than the limit admits in t and one lease.
func TestQuotasKeepTheLawOfLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst, rate := rapid.IntRange(1, 60).Draw(t, "burst"), rapid.IntRange(1, 20).Draw(t, "rate")
		w := &world{T: t, now: time.UnixMicro(1_795_000_000_000_000), asks: make(map[*proxy][]time.Time)}
		file := fmt.Sprintf("domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: %d, algorithm: token_bucket, burst: %d}}]", rate, burst)
		config, err := descriptors.Parse([]descriptors.File{{Name: "d", Text: []byte(file)}}, descriptors.Options{})
		if err != nil {
			t.Fatal(err)
		}
		clock := func() time.Time { return w.now }
		w.service = New(core.NewMemory(core.WithClock(clock)), func() *descriptors.Config { return config }, Options{
			Lease: length, Timeout: time.Hour, Now: clock,
		})
		for i := range rapid.IntRange(1, 4).Draw(t, "proxies") {
			w.proxies = append(w.proxies, &proxy{
				name: strconv.Itoa(i), stream: &stream{buckets: make(map[string]*known)}, next: w.now, reported: w.now,
				every:  rapid.SampledFrom([]time.Duration{300 * time.Millisecond, 1037 * time.Millisecond, 2 * time.Second}).Draw(t, "every"),
				coarse: rapid.Bool().Draw(t, "coarse"),
				rate:   float64(rapid.SampledFrom([]int{1, 5, 20, 80}).Draw(t, "requests a second")),
			})
		}
		for range rapid.IntRange(20, 150).Draw(t, "steps") {
			w.step()
		}
		w.expectLawful(burst, rate)
		w.expectFewAsks()
	})
}

// step moves time on by 50 milliseconds.
func (w *world) step() {
	w.now = w.now.Add(50 * time.Millisecond)
	slices.SortStableFunc(w.messages, func(a, b message) int { return a.at.Compare(b.at) })
	for len(w.messages) > 0 && !w.messages[0].at.After(w.now) {
		m := w.messages[0]
		w.messages = w.messages[1:]
		if m.reports != nil {
			w.arrive(m)
		} else {
			m.to.take(m.actions, w.now)
		}
	}
	for _, p := range w.proxies {
		if rapid.IntRange(0, 40).Draw(w.T, "changes") == 0 {
			p.rate = float64(rapid.SampledFrom([]int{0, 1, 5, 20, 80}).Draw(w.T, "requests a second"))
		}
		for n := int(p.rate*0.05 + rapid.Float64Range(0, 0.99).Draw(w.T, "part")); n > 0; n-- {
			if p.tokens > 0 && w.now.Before(p.ends) {
				p.tokens--
				p.allowed++
				w.passed = append(w.passed, w.now)
			} else {
				p.denied++
			}
		}
		if !w.now.Before(p.next) {
			w.report(p)
		}
	}
}

// report has a proxy send a report, which may be lost, repeated or late.
func (w *world) report(p *proxy) {
	elapsed := w.now.Sub(p.reported) + time.Duration(rapid.IntRange(1, 999).Draw(w.T, "nanoseconds"))
	fate := rapid.IntRange(0, 9).Draw(w.T, "fate")
	if p.coarse {
		elapsed = elapsed.Truncate(time.Second)
		fate = 9
	}
	r := &pb.RateLimitQuotaUsageReports{Domain: "d", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId: &pb.BucketId{Bucket: map[string]string{"k": "v"}}, TimeElapsed: durationpb.New(elapsed),
		NumRequestsAllowed: p.allowed, NumRequestsDenied: p.denied,
	}}}
	p.allowed, p.denied, p.reported, p.next = 0, 0, w.now, w.now.Add(p.every)
	late := time.Duration(rapid.IntRange(0, 3).Draw(w.T, "late")) * 5 * time.Millisecond
	switch fate {
	case 0: // it is lost
	case 1:
		again := p.last
		if again == nil {
			again = r
		}
		w.messages = append(w.messages, message{at: w.now.Add(late), to: p, reports: r}, message{at: w.now.Add(late), to: p, reports: again})
	case 2: // the one before comes in its place
		if p.last != nil {
			w.messages = append(w.messages, message{at: w.now.Add(late), to: p, reports: p.last})
		}
	default:
		w.messages = append(w.messages, message{at: w.now.Add(late), to: p, reports: r})
	}
	p.last = r
}

// arrive has the service take a report.
func (w *world) arrive(m message) {
	before := m.to.lastAsked()
	actions, err := w.service.answer(w.Context(), m.to.stream, m.reports)
	if err != nil {
		w.Fatal(err)
	}
	if after := m.to.lastAsked(); after != before {
		w.asks[m.to] = append(w.asks[m.to], after)
	}
	if len(actions) > 0 {
		late := time.Duration(rapid.IntRange(0, 19).Draw(w.T, "answer late")) * 50 * time.Millisecond
		w.messages = append(w.messages, message{at: w.now.Add(late), to: m.to, actions: actions})
	}
}

func (p *proxy) lastAsked() (at time.Time) {
	for _, b := range p.stream.buckets {
		at = b.asked[1]
	}
	return at
}

// take has a proxy take an assignment.
func (p *proxy) take(actions []*pb.RateLimitQuotaResponse_BucketAction, now time.Time) {
	for _, a := range actions {
		assigned := a.GetQuotaAssignmentAction()
		p.tokens, p.ends = 0, now.Add(assigned.GetAssignmentTimeToLive().AsDuration())
		if strategy, ok := assigned.GetRateLimitStrategy().GetStrategy().(*typev3.RateLimitStrategy_TokenBucket); ok {
			p.tokens = int(strategy.TokenBucket.GetMaxTokens())
		}
	}
}

// expectLawful wants no more to have passed in any time than the limit admits in it and a lease.
func (w *world) expectLawful(burst, rate int) {
	for i, from := range w.passed {
		for j := i; j < len(w.passed); j++ {
			took := w.passed[j].Sub(from)
			if most := float64(burst) + float64(rate)*(took+length).Seconds(); float64(j-i+1) > most {
				w.Fatalf("%d passed in %v, and at most %.1f may", j-i+1, took, most)
			}
		}
	}
}

// expectFewAsks wants units to have been asked for twice in a lease at most.
func (w *world) expectFewAsks() {
	for _, all := range w.asks {
		for i := 2; i < len(all); i++ {
			if all[i].Sub(all[i-2]) < length {
				w.Fatalf("units were asked for three times in %v", all[i].Sub(all[i-2]))
			}
		}
	}
}

// What a proxy has not spent is given back when its lease has ended, and what it has spent beyond is charged.
func TestReportsSettleLeases(t *testing.T) {
	begin := time.UnixMicro(1_795_000_000_000_000)
	fine := func(allowed ...uint64) (list []usage) { // each report tells another time
		for i, n := range allowed {
			list = append(list, usage{time.Second + time.Duration(i+1), n, 0})
		}
		return list
	}
	for name, test := range map[string]struct {
		reports []usage // one each second, from a second on
		missing int     // the one that does not arrive, from 1
		want    []int   // the real costs, in the order of the leases
	}{
		"some is left":             {reports: fine(1, 1, 1, 1, 1, 1), want: []int{6}},
		"nothing was spent":        {reports: fine(0, 0, 0, 0, 0, 0), want: []int{0}},
		"all was spent":            {reports: fine(4, 4, 2, 0, 0, 0), want: nil},
		"more than was given":      {reports: fine(7, 9, 1, 0, 0, 0), want: []int{17}},
		"a report was lost":        {reports: fine(1, 2, 1, 0, 0, 0), missing: 2, want: nil},
		"whole seconds":            {reports: slices.Repeat([]usage{{time.Second, 1, 0}}, 6), want: []int{6}},
		"one report comes forever": {reports: slices.Repeat([]usage{{1001 * time.Millisecond, 1, 0}}, 20), want: []int{11}},
		"too early":                {reports: fine(1, 1, 1, 1, 1), want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bucket{length: length}
			b.report(begin, usage{})
			b.granted(lease{key: "k", units: 10, at: begin}, time.Time{})
			var got []int
			for i, u := range test.reports {
				if i+1 == test.missing {
					continue
				}
				now := begin.Add(time.Duration(i+1) * time.Second)
				b.report(now, u)
				for _, s := range b.ended(now) {
					got = append(got, s.Cost)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("settled at %v, want %v: %+v", got, test.want, b.leases)
			}
		})
	}
}

// What is spent while a proxy has two leases counts for the older one first: so no more of it is given back than is left.
func TestOlderLeaseIsSpentFirst(t *testing.T) {
	begin := time.UnixMicro(1_795_000_000_000_000)
	b := &bucket{length: length}
	b.report(begin, usage{})
	b.granted(lease{key: "k", units: 10, at: begin}, time.Time{})
	var got []string
	for i := 1; i <= 8; i++ {
		now := begin.Add(time.Duration(i) * time.Second)
		b.report(now, usage{time.Second, 2, 0})
		for _, s := range b.ended(now) {
			got = append(got, fmt.Sprintf("%d of %d after %ds", s.Cost, s.Check.Cost, i))
		}
		if i == 2 {
			b.granted(lease{key: "k", units: 20, at: now}, time.Time{})
		}
	}
	if want := []string{"6 of 20 after 8s"}; !slices.Equal(got, want) {
		t.Errorf("settled %q, want %q", got, want)
	}
}

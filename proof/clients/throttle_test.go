package clients

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/failsafe-go/failsafe-go/adaptivethrottler"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// worn is a host that accepts so many calls a second, with room for those of 50 ms.
type worn struct {
	capacity, room float64
	at             time.Time
	got, accepted  int
}

func (w *worn) accepts() bool {
	now := time.Now()
	w.room = min(w.room+w.capacity*now.Sub(w.at).Seconds(), max(1, w.capacity/20))
	w.at = now
	w.got++
	if w.room < 1 {
		return false
	}
	w.room--
	w.accepted++
	return true
}

// RoundTrip answers 200 or 503.
func (w *worn) RoundTrip(r *http.Request) (*http.Response, error) {
	status := http.StatusServiceUnavailable
	if w.accepts() {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// ours calls a host through the throttle of package outbound.
func ours(t *testing.T, host *worn) func() {
	t.Helper()
	transport := outbound.New(core.New(core.NewMemory()), core.Unlimited, outbound.Options{Base: host, Throttle: true})
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://partner.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		response, err := transport.RoundTrip(r)
		if err == nil {
			response.Body.Close()
		} else if !errors.Is(err, outbound.ErrThrottled) {
			t.Fatal(err)
		}
	}
}

// theirs calls a host through the throttle of failsafe-go, with K = 2 over a second. It may count calls that were not made as
// the book Site Reliability Engineering does; by itself, it does not.
func theirs(host *worn, countUnmade bool) func() {
	throttler := adaptivethrottler.NewBuilder[any]().WithFailureRateThreshold(0.5, 0, time.Second).WithMaxRejectionRate(1).Build()
	return func() {
		switch made := throttler.TryAcquirePermit(); {
		case made && host.accepts():
			throttler.RecordSuccess()
		case made || countUnmade:
			throttler.RecordFailure()
		}
	}
}

// outage is the number of calls that a host got and accepted in a minute at a tenth of its capacity, and how long it took until
// all calls were made again.
type outage struct {
	got, accepted int
	recovered     time.Duration
}

// suffer makes 1,000 calls a second to a host that loses nine tenths of its capacity for a minute.
func suffer(t *testing.T, client func(*worn) func()) (result outage) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		host := &worn{capacity: 10_000}
		call := client(host)
		calls := func(long time.Duration) {
			for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Millisecond) {
				call()
			}
		}
		calls(3 * time.Second)
		host.capacity, host.room = 100, 0
		calls(2 * time.Second) // until the throttle knows
		host.got, host.accepted = 0, 0
		calls(time.Minute)
		result.got, result.accepted = host.got, host.accepted
		host.capacity = 10_000
		for began, got := time.Now(), 0; got < 495 && time.Since(began) < time.Minute; {
			host.got = 0
			calls(500 * time.Millisecond)
			got, result.recovered = host.got, time.Since(began)
		}
	})
	return result
}

// The throttle spares a host as that of failsafe-go does if it counts as the book says, and recovers as fast. As it comes,
// failsafe-go counts only calls that were made, so that the host gets four calls for each that it accepts.
func TestTheThrottleAgreesWithFailsafe(t *testing.T) {
	own := suffer(t, func(host *worn) func() { return ours(t, host) })
	same := suffer(t, func(host *worn) func() { return theirs(host, true) })
	asItComes := suffer(t, func(host *worn) func() { return theirs(host, false) })
	t.Logf("outbound %+v, failsafe-go counting alike %+v, as it comes %+v", own, same, asItComes)
	if ratio := float64(own.got) / float64(same.got); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("the host got %d calls, and %d through failsafe-go", own.got, same.got)
	}
	if ratio := float64(own.got) / float64(own.accepted); ratio > 2.1 {
		t.Errorf("the host got %.2f times what it accepted", ratio)
	}
	if own.recovered > 10*time.Second || same.recovered > 10*time.Second {
		t.Errorf("recovered after %v, and %v through failsafe-go", own.recovered, same.recovered)
	}
	if float64(asItComes.got) < 1.8*float64(own.got) {
		t.Errorf("the host got %d calls, and %d through failsafe-go as it comes", own.got, asItComes.got)
	}
}

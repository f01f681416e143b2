package telemetry

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// instruments are the instruments, under the names that the package documents.
type instruments struct {
	decisions, nearLimit, denialCacheHits   metric.Int64Counter
	checks                                  metric.Int64Counter
	listed, bans, strikes                   metric.Int64Counter
	checkDuration, settlementDuration       metric.Float64Histogram
	delayDuration, waitDuration             metric.Float64Histogram
	batchDuration                           metric.Float64Histogram
	settlementSize, batchCalls, batchChecks metric.Int64Histogram
	servers                                 metric.Int64UpDownCounter
	placesHeld, placesWaiting               metric.Int64UpDownCounter
	placesHoldDuration                      metric.Float64Histogram
	placesRenewals, placesReclaimed         metric.Int64Counter
	leasedUnits                             metric.Int64Counter
	leasedOver                              metric.Float64Histogram
	leasedTolerance                         metric.Float64Gauge
	reservationsReturned                    metric.Int64Counter
}

// newInstruments makes the instruments. If one cannot be made as it is to be, which only
// the program's own views could cause, OpenTelemetry's error handler is told, and it works
// as well as it can.
func newInstruments(meter metric.Meter) instruments {
	maker := maker{meter}
	return instruments{
		decisions:          maker.counter("ratelimit.decisions", "{decision}", "Decisions of policies about requests."),
		checks:             maker.counter("ratelimit.checks", "{check}", "Checks that limiters have decided."),
		listed:             maker.counter("ratelimit.listed", "{request}", "Requests that a list has decided about, before any policy."),
		bans:               maker.counter("ratelimit.bans", "{ban}", "Bans that strikes have begun."),
		strikes:            maker.counter("ratelimit.strikes", "{strike}", "Strikes that may begin a ban."),
		nearLimit:          maker.counter("ratelimit.near_limit", "{decision}", "Allowed requests that have left little of a limit."),
		denialCacheHits:    maker.counter("ratelimit.denial_cache.hits", "{call}", "Calls that were denied from memory."),
		checkDuration:      maker.durations("ratelimit.check.duration", "How long requests waited for the decisions of their checks.", seconds),
		settlementDuration: maker.durations("ratelimit.settlement.duration", "How long settlements took that changed what requests cost.", seconds),
		delayDuration:      maker.durations("ratelimit.delay.duration", "How long shaped requests are to be held back.", longSeconds),
		waitDuration:       maker.durations("ratelimit.wait.duration", "How long requests and callers have waited for their turn.", longSeconds),
		batchDuration:      maker.durations("ratelimit.store.batch.duration", "How long round trips to Redis took.", seconds),
		settlementSize:     maker.sizes("ratelimit.settlement.size", "{unit}", "Units that were returned or charged when requests had been served.", decades),
		batchCalls:         maker.sizes("ratelimit.store.batch.calls", "{call}", "Calls that shared a round trip to Redis.", doubles),
		batchChecks:        maker.sizes("ratelimit.store.batch.checks", "{check}", "Checks that shared a round trip to Redis.", doubles),
		servers:            maker.upDown("ratelimit.store.servers", "{server}", "Redis servers, by whether they are asked."),
		placesHeld:         maker.upDown("ratelimit.places.held", "{place}", "Places of concurrent limits that this process holds."),
		placesWaiting:      maker.upDown("ratelimit.places.waiting", "{call}", "Calls of this process that wait for a place."),
		placesHoldDuration: maker.durations("ratelimit.places.hold.duration", "How long places were held.", longSeconds),
		placesReclaimed:    maker.counter("ratelimit.places.reclaimed", "{call}", "Calls that found places whose leases had ended."),
		leasedUnits:        maker.counter("ratelimit.leased.units", "{unit}", "Units that were granted to this process ahead of time, by what became of them."),
		leasedOver:         maker.parts("ratelimit.leased.over", "The part of a limit's capacity that a lease has admitted too much, at most.", shares),
		leasedTolerance:    maker.gauge("ratelimit.leased.tolerance", "The part of a limit's capacity that may be admitted too much, as it was declared."),
		reservationsReturned: maker.counter("ratelimit.reservations.returned", "{call}",
			"Calls that found reservations whose time was over, and gave them back."),
		placesRenewals: maker.counter("ratelimit.places.renewals", "{lease}", "Leases of places that were to be renewed."),
	}
}

// The bounds of histograms of counts: a batch holds up to 128 checks; a unit may be a request or a byte.
var (
	doubles = []float64{1, 2, 4, 8, 16, 32, 64, 128}
	decades = []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}
	// shares are those of a capacity.
	shares = []float64{0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}
)

type maker struct{ meter metric.Meter }

func (m maker) counter(name, unit, description string) metric.Int64Counter {
	return made(m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description)))
}

func (m maker) upDown(name, unit, description string) metric.Int64UpDownCounter {
	return made(m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description)))
}

func (m maker) durations(name, description string, bounds []float64) metric.Float64Histogram {
	return made(m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...)))
}

func (m maker) parts(name, description string, bounds []float64) metric.Float64Histogram {
	return made(m.meter.Float64Histogram(name, metric.WithUnit("1"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...)))
}

func (m maker) gauge(name, description string) metric.Float64Gauge {
	return made(m.meter.Float64Gauge(name, metric.WithUnit("1"), metric.WithDescription(description)))
}

func (m maker) sizes(name, unit, description string, bounds []float64) metric.Int64Histogram {
	return made(m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...)))
}

func made[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

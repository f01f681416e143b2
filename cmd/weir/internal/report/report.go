// Package report writes the report of a log: as one HTML file that needs no network, or as JSON.
package report

import (
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
	"github.com/weir-go/ratelimit/cmd/weir/internal/replay"
)

// Input has the findings of both passes over the logs.
type Input struct {
	Files   []File
	Key     accesslog.Key
	Routes  []string
	Horizon time.Duration
	Zone    *time.Location
	Summary arrival.Summary
	Days    []arrival.Day
	Demand  *demand.Demand
	// Proposals are those of [demand.Demand.Propose], and Replay has replayed them.
	Proposals []demand.Proposal
	Replay    *replay.Replay
	// Name returns the name of a key in the report: itself, or a hash of it.
	Name func(key string) string
}

// Report is the report. Its JSON has the same numbers as the page.
type Report struct {
	Log       Log        `json:"log"`
	Keys      Keys       `json:"keys"`
	Proposals []Proposal `json:"proposals"`
	Frontier  []Cell     `json:"frontier"`
	Bursts    []Bursts   `json:"bursts"`
	Peaks     []Peak     `json:"peaks"`
	Days      []Day      `json:"days"`
	Denied    []Subject  `json:"denied"`
	// Unlisted is how many more keys a proposal denies than Denied has.
	Unlisted int `json:"unlisted"`
}

// Log describes the logs that were read.
type Log struct {
	Files      []File    `json:"files"`
	Key        string    `json:"key"`
	Routes     []string  `json:"routes"`
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
	Zone       string    `json:"zone"`
	Lines      int64     `json:"lines"`
	Requests   int64     `json:"requests"`
	OtherRoute int64     `json:"other_route"`
	Keyless    int64     `json:"without_key"`
	Skipped    int64     `json:"skipped"`
	Late       int64     `json:"late"`
	// Disorder says how far behind younger lines they stood, and names the remedy.
	Disorder string `json:"disorder,omitempty"`
	// Aside is how many lines count nowhere, since their time is far outside of those around them, and Outlier says so.
	Aside   int64  `json:"set_aside"`
	Outlier string `json:"outlier,omitempty"`
	// WholeSeconds is how many requests have a timestamp without a fraction of a second.
	WholeSeconds int64    `json:"whole_seconds"`
	FirstBad     *BadLine `json:"first_bad_line,omitempty"`
	// Hidden describes the lines that could not be read, and Unread lists their clients, as far as these could be read: those with the most
	// lines first, MostListed at most.
	Hidden string   `json:"hidden,omitempty"`
	Unread []Unread `json:"unread,omitempty"`
}

// File is a log, and the format it is in.
type File struct {
	Name   string `json:"name"`
	Format string `json:"format"`
}

// BadLine is the first line that could not be read.
type BadLine struct {
	Line int64  `json:"line"` // of its file
	Why  string `json:"why"`
}

// Unread is a client of which lines could not be read.
type Unread struct {
	Address string `json:"address"` // as the report calls it
	Lines   int64  `json:"lines"`
	// Vanished says that none of its lines could be read, so nothing in the report is about it. It is known where keys are addresses.
	Vanished bool `json:"vanished,omitempty"`
}

// Keys tells how many keys there are.
type Keys struct {
	Distinct uint64 `json:"distinct"`
	// Exact is false if there were more keys than are followed at a time. Then Distinct is an estimate with a standard error of 0.8 %, keys that were given up
	// and came back are counted more than once below, and a needed burst may be too low by Missed at most.
	Exact    bool   `json:"exact"`
	GivenUp  int    `json:"given_up"`
	Missed   uint64 `json:"missed_at_most"`
	Suspects int    `json:"suspects"`
	// Normal is how many do not look like abuse.
	Normal int `json:"normal"`
}

// Proposal is a limit that is proposed, and its denials.
type Proposal struct {
	Name      string  `json:"name"`
	Limit     string  `json:"limit"` // as core.ParseLimit reads it
	File      string  `json:"file"`  // of policies, which runs it as a shadow
	Code      string  `json:"code"`  // Go that does the same
	Rate      string  `json:"rate"`
	Burst     int     `json:"burst"`
	Allowance float64 `json:"allowance"` // the most requests of one key within the horizon
	// Keys and Normal are how many keys it would have denied at least once, and how many of them do not look like abuse.
	Keys        int     `json:"keys"`
	Normal      int     `json:"normal"`
	Denied      uint64  `json:"denied"`
	DeniedShare float64 `json:"denied_share"`
	// Interval is the 95 % bootstrap interval of DeniedShare over days. It is nil if there are fewer than two days.
	Interval *[2]float64 `json:"denied_share_interval,omitempty"`
	// BadDays is on how many of the log's days it would have denied a key that does not look like abuse, and BadDaysUpTo is the
	// share of all days that may be like that: the upper end of a 95 % interval (Clopper and Pearson).
	BadDays     int      `json:"bad_days"`
	BadDaysUpTo float64  `json:"bad_days_up_to"`
	Longest     *Longest `json:"longest_denial,omitempty"`
	// Doubt is by how many events the needed bursts may be off, since the log tells whole seconds.
	Doubt int `json:"doubt"`

	cell demand.Cell
}

// Longest is the longest time in which a key was denied again and again, without its bucket running empty in between.
type Longest struct {
	Key     string        `json:"key"`
	From    time.Time     `json:"from"`
	Lasted  time.Duration `json:"lasted_ns"`
	Suspect bool          `json:"suspect"`
}

// Cell is a limit of the frontier, and its denials.
type Cell struct {
	Rate   string `json:"rate"`
	Burst  int    `json:"burst"`
	Keys   int    `json:"keys"`
	Normal int    `json:"normal"`
	// Denied is how many requests it would have denied, or nil if too many keys are denied to count them.
	Denied *uint64 `json:"denied,omitempty"`

	cell demand.Cell
}

// Bursts are the bursts that keys need at a rate, without keys that look like abuse; MaxAll is the largest of all keys.
type Bursts struct {
	Rate   string `json:"rate"`
	P50    int    `json:"p50"`
	P90    int    `json:"p90"`
	P99    int    `json:"p99"`
	P999   int    `json:"p99_9"`
	Max    int    `json:"max"`
	MaxAll int    `json:"max_all"`
	Doubt  int    `json:"doubt"`
}

// Peak is the most requests that keys had in a minute, an hour or a day.
type Peak struct {
	In   string `json:"in"`
	P50  int    `json:"p50"`
	P90  int    `json:"p90"`
	P99  int    `json:"p99"`
	P999 int    `json:"p99_9"`
	Max  int    `json:"max"`
}

// Day is a day, and the denials of the proposals on it.
type Day struct {
	Day      string   `json:"day"`
	Requests uint64   `json:"requests"`
	Denied   []uint64 `json:"denied"`
	Keys     []int    `json:"keys"`
	Normal   []int    `json:"normal"`
}

// Subject is a key that a proposal denies, and the evidence that tells abuse from use.
type Subject struct {
	Key      string   `json:"key"`
	Requests uint64   `json:"requests"`
	Share    float64  `json:"share"`
	Denied   []uint64 `json:"denied"` // by proposal
	Suspect  bool     `json:"suspect"`
	Remarks  []string `json:"remarks"`
	// Statuses are the responses by the first digit of their status; those without a status are the first.
	Statuses [6]uint64  `json:"statuses"`
	Limited  uint64     `json:"limited"` // answered with 429
	Paths    uint64     `json:"paths"`   // about
	Hours    [24]uint64 `json:"hours"`
	// Rhythm is 1 if all requests are in one hour of the day, and 0 if each hour has the same number: 1 − their entropy / log 24.
	Rhythm     float64  `json:"rhythm"`
	Agents     []string `json:"agents"`
	MoreAgents bool     `json:"more_agents"`
}

// MostListed is how many denied keys a report lists.
const MostListed = 100

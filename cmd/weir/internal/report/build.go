package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
	"github.com/weir-go/ratelimit/cmd/weir/internal/replay"
)

// New returns the report of a log.
func New(in Input) *Report {
	d := in.Demand
	r := &Report{
		Log: Log{
			Key: in.Key.String(), Routes: in.Routes, Zone: in.Zone.String(),
			Lines: in.Summary.Lines, Requests: in.Summary.Arrivals, OtherRoute: in.Summary.OtherRoute, Keyless: in.Summary.Keyless,
			Skipped: in.Summary.Skipped, Late: in.Summary.Late, Disorder: in.Summary.Disorder(), WholeSeconds: in.Summary.Whole,
			Aside: in.Summary.Aside, Outlier: in.Summary.Outlier(),
		},
		Keys: Keys{
			Distinct: d.Distinct, Exact: d.GivenUp == 0, GivenUp: d.GivenUp, Missed: d.Missed, Suspects: d.Suspects, Normal: d.Normal[0].Keys(),
		},
	}
	if in.Summary.Arrivals > 0 {
		r.Log.First, r.Log.Last = time.UnixMicro(in.Summary.First).In(in.Zone), time.UnixMicro(in.Summary.Last).In(in.Zone)
	}
	r.Log.Files = in.Files
	if bad := in.Summary.FirstBad; bad != nil {
		r.Log.FirstBad = &BadLine{bad.Line, bad.Why}
	}
	r.unread(in)
	for rate := range demand.RateCount {
		normal := d.Normal[rate]
		b := Bursts{
			Rate: demand.Rates[rate].String(), P50: normal.Quantile(0.5), P90: normal.Quantile(0.9), P99: normal.Quantile(0.99),
			P999: normal.Quantile(0.999), Max: normal.Quantile(1), MaxAll: d.All[rate].Quantile(1),
		}
		if in.Summary.Whole > 0 {
			b.Doubt = demand.Doubt(rate)
		}
		r.Bursts = append(r.Bursts, b)
		for _, burst := range demand.Bursts {
			c := in.Replay.Cell(demand.Cell{Rate: rate, Burst: burst})
			cell := Cell{Rate: b.Rate, Burst: burst, Keys: c.Keys, Normal: c.Normal, cell: c.Cell}
			if c.Counted {
				cell.Denied = &c.Denied
			}
			r.Frontier = append(r.Frontier, cell)
		}
	}
	for i, in := range []string{"minute", "hour", "day"} {
		p := d.Peaks[i]
		r.Peaks = append(r.Peaks, Peak{in, p.Quantile(0.5), p.Quantile(0.9), p.Quantile(0.99), p.Quantile(0.999), p.Quantile(1)})
	}
	r.days(in)
	r.proposals(in)
	r.denied(in)
	return r
}

// unread names the clients of the lines that could not be read.
func (r *Report) unread(in Input) {
	var known func(string) bool
	if in.Key == (accesslog.Key{}) && in.Demand.GivenUp == 0 && in.Summary.OtherRoute == 0 {
		addresses := make(map[string]bool, len(in.Demand.Keys))
		for _, k := range in.Demand.Keys {
			addresses[k.Text] = true
		}
		known = func(address string) bool { return addresses[address] }
	}
	r.Log.Hidden = in.Summary.Hidden(in.Name, known)
	for _, client := range in.Summary.Unread() {
		if len(r.Log.Unread) == MostListed {
			break
		}
		r.Log.Unread = append(r.Log.Unread, Unread{in.Name(client.Address), client.Lines, known != nil && !known(client.Address)})
	}
}

// days joins the days of the log with the denials of the proposals.
func (r *Report) days(in Input) {
	replayed := make(map[string]*replay.Day)
	for _, d := range in.Replay.Days() {
		replayed[d.Begin.Format(time.DateOnly)] = d
	}
	for _, d := range in.Days {
		n := len(in.Proposals)
		day := Day{Day: d.Begin.Format(time.DateOnly), Requests: d.Requests, Denied: make([]uint64, n), Keys: make([]int, n), Normal: make([]int, n)}
		if found := replayed[day.Day]; found != nil {
			day.Denied, day.Keys, day.Normal = found.Denied, found.Keys, found.Normal
		}
		r.Days = append(r.Days, day)
	}
}

// proposals adds the denials of each proposal.
func (r *Report) proposals(in Input) {
	subjects := in.Replay.Subjects()
	for i, p := range in.Proposals {
		limit := p.Cell.Limit().Named(p.Name)
		out := Proposal{
			Name: p.Name, Limit: limit.String(), File: inFile(in.Key, in.Routes, p), Code: inCode(in.Key, p),
			Rate: demand.Rates[p.Cell.Rate].String(), Burst: p.Cell.Burst,
			Allowance: p.Cell.Allowance(in.Horizon), Keys: p.Keys, Normal: p.Normal, cell: p.Cell,
		}
		if in.Summary.Whole > 0 {
			out.Doubt = demand.Doubt(p.Cell.Rate)
		}
		for _, s := range subjects {
			v := s.Verdicts[i]
			out.Denied += v.Denied
			if v.Denied > 0 && (out.Longest == nil || v.Longest > out.Longest.Lasted) {
				out.Longest = &Longest{in.Name(s.Key.Text), v.From, v.Longest, s.Key.Suspect()}
			}
		}
		out.DeniedShare = share(out.Denied, uint64(r.Log.Requests))
		out.Interval = interval(r.Days, i)
		for _, d := range r.Days {
			if d.Normal[i] > 0 {
				out.BadDays++
			}
		}
		out.BadDaysUpTo = upTo(out.BadDays, len(r.Days))
		r.Proposals = append(r.Proposals, out)
	}
}

// denied lists the keys that the proposals deny.
func (r *Report) denied(in Input) {
	for _, s := range in.Replay.Subjects() {
		if s.Evidence == nil || len(r.Denied) == MostListed {
			r.Unlisted++
			continue
		}
		e := s.Evidence
		out := Subject{
			Key: in.Name(s.Key.Text), Requests: s.Key.Requests, Share: share(s.Key.Requests, in.Demand.Requests), Suspect: s.Key.Suspect(),
			Statuses: e.Statuses, Limited: s.Key.Limited, Paths: min(e.Paths(), s.Key.Requests), Hours: e.Hours, Rhythm: rhythm(e.Hours), MoreAgents: e.Others,
		}
		for _, v := range s.Verdicts {
			out.Denied = append(out.Denied, v.Denied)
		}
		for _, a := range e.Agents {
			out.Agents = append(out.Agents, a.Name)
		}
		out.Remarks = remarks(&out, s.Key)
		r.Denied = append(r.Denied, out)
	}
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// interval returns the 95 % interval of the share of denied requests, by a bootstrap over days. The same report gives the same interval.
func interval(days []Day, proposal int) *[2]float64 {
	if len(days) < 2 {
		return nil
	}
	const samples = 2000
	random := rand.New(rand.NewPCG(1, 2))
	shares := make([]float64, samples)
	for i := range shares {
		var denied, all uint64
		for range days {
			d := days[random.IntN(len(days))]
			denied += d.Denied[proposal]
			all += d.Requests
		}
		shares[i] = share(denied, all)
	}
	slices.Sort(shares)
	return &[2]float64{shares[samples*25/1000], shares[samples*975/1000]}
}

// upTo returns the upper end of the one-sided 95 % interval of a share of which k in n were seen: that at which k or fewer have the
// probability 0.05.
func upTo(k, n int) float64 {
	if k >= n {
		return 1
	}
	low, high := 0.0, 1.0
	for range 60 {
		p := (low + high) / 2
		sum, term := 0.0, math.Pow(1-p, float64(n))
		for i := 0; i <= k; i++ {
			sum += term
			term *= float64(n-i) / float64(i+1) * p / (1 - p)
		}
		if sum > 0.05 {
			low = p
		} else {
			high = p
		}
	}
	return high
}

// rhythm says how unevenly requests are spread over the hours of the day.
func rhythm(hours [24]uint64) float64 {
	var all uint64
	for _, n := range hours {
		all += n
	}
	entropy := 0.0
	for _, n := range hours {
		if n > 0 {
			p := float64(n) / float64(all)
			entropy -= p * math.Log(p)
		}
	}
	return max(0, 1-entropy/math.Log(24))
}

// isRobot reports whether a user agent says that it is a robot.
func isRobot(agent string) bool {
	agent = strings.ToLower(agent)
	return slices.ContainsFunc([]string{"bot", "crawler", "spider"}, func(word string) bool { return strings.Contains(agent, word) })
}

// remarks names the features that stand out in a key's requests.
func remarks(s *Subject, k *demand.Key) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if k.Failing() {
		add("looks like abuse: %s of its requests were answered with a client error", percent(share(k.Refused, s.Requests)))
	}
	if k.Signs != 0 {
		add("looks like no person, since it has far more requests than nine of ten keys: %s", k.Signs)
	}
	const many = 200
	agents := len(s.Agents)
	if s.MoreAgents {
		agents++
	}
	switch {
	case s.Requests < many || k.Signs != 0:
	case s.Paths <= 2:
		add("asks for one or two paths alone: polling, or guessing")
	case 2*s.Paths >= s.Requests:
		add("hardly asks for a path twice: a crawler")
	}
	switch robot := slices.ContainsFunc(s.Agents, isRobot); {
	case robot:
		add("calls itself a robot: a search engine, or one who says so")
	case agents >= 5 && !s.Suspect:
		add("many user agents: perhaps many people behind one address")
	}
	if s.Requests >= many && s.Rhythm < 0.03 {
		add("as busy by night as by day: a program")
	}
	if s.Limited > 0 {
		add("%d of its requests were denied with 429 already", s.Limited)
	}
	return all
}

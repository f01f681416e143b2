package main

import (
	"cmp"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// quota is a card of the second part: limits as products sell them. Its limits cannot be changed.
type quota struct {
	Name  string // in paths
	Title string
	Short string
	About string
	Code  string // the policies, as they are written in Go
	Rows  []row  // the rows that the card draws
	Ways  []way  // how to send it a request; the first is that of a visitor's curl

	policies []ratelimit.Policy
	takes    time.Duration // how long the handler takes
}

// row is one limit of a quota.
type row struct {
	Title string
	Limit core.Limit
	Kept  int // units that only the first way may use: the headroom of the others
	Drawn int // cells of a limit that is drawn with less than its capacity, or 0
}

// Cells returns how many cells the card draws.
func (r row) Cells() int { return cmp.Or(r.Drawn, r.Limit.Capacity()) }

// way is a button of a quota.
type way struct {
	Name   string // "" is a request with nothing special about it
	Title  string
	Count  int
	status int  // of the handler's answer, if not 200
	buys   bool // it sends no request, but tops up the credits
}

// Ways that differ for a policy, for the handler or for the page.
const (
	batch  = "batch"
	wrong  = "wrong"
	dear   = "dear"
	second = "second"
	buying = "buying"
)

// byVisitor is the key of all quotas.
var byVisitor keyfuncs.Func = func(r *http.Request) (string, error) { return attemptOf(r).key, nil }

var (
	freeTier = core.Calendar(20, core.Daily("Europe/Berlin")).Named("free-tier")
	exports  = core.Concurrent(3, 30*time.Second).Named("exports")
	shared   = core.TokenBucket(10, core.PerSecond(1)).Named("shared")
	plan     = core.TokenBucket(5, core.Per(1, 2*time.Second)).Named("plan")
	tokens   = core.TokenBucket(10, core.PerSecond(1)).Named("tokens").WithDebt(30)
	pool     = core.TokenBucket(12, core.PerSecond(1)).Named("pool")
	credits  = core.Balance().Named("credits")
	logins   = core.Concurrent(2, 30*time.Second).Named("logins")
	guessing = core.Ban{
		Strikes: core.SlidingLog(3, 30*time.Second), First: 5 * time.Second,
		Factor: 2, Longest: 40 * time.Second, Forget: time.Minute,
	}.Named("guessing")
)

// keptFromBatch is how many units of shared batch jobs leave for the others.
const keptFromBatch = 4

// dearCost is what a dear answer has cost at its end. It was charged 1 when it began.
const dearCost = 15

var quotas = []quota{
	{
		Name: "calendar", Title: "A free tier by the day", Short: "Day in Berlin",
		About: "Twenty requests a day, and a new day begins at midnight in Berlin, also on the days that have 23 or 25 hours. " +
			"The clock of the store decides, whatever those of the servers say.",
		Code:     `ratelimit.Calendar(limiter, 20, core.Daily("Europe/Berlin"))`,
		Rows:     []row{{Title: "Free tier", Limit: freeTier}},
		Ways:     []way{{Title: "Send request", Count: 1}, {Title: "Burst 10", Count: 10}},
		policies: []ratelimit.Policy{{Limit: freeTier, By: byVisitor}},
	},
	{
		Name: "places", Title: "Three at once", Short: "Three at once",
		About: "An export takes three seconds, and a customer may have three of them in progress, over all servers. " +
			"A place is free again as soon as its request has ended, or when its server has died.",
		Code:     "ratelimit.Concurrent(limiter, 3, 30*time.Second)",
		Rows:     []row{{Title: "Exports in progress", Limit: exports}},
		Ways:     []way{{Title: "Start one", Count: 1}, {Title: "Start 5", Count: 5}},
		policies: []ratelimit.Policy{{Limit: exports, By: byVisitor}},
		takes:    3 * time.Second,
	},
	{
		Name: "headroom", Title: "Batch leaves room", Short: "Batch leaves room",
		About: "Batch jobs and people share one bucket. Batch jobs pass only if four tokens would be left, and " +
			"are charged one each, as people are. So batch jobs stop first, and people never notice them.",
		Code: "ratelimit.Policy{Limit: shared, Headroom: func(r *http.Request) int {\n\tif isBatch(r) {\n\t\treturn 4\n\t}\n\treturn 0\n}}",
		Rows: []row{{Title: "Tokens, 1 a second", Limit: shared, Kept: keptFromBatch}},
		Ways: []way{{Title: "One person", Count: 1}, {Name: batch, Title: "Batch of 10", Count: 10}},
		policies: []ratelimit.Policy{{Limit: shared, By: byVisitor, Headroom: func(r *http.Request) int {
			if attemptOf(r).way == batch {
				return keptFromBatch
			}
			return 0
		}}},
	},
	{
		Name: "credits", Title: "The plan, then credits", Short: "Plan, then credits",
		About: "The first alternative that has room is charged: the plan while it lasts, and then credits that were paid for, which never " +
			"come back by themselves. The answer names the one that was charged. Buy some, and send more than the plan has.",
		Code: "credits := core.Balance()\nguard.FirstOf(\n\tratelimit.Policy{Limit: plan},\n\tratelimit.Policy{Limit: credits},\n)\n" +
			"limiter.TopUp(ctx, user, credits, 10, payment.ID)",
		Rows:     []row{{Title: "Plan, 1 every 2 seconds", Limit: plan}, {Title: "Credits", Limit: credits, Drawn: 20}},
		Ways:     []way{{Title: "Send one", Count: 1}, {Name: buying, Title: "Buy 10", Count: 10, buys: true}, {Title: "Burst 10", Count: 10}},
		policies: guard.FirstOf(ratelimit.Policy{Limit: plan, By: byVisitor}, ratelimit.Policy{Limit: credits, By: byVisitor}),
	},
	{
		Name: "share", Title: "Fair shares of one bucket", Short: "Fair shares",
		About: "Teams share one bucket, and no list names them. A team passes while it holds no more than is free: one that asks for all " +
			"it can get holds half, and leaves a part for the next one. Let team A ask for ten, and then team B.",
		Code: "ratelimit.Policy{Limit: pool, By: keyfuncs.Global, Share: team}",
		Rows: []row{{Title: "Tokens, 1 a second", Limit: pool}},
		Ways: []way{{Title: "One of A", Count: 1}, {Title: "Ten of A", Count: 10}, {Name: second, Title: "Ten of B", Count: 10}},
		policies: []ratelimit.Policy{{Limit: pool, By: byVisitor, Share: func(r *http.Request) (string, error) {
			return cmp.Or(attemptOf(r).way, "first"), nil
		}}},
	},
	{
		Name: "debt", Title: "Pay for it later", Short: "Debt",
		About: "A request is charged one token, and its real cost is known at its end. A dear answer costs 15: it takes what is left, and " +
			"owes the rest. Nothing passes until that is paid, and Retry-After says when.",
		Code: "ratelimit.Policy{\n\tLimit:  core.TokenBucket(10, core.PerSecond(1)).WithDebt(30),\n\t" +
			"Settle: ratelimit.SettlePolicy{Cost: tokensOfAnswer},\n}",
		Rows:     []row{{Title: "Tokens, 1 a second", Limit: tokens}},
		Ways:     []way{{Title: "Cheap answer", Count: 1}, {Name: dear, Title: "Dear answer", Count: 1}},
		policies: []ratelimit.Policy{{Limit: tokens, By: byVisitor, Settle: ratelimit.SettlePolicy{Cost: tokensOfAnswer}}},
	},
	{
		Name: "ban", Title: "A ban that grows", Short: "Ban",
		About: "Three wrong passwords ban for five seconds, the next three for ten, then for twenty. While a ban is in force, nothing " +
			"counts and the right password is denied, too. A login that succeeds clears the strikes of this account from this address. No more " +
			"than two are in progress at once, so that guesses in flight do not go around the ban.",
		Code: "ratelimit.Policy{Ban: ratelimit.BanPolicy{Ban: core.Ban{\n\tStrikes: core.SlidingLog(3, 30*time.Second), First: 5 * time.Second,\n\t" +
			"Factor: 2, Longest: 40 * time.Second, Forget: time.Minute,\n}, Strike: wrongPassword, Forgive: rightPassword}, By: addressAndUser},\n" +
			"ratelimit.Policy{Limit: core.Concurrent(2, 30*time.Second), By: addressAndUser}",
		Rows: []row{{Title: "Strikes", Limit: guessing.Limit()}},
		Ways: []way{
			{Title: "Right password", Count: 1},
			{Name: wrong, Title: "Wrong password", Count: 1, status: http.StatusUnauthorized},
		},
		policies: []ratelimit.Policy{
			{Ban: ratelimit.BanPolicy{Ban: guessing, Strike: wrongPassword, Forgive: rightPassword}, By: byVisitor},
			{Limit: logins, By: byVisitor},
		},
	},
}

// tokensOfAnswer is what an answer has really cost.
func tokensOfAnswer(r *http.Request, _ ratelimit.Served) int {
	if attemptOf(r).way == dear {
		return dearCost
	}
	return 1
}

// wrongPassword is a strike.
func wrongPassword(_ *http.Request, served ratelimit.Served) int {
	if served.Status == http.StatusUnauthorized {
		return 1
	}
	return 0
}

// rightPassword forgives the wrong ones before it.
func rightPassword(_ *http.Request, served ratelimit.Served) bool {
	return served.Status == http.StatusOK
}

// way returns a way by its name, or nil.
func (q *quota) way(name string) *way {
	for i := range q.Ways {
		if q.Ways[i].Name == name {
			return &q.Ways[i]
		}
	}
	return nil
}

// before returns how much fits into the limits that come before the one of a policy: requests that are charged
// to an alternative come behind those that the limits before it have admitted at the same instant. The quota may be nil.
func (q *quota) before(policy string) (units int) {
	if q == nil {
		return 0
	}
	for _, r := range q.Rows {
		if r.Limit.Name() == policy {
			break
		}
		units += r.Limit.Capacity()
	}
	return units
}

// rowFrame is the news of one limit of a quota. Times are microseconds.
type rowFrame struct {
	Remaining int   `json:"remaining"`
	Next      int64 `json:"next"`  // until Remaining grows, or a ban ends
	Reset     int64 `json:"reset"` // until all is as good as new
}

// quotaFrame is the news of one quota.
type quotaFrame struct {
	Name    string     `json:"name"`
	Rows    []rowFrame `json:"rows,omitempty"`
	Waiting int        `json:"waiting"`
	Fresh   bool       `json:"fresh,omitempty"` // it begins anew
	Answers []answer   `json:"answers,omitempty"`
}

// looks adds the checks that a quota is drawn from.
func (q *quota) looks(checks []core.Check, key string) []core.Check {
	for _, r := range q.Rows {
		checks = append(checks, core.Check{Key: key, Limit: r.Limit, Mode: core.Look})
	}
	return checks
}

// draw takes the decisions about a quota's looks, fills in its rows, and returns the other decisions. It reports
// whether something changes soon enough to be watched: no picture moves for the end of a month.
func (f *quotaFrame) draw(q *quota, decisions []core.Decision) (rest []core.Decision, busy bool) {
	for _, d := range decisions[:len(q.Rows)] {
		f.Rows = append(f.Rows, rowFrame{d.Remaining, d.NextAfter.Microseconds(), d.ResetAfter.Microseconds()})
		busy = busy || 0 < d.NextAfter && d.NextAfter <= longestRecovery
	}
	return decisions[len(q.Rows):], busy || f.Waiting > 0
}

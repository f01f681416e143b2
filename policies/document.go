package policies

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// Document is the content of a file. [Parse] makes one, and [Document.String] writes it. It must not be changed while a
// [Set] has it.
type Document struct {
	// Limits are the limits that have a name. Each has that name, unless it is [core.Unlimited].
	Limits map[string]core.Limit
	// Plans are limits that depend on the plan of a request. The name of the plan in each comes second; "*" is every other
	// plan, and none. All have the first name.
	Plans map[string]map[string]core.Limit
	// Bans are the bans that have a name.
	Bans map[string]core.Ban
	// Lists say who passes, and who is denied, before any policy is asked.
	Lists Lists
	// Policies are the policies in the order of the file.
	Policies []Policy
	// LimitsNothing says that there is meant to be no policy that limits anything. Without it that is an error, and so is LimitsNothing
	// with one. The default is false.
	LimitsNothing bool

	at places
}

// Lists are those of a [Document]: see [guard.Lists]. The zero value is no list.
type Lists struct {
	// Allow and Deny are entries as package lists reads them.
	Allow, Deny []string
	// Address is how the address of a client is found, as [keyfuncs.ParseAddress] reads it. The default is the TCP peer.
	Address string
	// Key is the key to look up among the keys of the lists, as [keyfuncs.Parse] reads it. The default is none.
	Key string

	at places
}

// Policy is one policy of a [Document]. Fields with a name of [guard.Policy] have the same meaning.
type Policy struct {
	// Name is its name in errors and commands. The default is its limit.
	Name string
	// Match says which requests meet it. The default is all.
	Match []Match
	// Key says which requests count together, as [keyfuncs.Parse] reads it. It is needed, except with [core.Unlimited].
	Key string
	// Limit is a name among Limits or Plans, or a limit as [core.ParseLimit] reads it.
	Limit string
	// Ban is a name among Bans, or a ban as [core.ParseBan] reads it, in place of a limit.
	Ban string
	// FirstOf are alternatives, in place of a limit: the first that has room is charged. An alternative without a Key,
	// Cost or Settle of its own has that of the policy. Alternatives have no Match, OnError, Shadow, Enforced and
	// FirstOf.
	FirstOf []Policy
	// Cost is a number of units, or a name of [Options].Costs. The default is 1.
	Cost string
	// Headroom is how many units have to be left when the request has been charged. The default is 0. Less than 0 is an error, and so is
	// more than the limit has beyond a Cost that is a number.
	Headroom int
	// Share shares the limit among tenants, which it names for each request as Key names keys: see [guard.Policy].
	Share string
	// Weight is the weight of each tenant, from 1 to 1,000. WeightByPlan has those of the plans of requests, in place of it: "*" is that of
	// every other plan. The default is 1. Without a Share they are an error.
	Weight       int
	WeightByPlan map[string]int
	// Settle gives the real cost of a request, in units by status, or by a name of [Options].Settle. Statuses
	// that it leaves out keep the Cost.
	Settle ByStatus
	// Strike says how many strikes of a Ban the answer was, or that it forgives all. Instead of a function's, the name may be
	// "denials": each denial by another policy is a strike.
	Strike ByStatus
	// TellBan answers with 429 and Retry-After during a ban, in place of 403.
	TellBan bool
	// Unit is the name of its units for clients.
	Unit string
	// Undelayed is how many requests of a shaping limit's queue pass without delay.
	Undelayed int
	// MaxWait is how long a request waits for a place of a [core.Concurrent] limit. The default is 0, which denies it at once. Less than 0
	// is an error, and so is more for another limit. Under a plan with another limit it means nothing.
	MaxWait time.Duration
	// ReserveFor is for how long the Cost is reserved: if the process dies meanwhile, it is given back then. The default is 0, which leaves
	// it charged. Any other time has to be from a millisecond to a day, and needs Settle. With a [core.Concurrent] or [core.Shaping]
	// limit it is an error. Under a plan with such a limit it means nothing.
	ReserveFor time.Duration
	// Shadow only watches.
	Shadow bool
	// Enforced is for how many of a hundred keys the policy is enforced; it is a shadow for the others. A key that is
	// among them stays so when the number grows. The default, 0, is all; for none, there is Shadow.
	Enforced float64
	// OnError is "open", "closed" or "fallback". The default is that of the options.
	OnError string

	at places
}

// Match says which requests meet a policy.
type Match struct {
	// Pattern is one of net/http: "POST api.example.com/orders/{id}". Of all patterns that a request matches, only the most specific
	// one counts.
	Pattern string
	// Header are fields that the request must have, with the values that they must have; "*" is any value but the empty one.
	Header map[string]string
}

// ByStatus are units by the status of the answer, or the name of a function that says them.
type ByStatus struct {
	// Units are by a status, "404", or a class of them, "5xx". The status counts if it is there.
	Units map[string]int
	// Forgive are statuses, or classes of them, that forgive all strikes: of a Strike alone. A file has "forgive" in place of their
	// units.
	Forgive []string
	// Name is that of a function.
	Name string
}

// said reports whether there is anything.
func (b *ByStatus) said() bool { return len(b.Units) > 0 || len(b.Forgive) > 0 || b.Name != "" }

// values returns the units of each status as text, with a word for forgiveness.
func (b *ByStatus) values(forgive string) map[string]string {
	values := make(map[string]string, len(b.Units)+len(b.Forgive))
	for status, units := range b.Units {
		values[status] = strconv.Itoa(units)
	}
	for _, status := range b.Forgive {
		values[status] = forgive
	}
	return values
}

// places are where the fields of something stand in a file, and, under "", where it begins. Nil is nowhere.
type places map[string]tree.Position

// of returns where a field stands, or, if it is not there, where the whole does.
func (p places) of(field string) tree.Position {
	if at, ok := p[field]; ok {
		return at
	}
	return p[""]
}

// nameOf is the place of a name in a section, in words.
func nameOf(section, name string) string { return section + " " + name }

// add adds where the names of a section stand.
func (p places) add(section string, n *tree.Node) {
	for _, key := range n.Keys {
		p[nameOf(section, key.Text)] = key.Position
	}
}

// Error is one thing that is wrong with a document.
type Error struct {
	// Line and Column are where it stands, from 1. They are 0 in a Document that was not read from a text.
	Line, Column int
	// Reason says why the document is wrong, and how to write it.
	Reason string
}

// Error returns the reason, behind the line and the column.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// Errors are all things that are wrong with a document, in its order. There is at least one.
type Errors []*Error

// Error returns all of them, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// addf adds one, unless there are very many.
func (e *Errors) addf(at tree.Position, format string, args ...any) {
	if len(*e) < 100 {
		*e = append(*e, &Error{at.Line, at.Column, fmt.Sprintf(format, args...)})
	}
}

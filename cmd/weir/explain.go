package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

const explainHelp = `Says which policies of a file a request meets, with which keys and costs, and, if a store is named, what would be decided now. It charges
nothing.

The request is a method and a path, or a URL whose host counts. -name gives what functions of the program would return: -name user=42, or
the whole key as in -name tenant=tenant:7. A function that is not given has no key for the request.

   weir explain limits.yaml "POST /orders" -H "X-API-Key: secret" -name user=42 -plan paid -redis redis://localhost:6379

Of a file of weir serve, or a directory of such files, it says which limits the descriptors of a request meet, and by which way. A descriptor has its
entries with commas between them; \, is a comma in a value.

   weir explain limits/ -domain shop tenant=a path=/login,remote_address=1.2.3.4

` + storeHelp + `

Exit codes:
   0  the request would pass, or no store was asked
   1  the file or the store could not be read
   2  the command line makes no sense
   5  the file makes no sense
   6  the request would be denied`

// Explained is the output of weir explain as JSON.
type Explained struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// From is the address of the TCP peer: that of -from, or one that stands for any.
	From string `json:"from"`
	// Asked says whether a store was asked. Without that, nothing is known of Status and the numbers of Policies.
	Asked bool `json:"asked"`
	// Listed is "list-allowed" or "list-denied" if a list has decided. Then there are no Policies.
	Listed string `json:"listed,omitempty"`
	// Status is that of a denial, or 0 if the request would pass.
	Status   int   `json:"status"`
	Policies []Met `json:"policies"`
	// Readings are the ways in which the path may be read. The request meets the policies of all of them, unless a router has found its route.
	Readings []Reading `json:"readings"`
}

// Reading is one way in which the path of the request may be read.
type Reading struct {
	Path  string `json:"path"`
	Match string `json:"match,omitempty"`
}

// Met is a policy that the request meets.
type Met struct {
	Policy string `json:"policy"`
	Limit  string `json:"limit"`
	Key    string `json:"key"`
	Cost   int    `json:"cost"`
	Shadow bool   `json:"shadow,omitempty"`
	// Waived is an alternative that does not count.
	Waived bool `json:"waived,omitempty"`

	Numbers *Numbers `json:"numbers,omitempty"`
}

func explainCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "explain", Usage: "says which policies of a file a request meets, and how it would be decided",
		UsageText: `weir explain [options] limits.yaml "POST /orders"`, Description: explainHelp,
		Flags: storeFlags(
			&cli.StringSliceFlag{Name: "header", Aliases: []string{"H"}, Usage: "a `FIELD` of the request, as in \"X-API-Key: secret\"; repeatable"},
			&cli.StringFlag{Name: "from", Value: "192.0.2.1", Usage: "the `ADDRESS` of the TCP peer, without which it is one that stands for any"},
			&cli.StringSliceFlag{Name: "name", Usage: "`NAME=KEY` that a key function of the program returns; repeatable"},
			&cli.StringFlag{Name: "plan", Usage: "the `PLAN` of the request"},
			&cli.StringFlag{Name: "domain", Usage: "the `DOMAIN` of descriptors, if the files of weir serve have several"},
			&cli.StringSliceFlag{Name: "cost", Usage: "`NAME=UNITS` that a cost function of the program returns, 1 otherwise; repeatable"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() < 2 {
				return usage(`name a file of policies and a request, such as limits.yaml "POST /orders": see weir help explain`)
			}
			settings, limits, text, err := servedLimits(c.Args().First(), stdin)
			switch {
			case err != nil:
				return err
			case limits != nil:
				return explainDescriptors(ctx, c, settings, limits, stdout)
			case c.IsSet("domain"):
				return usage("-domain is for files of weir serve, and this one is of policies")
			case c.Args().Len() != 2:
				return usage("name one request, such as \"POST /orders\"")
			}
			r, err := requestOf(ctx, c.Args().Get(1), c.String("from"), c.StringSlice("header"))
			if err != nil {
				return err
			}
			document, err := parsePolicies(c.Args().First(), text)
			if err != nil {
				return exitError{err, exitInvalid}
			}
			set, err := setOf(c, document)
			if err != nil {
				return err
			}
			if c.String("redis") == "" && os.Getenv("REDIS_URL") == "" {
				return explain(c, core.New(core.NewMemory()), false, set, r, stdout)
			}
			return withStore(c, func(limiter *core.Limiter) error { return explain(c, limiter, true, set, r, stdout) })
		},
	}
}

// requestOf returns the request that the command line describes, as a server would read it.
func requestOf(ctx context.Context, text, peer string, header []string) (*http.Request, error) {
	method, target, found := strings.Cut(text, " ")
	if !found {
		method, target = http.MethodGet, text
	}
	u, err := url.ParseRequestURI(strings.TrimSpace(target))
	if err != nil || !strings.HasPrefix(u.Path, "/") {
		return nil, usage("%q is no request: write a method and a path, such as \"POST /orders\"", text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "/", http.NoBody)
	if err != nil {
		return nil, usage("%q is no request: %w", text, err)
	}
	r.URL, r.Host = u, u.Host
	for _, line := range header {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, usage("-header %q: want a name, a colon and a value", line)
		}
		if value = strings.TrimSpace(value); strings.EqualFold(name, "Host") {
			r.Host = value
		} else {
			r.Header.Add(strings.TrimSpace(name), value)
		}
	}
	from, err := netip.ParseAddr(peer)
	if err != nil {
		return nil, usage("-from %q is no address", peer)
	}
	r.RemoteAddr = netip.AddrPortFrom(from, 1).String()
	return r, nil
}

// setOf returns the set of a document, with functions that return the values of the command line.
func setOf(c *cli.Command, d *policies.Document) (*policies.Set, error) {
	keys, err := pairs(c, "name")
	if err != nil {
		return nil, err
	}
	costs, err := pairs(c, "cost")
	if err != nil {
		return nil, err
	}
	plan := c.String("plan")
	options := policies.Options{
		Keys: make(map[string]keyfuncs.Func), Costs: make(map[string]func(*http.Request) int),
		Settle: make(map[string]func(*http.Request, guard.Served) int),
		Plan:   func(*http.Request) string { return plan },
	}
	needs := d.Needs()
	for _, name := range needs.Keys {
		key := keys[name]
		if name == "user" {
			options.Keys[name] = keyfuncs.User(func(*http.Request) string { return key })
			continue
		}
		options.Keys[name] = func(*http.Request) (string, error) {
			if key == "" {
				return "", keyfuncs.ErrNoKey
			}
			return key, nil
		}
	}
	for _, name := range needs.Costs {
		units := 1
		if text, given := costs[name]; given {
			if units, err = strconv.Atoi(text); err != nil || units < 0 {
				return nil, usage("-cost %s=%s: want a number of at least 0", name, text)
			}
		}
		options.Costs[name] = func(*http.Request) int { return units }
	}
	for _, name := range needs.Settle {
		options.Settle[name] = func(_ *http.Request, s guard.Served) int { return s.Cost }
	}
	return d.Set(options)
}

// pairs returns the values of a flag of the form NAME=VALUE, by name.
func pairs(c *cli.Command, flag string) (map[string]string, error) {
	all := make(map[string]string)
	for _, text := range c.StringSlice(flag) {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, usage("-%s %q: want NAME=VALUE", flag, text)
		}
		all[name] = value
	}
	return all, nil
}

// explain decides about a request, and says why.
func explain(c *cli.Command, limiter *core.Limiter, asked bool, set *policies.Set, r *http.Request, stdout io.Writer) error {
	handle, err := guard.Follow(limiter, guard.Options{}, set)
	if err != nil {
		return err
	}
	event := handle.Explain(r, nil)
	if event.Err != nil {
		return event.Err
	}
	result := explained(r, event, asked)
	for _, reading := range set.Document().Readings(r) {
		result.Readings = append(result.Readings, Reading{Path: reading.Path, Match: reading.Match})
	}
	if c.Bool("json") {
		err = writeJSON(stdout, result)
	} else {
		err = writeExplained(stdout, event, result, c.IsSet("from"))
	}
	if err == nil && asked && result.Status != 0 {
		err = exitError{fmt.Errorf("the request would be denied with status %d", result.Status), exitDenied}
	}
	return err
}

func explained(r *http.Request, e guard.Event, asked bool) Explained {
	result := Explained{Method: r.Method, URL: r.URL.String(), From: peerOf(r), Asked: asked, Policies: []Met{}}
	if e.Listed {
		result.Listed, result.Status = "list-allowed", e.Status
		if e.Status != 0 {
			result.Listed = "list-denied"
		}
	}
	if asked {
		result.Status = e.Status
	}
	for _, o := range e.Outcomes {
		met := Met{Policy: o.Policy, Limit: o.Decision.Limit.String(), Key: o.Key, Cost: o.Cost, Shadow: o.Shadow}
		if asked {
			met.Waived = o.Decision.Waived
			met.Numbers = standingOf(o.Key, o.Shadow, o.Decision).Numbers
		}
		result.Policies = append(result.Policies, met)
	}
	return result
}

// peerOf returns the address of the TCP peer.
func peerOf(r *http.Request) string {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // requestOf has written it
	return peer.Addr().String()
}

// writeExplained writes the explanation for people. from says whether the command line has the address of the peer.
func writeExplained(w io.Writer, e guard.Event, result Explained, from bool) error {
	rows := make([][]string, 0, len(result.Policies))
	for i, met := range result.Policies {
		name := met.Policy
		if met.Shadow {
			name += " (shadow)"
		}
		rows = append(rows, []string{name, met.Limit, printable(met.Key), strconv.Itoa(met.Cost), now(&e.Outcomes[i], result.Asked)})
	}
	if _, err := fmt.Fprintf(w, "%s %s meets %s.\n", result.Method, result.URL, counted(len(rows), "policy", "policies")); err != nil {
		return err
	}
	if len(rows) > 0 {
		if err := writeTable(w, []string{"POLICY", "LIMIT", "KEY", "COST", "NOW"}, rows); err != nil {
			return err
		}
	}
	if !from {
		if _, err := fmt.Fprintf(w, "It comes from %s, since -from names no address.\n", result.From); err != nil {
			return err
		}
	}
	if err := writeReadings(w, result.Readings); err != nil {
		return err
	}
	verdict := "Nothing was asked: name a store by -redis to see what would be decided now."
	switch {
	case result.Listed != "":
		verdict = fmt.Sprintf("A list decides: %s.", result.Listed)
	case result.Asked && result.Status == 0:
		verdict = "It would pass."
	case result.Asked:
		verdict = fmt.Sprintf("It would be denied with status %d.", result.Status)
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// writeReadings writes how the path may be read, if that makes a difference.
func writeReadings(w io.Writer, readings []Reading) error {
	rows := make([][]string, 0, len(readings))
	differ := false
	for _, reading := range readings {
		rows = append(rows, []string{printable(reading.Path), cmp.Or(reading.Match, "(none)")})
		differ = differ || reading.Match != readings[0].Match
	}
	if !differ {
		return nil
	}
	if _, err := fmt.Fprintln(w, "Routers read its path in different ways. Where none has found a route, all of these count:"); err != nil {
		return err
	}
	return writeTable(w, []string{"READ AS", "MATCH"}, rows)
}

// now decides about a request under one policy, as it would be decided now.
func now(o *guard.Outcome, asked bool) string {
	d := &o.Decision
	switch {
	case !asked:
		return "?"
	case d.Waived:
		return "does not count: another alternative does"
	case !d.Allowed:
		return verdict(*d)
	}
	return fmt.Sprintf("%s: %d of %d left", verdict(*d), d.Remaining, d.Limit.Capacity())
}

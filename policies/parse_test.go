package policies

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// whole has every field that there is.
const whole = `# yaml-language-server: $schema=./schema.json
version: 1
limits:
  burst: leaky 20, 5/s
  orders: token-bucket 10, 1/s
  exports: concurrent 2, 30s
  queue: shaping 5, 1/s
plans:
  requests:
    free: sliding-window 1000, 1d
    staff: unlimited
    "*": sliding-window 100, 1d
bans:
  passwords: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d
lists:
  allow: [198.51.100.0/24]
  deny: [203.0.113.9, "key:user:42"]
  address: ip trusted 10.0.0.0/8
  key: user
policies:
  - limit: burst
    key: ip trusted 10.0.0.0/8 192.168.0.0/16
    onError: fallback
  - name: by plan
    limit: requests
    key: user or ip
  - match: POST /orders
    limit: orders
    key: (user or header X-API-Key) and route
    cost: 2
    settle: {5xx: 0, 404: 1}
    reserveFor: 10s
    enforced: 12.5%
  - match:
      - GET /exports/{id}
      - api.example.com/exports/
    limit: exports
    key: global
    maxWait: 5s
  - match:
      - pattern: /batch/
        header: {X-Tier: "1", x-kind: "*"}
    limit: queue
    key: header X-API-Key
    undelayed: 2
    unit: jobs
    headroom: 1
    shadow: true
  - match: POST /login
    ban: passwords
    key: ip
    strike: {401: 1, 2xx: forgive}
    tellBan: true
  - match: /tokens
    key: user
    cost: tokens
    settle: tokens
    firstOf:
      - limit: leaky 10, 1/s
      - limit: gcra 100, 1/s
        key: global
        headroom: 20
`

func TestParse(t *testing.T) {
	d, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if want := core.Leaky(20, core.PerSecond(5)).Named("burst"); d.Limits["burst"] != want {
		t.Errorf("burst is %s, want %s", d.Limits["burst"], want)
	}
	if want := core.SlidingWindow(1000, 24*time.Hour).Named("requests"); d.Plans["requests"]["free"] != want {
		t.Errorf("free is %s, want %s", d.Plans["requests"]["free"], want)
	}
	if d.Plans["requests"]["staff"] != core.Unlimited || d.Bans["passwords"].Limit().Name() != "passwords" {
		t.Errorf("plans %v, bans %v", d.Plans, d.Bans)
	}
	p := d.Policies[4]
	p.at = nil
	want := Policy{
		Match: []Match{{"/batch/", map[string]string{"X-Tier": "1", "X-Kind": "*"}}}, Limit: "queue", Key: "header X-API-Key",
		Undelayed: 2, Unit: "jobs", Headroom: 1, Shadow: true,
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	if got, want := d.Needs(), (Needs{Keys: []string{"user"}, Costs: []string{"tokens"}, Settle: []string{"tokens"}, Plan: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("needs %+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(d.Policies[5].Strike.Forgive, []string{"2xx"}) {
		t.Errorf("strike %+v", d.Policies[5].Strike)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	const limits = "limits: {a: 'leaky 10, 1/s', b: 'leaky 5, 1/s'}\n"
	for text, want := range map[string]string{
		"limits:\n  a: leaky 10":                                                        `line 2, column 6: limit "leaky 10": `,
		"limits:\n  a: b; leaky 1, 1/s":                                                 `line 2, column 6: limit`,
		"limits:\n  a: 'b: leaky 1, 1/s'":                                               `line 2, column 6: the limit has the name "a" already: leave "b:" out of the text`,
		"limits:\n  9a: leaky 1, 1/s":                                                   `line 2, column 7: `,
		"limit:\n  a: leaky 10, 1/s":                                                    `line 1, column 1: the document has no field "limit": write limits if that is meant; want one of version, limits, plans, bans, lists, policies`,
		"policies:\n  - limit: leaky 1, 1/s":                                            `line 2, column 5: it has no key: say which requests count together, as in key: ip, or, behind proxies, key: ip trusted 10.0.0.0/8`,
		"policies:\n  - key: ip":                                                        `line 2, column 5: it says no limit: write limit, ban or firstOf`,
		limits + "policies:\n  - key: ip\n    limit: c":                                 `line 4, column 12: "c" is no name among limits and plans (["a" "b"]), and no limit: `,
		limits + "policies:\n  - key: ip trusted 10.0.0.1/8\n    limit: a":              `line 3, column 10: key "ip trusted 10.0.0.1/8": "10.0.0.1/8": bits set behind the length, want 10.0.0.0/8`,
		limits + "policies:\n  - key: ip\n    limit: a\n  - key: route\n    limit: a\n": `line 6, column 12: "a" is the name of the limit of "a" (line 3), too, which the same requests meet: give one of the two limits another name`,
		limits + "policies:\n  - {key: ip, limit: leaky 1, 1/s}":                        `line 3, column 31: a policy has no field "1/s": want one of name, key, limit, cost, headroom, settle, unit, undelayed, maxWait, reserveFor, match, share, weight, ban, firstOf, strike, tellBan, shadow, enforced, onError; or, if it is part of a text with a comma, put quotes around that`,
		limits + "policies:\n  - match: POST /items/{id}\n    key: ip\n    limit: a\n  - match: /items/new\n    key: ip\n    limit: b":                                             `line 6, column 12: pattern "/items/new" conflicts with pattern "POST /items/{id}": /items/new matches more methods than POST /items/{id}, but has a more specific path pattern`,
		limits + "policies:\n  - match: {header: {A: x}}\n    key: ip\n    limit: a\n  - match: {header: {B: x}}\n    key: ip\n    limit: b":                                       `line 6, column 12: a request can have these headers and those of "a" (line 3), and neither match is more specific: add the headers of the one to the other`,
		limits + "policies:\n  - key: ip\n    limit: a\n    enforced: 0%":                                                                                                          `line 5, column 15: enforced is no share of the keys from above 0% to 100%: write one such as 25%, or shadow: true for none`,
		limits + "policies:\n  - key: ip\n    limit: a\n    maxWait: 1s":                                                                                                           `line 3, column 5: maxWait is 1s, but a: leaky 10, 1/s has no places to wait for: use concurrent, or leave maxWait out`,
		limits + "policies:\n  - key: ip\n    limit: a\n    onError: shut":                                                                                                         `line 5, column 14: onError "shut" is not known: write open, closed or fallback`,
		limits + "policies:\n  - key: ip\n    limit: a\n    settle: {6xx: 1}":                                                                                                      `line 5, column 14: "6xx" is no status: want one such as 404, or a class such as 5xx`,
		"policies:\n  - key: ip\n    limit: concurrent 2, 30s\n    maxWait: 1s\n  - key: ip\n    ban: ban 5, 10m, first 10m, factor 2, longest 7d, forget 8d\n    strike: denials": `line 5, column 5: the same requests meet policies: "concurrent 2, 30s" (line 2) and "ban 5, 10m, first 10m, factor 2, longest 7d, forget 8d" (line 5): policy 1: it has strike: denials beside a policy with maxWait`,
		limits + "policies:\n  - {key: ip, limit: a, on-error: open}":                                                                                                              `line 3, column 25: a policy has no field "on-error": write onError if that is meant; want one of name`,
		limits + "policies:\n  - {key: ip, limit: a, mach: /x}":                                                                                                                    `line 3, column 25: a policy has no field "mach": write match if that is meant; want one of name`,
		"limits: {a: leaky 10, 1/s}": "line 1, column 13: limit \"leaky 10\": want an algorithm, a capacity, a comma and a rate or a window, as in \"leaky 10, 1/s\" or \"fixed-window 100, 1m\"\n" +
			`line 1, column 23: the limit "1/s" is nothing: want a text; or, if it is part of a text with a comma, put quotes around that`,
		limits + "policies:\n  - {key: ip, limit: a, cost: 010}":                                                                           `line 3, column 31: cost is no whole number of at least 0: write it in digits alone, such as 100`,
		limits + "policies:\n  - {key: ip, limit: a, headroom: +5}":                                                                        `line 3, column 35: headroom is no whole number of at least 0`,
		limits + "policies:\n  - {key: ip, limit: a, enforced: 1e1%}":                                                                      `line 3, column 35: enforced is no share of the keys from above 0% to 100%`,
		limits + "policies:\n  - {key: ip, limit: a, enforced: 101%}":                                                                      `line 3, column 35: enforced is no share of the keys from above 0% to 100%`,
		limits + "policies:\n  - {key: ip, limit: a, cost: 11}":                                                                            `line 3, column 31: no request passes: a cost of 11 and a headroom of 0 are more than the 10 that "a" has`,
		limits + "policies:\n  - {key: ip, limit: a, headroom: 10}":                                                                        `line 3, column 35: no request passes: a cost of 1 and a headroom of 10 are more than the 10 that "a" has`,
		limits + "policies:\n  - {key: ip, firstOf: [{limit: a}, {limit: b, cost: 6}]}":                                                    `line 3, column 54: no request passes: a cost of 6 and a headroom of 0 are more than the 5 that "b" has`,
		limits + "policies:\n  - {key: ip, match: /x, limit: 'a: leaky 20, 1/s'}":                                                          `line 3, column 33: "a" is the name of a: leaky 10, 1/s already: write limit: a if that is meant, or give this one another name`,
		"policies:\n  - {key: ip, match: /x, limit: 'c: leaky 20, 1/s'}\n  - {key: ip, match: /y, firstOf: [{limit: 'c: leaky 10, 1/s'}]}": `line 3, column 44: "c" is the name of c: leaky 20, 1/s already`,
		"plans: {p: {'*': 'leaky 10, 1/s'}}\npolicies:\n  - {key: ip, limit: 'p: leaky 10, 1/s'}":                                          `line 3, column 22: "p" is the name of plans already: write limit: p`,
		"bans: {b: 'ban 5, 10m, first 10m, factor 2, longest 7d, forget 8d'}\npolicies:\n  - {key: ip, strike: denials, ban: 'b: ban 4, 10m, first 10m, factor 2, longest 7d, forget 8d'}": `line 3, column 37: "b" is the name of b: ban 5, 10m, `,
		"policies:\n  - {key: ip, ban: b}": `line 2, column 20: "b" is no name among bans ([]), and no ban: write one as in "ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d"`,
		"lists:\n  allow:\n    - 10.0.0.0/8\n    - x\n    - 10.0.0.1/8": "line 4, column 7: allow: \"x\": is no address, no prefix such as 203.0.113.0/24, and no key such as key:user:42\n" +
			`line 5, column 7: allow: "10.0.0.1/8": has bits set behind its length: write 10.0.0.0/8 for the prefix, or 10.0.0.1 for the address alone`,
		"lists:\n  key: user":     `line 2, column 3: lists have neither allow nor deny: write one of them, or leave lists out`,
		"lists:\n  deny: [key:a]": `line 2, column 3: lists have keys: name the key to look up among them, as in key: user`,
		"- a":                     `line 1, column `,
		"version: 2":              `line 1, column 10: version 2 is not known: write version: 1, or leave it out`,
	} {
		_, err := Parse([]byte(text))
		if _, ok := errors.AsType[Errors](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n%v, want\n%s", text, err, want)
		}
	}
}

// All mistakes are told, in the order of the file.
func TestParseTellsAllErrors(t *testing.T) {
	_, err := Parse([]byte("limits:\n  a: x\n  b: y\npolicies:\n  - z: 1\n"))
	found, _ := errors.AsType[Errors](err)
	var lines []int
	for _, one := range found {
		lines = append(lines, one.Line)
	}
	if want := []int{2, 3, 5}; !reflect.DeepEqual(lines, want) {
		t.Errorf("errors in lines %v, want %v: %v", lines, want, err)
	}
}

// What is printed is read as what it was.
func TestPrintedIsRead(t *testing.T) {
	d, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	requireSame(t, d)
	rapid.Check(t, func(t *rapid.T) {
		d := drawDocument(t)
		requireSame(t, d)
	})
}

// fatal is a test or an example of rapid.
type fatal interface {
	Fatalf(format string, args ...any)
}

func requireSame(t fatal, d *Document) {
	text := d.String()
	again, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v of\n%s", err, text)
	}
	if printed := again.String(); printed != text {
		t.Fatalf("printed\n%sand then\n%s", text, printed)
	}
	forget(d)
	forget(again)
	if !reflect.DeepEqual(again, d) { //nolint:govet // a limit has an error, which is the same one
		t.Fatalf("%+v, want %+v, of\n%s", again, d, text)
	}
}

// forget forgets where things stand.
func forget(d *Document) {
	d.at = nil
	d.Lists.at = nil
	for i := range d.Policies {
		d.Policies[i].at = nil
		for j := range d.Policies[i].FirstOf {
			d.Policies[i].FirstOf[j].at = nil
		}
	}
}

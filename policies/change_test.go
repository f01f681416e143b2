package policies

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const ofChanges = `limits:
  burst: leaky 20, 5/s
  orders: token-bucket 10, 1/s
  exports: concurrent 2, 30s
plans:
  requests:
    free: sliding-window 1000, 1d
    staff: unlimited
    "*": sliding-window 100, 1d
bans:
  passwords: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d
lists:
  allow: [198.51.100.0/24]
  deny: [203.0.113.9, 203.0.113.10]
  address: ip trusted 10.0.0.0/8
policies:
  - limit: burst
    key: ip trusted 10.0.0.0/8
  - limit: requests
    key: user or ip
  - match: [POST /orders, "PUT /orders/{id}"]
    limit: orders
    key: user
    cost: 2
    settle: {5xx: 0}
    enforced: 25%
  - match: POST /login
    ban: passwords
    key: ip and user
    strike: {401: 1, 200: forgive}
  - match: POST /login
    limit: concurrent 2, 30s
    key: ip and user
  - match: GET /export
    key: user
    firstOf:
      - limit: exports
      - limit: leaky 1, 1/m
  - match: /old
    limit: leaky 7, 1/m
    key: host
`

func parsed(t *testing.T, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return d
}

// texts returns a change a line.
func texts(all []Change) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(strings.Join([]string{c.Kind, c.Of, c.Name, c.From, c.Was, c.Now, c.State, strings.Join(c.Says, " ")}, "|") + "\n")
	}
	return b.String()
}

func TestNothingChanges(t *testing.T) {
	d := parsed(t, ofChanges)
	for name, now := range map[string]*Document{
		"itself": d, "as it is printed": parsed(t, d.String()),
		"in another order": parsed(t, strings.NewReplacer(`[POST /orders, "PUT /orders/{id}"]`, `["PUT /orders/{id}", POST /orders]`,
			"[203.0.113.9, 203.0.113.10]", "[203.0.113.10, 203.0.113.9]").Replace(ofChanges)),
		"with what holds anyway": parsed(t, strings.ReplaceAll(ofChanges, "- limit: burst\n", "- limit: burst\n    cost: 1\n    enforced: 100%\n")),
	} {
		if all := Between(d, now); len(all) > 0 {
			t.Errorf("%s: %s", name, texts(all))
		}
	}
}

// behind stands in front of what comes behind a document.
const behind = "<at the end>"

// using returns what adds a policy that uses a limit.
func using(limit string) string {
	return behind + "  - match: /" + limit + "\n    limit: " + limit + "\n    key: ip\n"
}

// Each line of the document that changes is told, and nothing else.
func TestEachChange(t *testing.T) {
	const kept = "The units used are kept."
	for _, c := range []struct {
		from, to string
		want     []string // parts of each change, with a | between fields
	}{
		{"burst: leaky 20, 5/s", "burst: leaky 10, 5/s", []string{"changed|limit|burst||leaky 20, 5/s|leaky 10, 5/s|kept|" + kept + " Used by: burst (all requests)."}},
		{"burst: leaky 20, 5/s", "burst: gcra 20, 5/s", []string{"changed|limit|burst||leaky 20, 5/s|gcra 20, 5/s|anew|It is another algorithm"}},
		{"burst: leaky 20, 5/s", "burst: unlimited", []string{"changed|limit|burst||leaky 20, 5/s|unlimited||It limits no request any more."}},
		{"burst: leaky 20, 5/s", "burst: leaky 20, 5/s\n  more: leaky 1, 1/s" + using("more"), []string{"added|limit|more|||leaky 1, 1/s|anew|Used by: more (/more).", "added|policy|more (/more)"}},
		{"burst: leaky 20, 5/s", "burst: leaky 20, 5/s\n  again: leaky 20, 5/s" + using("again"), []string{"added|limit|again|", "added|policy|again (/again)"}},
		{"    free: sliding-window 1000, 1d", "    free: sliding-window 10, 1d", []string{"changed|plan|requests, free||sliding-window 1000, 1d|sliding-window 10, 1d|kept"}},
		{"    free: sliding-window 1000, 1d\n", "", []string{`removed|plan|requests, free||sliding-window 1000, 1d|||Requests of this plan meet "*" now: sliding-window 100, 1d.`}},
		{"    free: sliding-window 1000, 1d\n", "    paid: sliding-window 9, 1d\n", []string{"removed|plan|requests, free|", "added|plan|requests, paid|||sliding-window 9, 1d|kept|It counts on"}},
		{"    free: sliding", "    basic: sliding", []string{"renamed|plan|requests, basic|requests, free|sliding-window 1000, 1d|sliding-window 1000, 1d|kept|" + kept}},
		{"staff: unlimited", "staff: sliding-window 7, 1d", []string{"changed|plan|requests, staff||unlimited|sliding-window 7, 1d|kept|It limited no request before."}},
		{"ban 5, 10m", "ban 6, 10m", []string{"changed|ban|passwords||ban 5, 10m"}},
		{"[198.51.100.0/24]", "[198.51.100.0/25]", []string{"added|list|allow|||198.51.100.0/25||It passes", "removed|list|allow||198.51.100.0/24|||It meets"}},
		{"203.0.113.9, ", "", []string{"removed|list|deny||203.0.113.9|"}},
		{"  address: ip trusted 10.0.0.0/8\n", "", []string{"changed|list|address||ip trusted 10.0.0.0/8|the TCP peer"}},
		{"    cost: 2\n", "", []string{"changed|policy|orders (POST /orders or PUT /orders/{id})||||" + "|A request costs 1 instead of 2."}},
		{"{5xx: 0}", "{5xx: 1}", []string{"Its real cost is 1 for 5xx instead of 0 for 5xx."}},
		{"{401: 1, 200: forgive}", "{401: 1}", []string{"Its strikes are 1 for 401 instead of forgiveness for 200, 1 for 401."}},
		{"enforced: 25%", "enforced: 50%", []string{"It is enforced for 50% of the keys instead of 25%. Keys for which it was a shadow start anew"}},
		{"enforced: 25%", "enforced: 5%", []string{"It is enforced for 5% of the keys instead of 25%. The other keys are only watched."}},
		{"    enforced: 25%\n", "", []string{"It is enforced for 100% of the keys instead of 25%. Keys for"}},
		{"enforced: 25%", "shadow: true", []string{"It is a shadow now, which denies no request."}},
		{"- limit: leaky 1, 1/m", "- limit: leaky 2, 1/m", []string{"Its alternatives are exports, or else leaky 2, 1/m instead of exports, or else leaky 1, 1/m."}},
		{"match: GET /export", "match: /export", []string{"changed|policy|first of exports (/export)|||||It is met by /export instead of GET /export."}},
		{"  - match: /old\n    limit: leaky 7, 1/m\n    key: host\n", "", []string{"removed|policy|leaky 7, 1/m (/old)||leaky 7, 1/m, key host"}},
		{"policies:\n", "policies:\n  - match: /new\n    limit: leaky 3, 1/s\n    key: ip\n    shadow: true\n", []string{"added|policy|leaky 3, 1/s (/new)|||leaky 3, 1/s, key ip, shadow"}},
		{"    enforced: 25%", "    name: carts\n    enforced: 25%", []string{"renamed|policy|carts (POST /orders or PUT /orders/{id})|orders||||Its name decides for which keys it is enforced"}},
		{
			"  - limit: burst\n    key: ip trusted 10.0.0.0/8\n  - limit: requests\n    key: user or ip\n", "  - limit: requests\n    key: user or ip\n  - limit: burst\n    key: ip trusted 10.0.0.0/8\n",
			[]string{"changed|order|policies|"},
		},
		{"- limit: burst", "- limit: leaky 20, 5/s" + using("burst"), []string{"Its limit is leaky 20, 5/s instead of burst. It starts anew", "added|policy|burst (/burst)"}},
		{"- limit: burst", "- limit: unlimited" + using("burst"), []string{"There was no limit, or there is none any more.", "added|policy|burst (/burst)"}},
	} {
		to, more, _ := strings.Cut(c.to, behind)
		now := strings.Replace(ofChanges, c.from, to, 1) + more
		all := Between(parsed(t, ofChanges), parsed(t, now))
		got := texts(all)
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%q to %q: %d changes, want %d:\n%s", c.from, c.to, len(lines), len(c.want), got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%q to %q:\n%s, want\n%s", c.from, c.to, lines[i], want)
			}
		}
	}
}

// A limit with another name starts anew, and with it the policy that names it.
func TestRenamedLimit(t *testing.T) {
	got := texts(Between(parsed(t, ofChanges), parsed(t, strings.NewReplacer("orders: token", "carts: token", "limit: orders", "limit: carts").Replace(ofChanges))))
	for _, want := range []string{
		"renamed|limit|carts|orders|token-bucket 10, 1/s|token-bucket 10, 1/s|anew|A limit is known by its name. It starts anew",
		"changed|policy|carts (POST /orders or PUT /orders/{id})|||||Its limit is carts instead of orders. ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Of a limit that leaves shadow, or becomes one, nothing that was used is kept, whatever else changes.
func TestShadowThatChanges(t *testing.T) {
	const was = "limits: {a: 'leaky 10, 1/s', b: 'leaky 20, 1/s'}\npolicies:\n  - {key: ip, limit: a, shadow: true}\n  - {key: host, limit: b}\n"
	both := strings.NewReplacer("a: 'leaky 10", "a: 'leaky 5", ", shadow: true", "")
	const apart = "changed|limit|a||leaky 10, 1/s|leaky 5, 1/s|anew|It starts anew, since a shadow counts apart. Used by: a (all requests)."
	for from, to := range map[string]string{was: both.Replace(was), strings.ReplaceAll(was, ", shadow: true", ""): strings.ReplaceAll(was, "a: 'leaky 10", "a: 'leaky 5")} {
		got := texts(Between(parsed(t, from), parsed(t, to)))
		if !strings.Contains(got, apart) || strings.Contains(got, keptSays) || strings.Count(got, "A shadow counts apart") != 1 {
			t.Error(got)
		}
	}
	const shared = "limits: {a: 'leaky 10, 1/s'}\npolicies:\n  - {key: ip, limit: a, match: GET /x}\n  - {key: ip, limit: a, shadow: true, match: POST /x}\n"
	tighter := func(text string) string { return strings.ReplaceAll(text, "leaky 10", "leaky 5") }
	for name, c := range map[string]struct{ from, to string }{
		"a shadow that stays one":  {was, tighter(was)},
		"one that leaves in part":  {was, tighter(strings.ReplaceAll(was, "shadow: true", "enforced: 50%"))},
		"one of two that share it": {shared, tighter(strings.ReplaceAll(shared, "shadow: true, ", ""))},
	} {
		if got := texts(Between(parsed(t, c.from), parsed(t, c.to))); !strings.Contains(got, "|kept|"+keptSays) {
			t.Errorf("%s: %s", name, got)
		}
	}
	moved := texts(Between(parsed(t, was), parsed(t, strings.NewReplacer("limit: a, shadow: true", "limit: 'a: leaky 5, 1/s'", "a: 'leaky 10, 1/s', ", "").Replace(was))))
	if strings.Contains(moved, keptSays) {
		t.Error(moved)
	}
}

// No field of a policy is forgotten.
func TestAllFields(t *testing.T) {
	values := map[string]any{
		"Name": "a", "Match": []Match{{Pattern: "/"}}, "Key": "ip", "Limit": "leaky 1, 1/s", "Ban": "b", "FirstOf": []Policy{{Limit: "x"}},
		"Cost": "2", "Headroom": 1, "Share": "header X-Tenant", "Weight": 2, "WeightByPlan": map[string]int{"pro": 3, "*": 1}, "Settle": ByStatus{Name: "f"}, "Strike": ByStatus{Units: map[string]int{"404": 1}}, "TellBan": true,
		"Unit": "jobs", "Undelayed": 1, "MaxWait": 10 * time.Second, "ReserveFor": 10 * time.Second, "Shadow": true, "Enforced": 10.0, "OnError": "open",
	}
	of := reflect.TypeFor[Policy]()
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() {
			continue
		}
		var p Policy
		reflect.ValueOf(&p).Elem().Field(i).Set(reflect.ValueOf(values[f.Name]))
		says := differences(&Policy{}, &p)
		if f.Name == "Name" != (len(says) == 0) || strings.Contains(strings.Join(says, ""), "  ") {
			t.Errorf("%s: %q", f.Name, says)
		}
		if back := differences(&p, &Policy{}); len(back) != len(says) {
			t.Errorf("%s, back: %q", f.Name, back)
		}
	}
}

// Whatever documents say: nothing changes to itself, and what changes one way changes back.
func FuzzBetween(f *testing.F) {
	f.Add([]byte(ofChanges), []byte("limitsNothing: true\n"))
	f.Add([]byte(ofChanges), []byte(strings.ReplaceAll(ofChanges, "limit: burst", "limit: leaky 1, 1/s")))
	f.Fuzz(func(t *testing.T, one, other []byte) {
		a, err := Parse(one)
		if err != nil {
			return
		}
		b, err := Parse(other)
		if err != nil {
			b = &Document{}
		}
		if all := Between(a, a); len(all) > 0 {
			t.Errorf("to itself: %s", texts(all))
		}
		if there, back := len(Between(a, b)), len(Between(b, a)); (there == 0) != (back == 0) {
			t.Errorf("%d changes, and %d back", there, back)
		}
		if a.String() == b.String() && len(Between(a, b)) > 0 {
			t.Errorf("the same text: %s", texts(Between(a, b)))
		}
	})
}

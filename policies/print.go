package policies

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// String returns the document as YAML, which [Parse] reads back. Comments are not kept.
func (d *Document) String() string {
	w := new(printer)
	if len(d.Limits) > 0 {
		w.line(0, "limits:")
		for _, name := range sorted(d.Limits) {
			w.pair(1, name, unnamed(d.Limits[name].String(), name))
		}
	}
	if len(d.Plans) > 0 {
		w.line(0, "plans:")
		for _, name := range sorted(d.Plans) {
			w.line(1, quoted(name)+":")
			for _, plan := range sorted(d.Plans[name]) {
				w.pair(2, plan, unnamed(d.Plans[name][plan].String(), name))
			}
		}
	}
	if len(d.Bans) > 0 {
		w.line(0, "bans:")
		for _, name := range sorted(d.Bans) {
			w.pair(1, name, unnamed(d.Bans[name].String(), name))
		}
	}
	w.lists(&d.Lists)
	w.policies(0, "policies", d.Policies)
	if d.LimitsNothing {
		w.line(0, "limitsNothing: true")
	}
	if w.Len() == 0 {
		return "policies: []\n"
	}
	return w.String()
}

// unnamed returns the text of a limit without the name in front.
func unnamed(text, name string) string { return strings.TrimPrefix(text, name+": ") }

// printer writes YAML.
type printer struct{ bytes.Buffer }

func (w *printer) line(indent int, text string) {
	_, _ = w.WriteString(strings.Repeat("  ", indent) + text + "\n")
}

// pair writes a text behind its name.
func (w *printer) pair(indent int, name, value string) {
	w.line(indent, quoted(name)+": "+quoted(value))
}

// plain matches text that needs no quotes in YAML, unless it is a word with a meaning of its own.
var plain = regexp.MustCompile(`^[A-Za-z(/][A-Za-z0-9 ()/{}.,_+@$-]*$`)

// quoted returns a text as YAML has it.
func quoted(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plain.MatchString(text) && !strings.HasSuffix(text, " ") {
			return text
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string never fails
	return strings.TrimSuffix(b.String(), "\n")
}

func (w *printer) lists(l *Lists) {
	if len(l.Allow)+len(l.Deny) == 0 && l.Address == "" && l.Key == "" {
		return
	}
	w.line(0, "lists:")
	for _, list := range []struct {
		name    string
		entries []string
	}{{"allow", l.Allow}, {"deny", l.Deny}} {
		if len(list.entries) > 0 {
			w.line(1, list.name+":")
			for _, entry := range list.entries {
				w.line(2, "- "+quoted(entry))
			}
		}
	}
	if l.Address != "" {
		w.pair(1, "address", l.Address)
	}
	if l.Key != "" {
		w.pair(1, "key", l.Key)
	}
}

// policies writes a list of policies.
func (w *printer) policies(indent int, name string, all []Policy) {
	if len(all) == 0 {
		return
	}
	w.line(indent, name+":")
	for i := range all {
		one := new(printer)
		one.policy(&all[i])
		for n, line := range strings.Split(strings.TrimSuffix(one.String(), "\n"), "\n") {
			if n == 0 {
				w.line(indent+1, "- "+line)
			} else {
				w.line(indent+2, line)
			}
		}
	}
}

func (w *printer) policy(p *Policy) {
	text := func(name, value string) {
		if value != "" {
			w.pair(0, name, value)
		}
	}
	number := func(name string, value int) {
		if value != 0 {
			w.line(0, name+": "+strconv.Itoa(value))
		}
	}
	flag := func(name string, value bool) {
		if value {
			w.line(0, name+": true")
		}
	}
	text("name", p.Name)
	w.matches(p.Match)
	text("key", p.Key)
	text("limit", p.Limit)
	text("ban", p.Ban)
	w.policies(0, "firstOf", p.FirstOf)
	if n, err := strconv.Atoi(p.Cost); err == nil {
		w.line(0, "cost: "+strconv.Itoa(n))
	} else {
		text("cost", p.Cost)
	}
	number("headroom", p.Headroom)
	text("share", p.Share)
	number("weight", p.Weight)
	if len(p.WeightByPlan) > 0 {
		w.line(0, "weight:")
		for _, plan := range sorted(p.WeightByPlan) {
			w.line(1, quoted(plan)+": "+strconv.Itoa(p.WeightByPlan[plan]))
		}
	}
	w.byStatus("settle", p.Settle)
	w.byStatus("strike", p.Strike)
	flag("tellBan", p.TellBan)
	text("unit", p.Unit)
	number("undelayed", p.Undelayed)
	if p.MaxWait != 0 {
		w.line(0, "maxWait: "+p.MaxWait.String())
	}
	if p.ReserveFor != 0 {
		w.line(0, "reserveFor: "+p.ReserveFor.String())
	}
	flag("shadow", p.Shadow)
	if p.Enforced != 0 {
		w.line(0, "enforced: "+strconv.FormatFloat(p.Enforced, 'f', -1, 64)+"%")
	}
	text("onError", p.OnError)
	if w.Len() == 0 {
		w.line(0, "{}")
	}
}

func (w *printer) matches(all []Match) {
	if len(all) == 1 && len(all[0].Header) == 0 {
		w.pair(0, "match", all[0].Pattern)
		return
	}
	if len(all) == 0 {
		return
	}
	w.line(0, "match:")
	for _, m := range all {
		if len(m.Header) == 0 {
			w.line(1, "- "+quoted(m.Pattern))
			continue
		}
		w.line(1, "- pattern: "+quoted(m.Pattern))
		w.line(2, "header:")
		for _, name := range sorted(m.Header) {
			w.pair(3, name, m.Header[name])
		}
	}
}

func (w *printer) byStatus(name string, b ByStatus) {
	if b.Name != "" {
		w.pair(0, name, b.Name)
	}
	values := b.values("forgive")
	if len(values) == 0 {
		return
	}
	w.line(0, name+":")
	for _, status := range sorted(values) {
		w.line(1, quoted(status)+": "+values[status])
	}
}

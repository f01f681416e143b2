package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/policies"
)

// examineDebt finds the policies of a file that may settle requests at more than was reserved, under limits that could have debt and have none.
func examineDebt(d *policies.Document) (findings doctor.Report) {
	for i := range d.Policies {
		p := &d.Policies[i]
		for _, one := range append([]policies.Policy{*p}, p.FirstOf...) {
			if len(one.Settle.Units) == 0 && one.Settle.Name == "" {
				one.Settle = p.Settle
			}
			if one.Cost == "" {
				one.Cost = p.Cost
			}
			if limit := forgiving(d, one.Limit); limit != nil && settlesAbove(&one) {
				findings = append(findings, doctor.Finding{
					Name: "debt", Severity: doctor.Notice,
					Found:   fmt.Sprintf("%s may settle at more than it reserves, under %s, which has no debt", p.Title(), limit),
					Meaning: "What a request has cost beyond what was left is forgiven: who declares too little gets more than the limit.",
					Advice:  "Give the limit a debt, such as \", debt 100\", or reserve as much as a request can cost.",
				})
			}
		}
	}
	if len(findings) == 0 {
		findings = doctor.Report{{Name: "debt", Severity: doctor.OK, Found: "no policy settles at more than it reserves, under a limit that forgives it"}}
	}
	return findings
}

// settlesAbove reports whether a request may have cost more than was reserved for it. A function may say any cost.
func settlesAbove(p *policies.Policy) bool {
	reserved := 1
	if p.Cost != "" {
		var err error
		if reserved, err = strconv.Atoi(p.Cost); err != nil {
			reserved = 0 // a function says it: perhaps less than any cost
		}
	}
	for _, units := range p.Settle.Units {
		if units > reserved {
			return true
		}
	}
	return p.Settle.Name != ""
}

// forgiving returns a limit of a name or a text that could have debt and has none, or nil.
func forgiving(d *policies.Document, name string) core.Limit {
	if name == "" {
		return nil
	}
	limits := []core.Limit{d.Limits[name]}
	if plans, planned := d.Plans[name]; planned {
		limits = limits[:0]
		for _, plan := range slices.Sorted(maps.Keys(plans)) {
			limits = append(limits, plans[plan])
		}
	} else if limits[0] == nil {
		limits[0], _ = core.ParseLimit(name) // the file makes sense
	}
	for _, limit := range limits {
		if quota, counts := limit.(core.Quota); counts && quota != core.Unlimited && quota.Debt() == 0 && quota.WithDebt(1).Validate() == nil {
			return quota
		}
	}
	return nil
}

package descriptors

import (
	"maps"
	"testing"
)

// TestMetricNames compares names with those that the reference makes of the same files.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	c, err := Parse([]File{{Name: "shop.yaml", Text: []byte(`
domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: tenant, value: partner, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: path, value: "/a*", rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: shared, value: "f*", share_threshold: true, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: star, value: "f*", value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: open, value_to_metric: true, descriptors: [{key: sub, rate_limit: {unit: day, requests_per_unit: 5}}]}
  - {key: full, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - key: a
    descriptors: [{key: b, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}]
  - key: g
    value: "h*"
    share_threshold: true
    descriptors: [{key: b, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}]
`)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	static := maps.Collect(c.Metrics())
	for _, test := range []struct {
		entries []Entry
		want    string
		byValue bool
	}{
		{entries("tenant=x"), "shop.tenant", false},
		{entries("tenant=partner"), "shop.tenant_partner", false},
		{entries("path=/abc"), "shop.path_/a*", false},
		{entries("shared=foo"), "shop.shared_f*", true},
		{entries("star=foo"), "shop.star_foo", true},
		{entries("open=1", "sub=2"), "shop.open_1.sub", true},
		{entries("full=1"), "shop.full_1", true},
		{entries("full="), "shop.full_", true},
		{entries("a=1", "b=2"), "shop.a_1.b_2", true},
		{entries("g=hi", "b=2"), "shop.g_h*.b_2", true},
		{entries("g=hi", "b="), "shop.g_h*.b", true},
	} {
		limit, _ := c.Find("shop", test.entries)
		if limit == nil {
			t.Fatalf("%v has no limit", test.entries)
		}
		if got := string(c.AppendMetric(nil, "shop", test.entries)); got != test.want {
			t.Errorf("%v is counted as %q, want %q", test.entries, got, test.want)
		}
		name, own := static[limit]
		if own == test.byValue || own && name != test.want {
			t.Errorf("the limit of %v has the name %q, want %q unless by value (%t)", test.entries, name, test.want, test.byValue)
		}
	}
	if got, want := string(AppendOverrideMetric(nil, "shop", entries("a=1", "b=", "c=3"))), "shop.a_1.b.c_3"; got != want {
		t.Errorf("an override is counted as %q, want %q", got, want)
	}
}

package descriptors

import (
	"strings"
	"testing"
)

// A limit of requests in progress has places, for the unit or another lease.
func TestPlaces(t *testing.T) {
	for numbers, want := range map[string]string{
		"unit: minute, requests_per_unit: 20":                     "20 at once; at-once: concurrent 20, 1m",
		"unit: second, requests_per_unit: 20, lease: 90s":         "20 at once; at-once: concurrent 20, 1m30s",
		"unit: minute, requests_per_unit: 0":                      "no request passes",
		"unit: hour, requests_per_unit: 20":                       "lease is not from 10ms to 10m0s",
		"unit: hour, requests_per_unit: 20, lease: soon":          `the lease "soon" is no time, such as 90s`,
		"unit: minute, requests_per_unit: 20, burst: 3":           "burst is for the algorithms gcra, leaky, token_bucket",
		"unit: minute, requests_per_unit: 20, time_zone: UTC":     "time_zone is for limits without an algorithm",
		"unit: minute, requests_per_unit: 4000000000":             "places for each key are more than",
		"unit: minute, requests_per_unit: 20, lease: 1m, x: none": `unknown key "x"`,
	} {
		file := "domain: d\ndescriptors: [{key: k, rate_limit: {algorithm: concurrent, " + numbers + "}}]"
		config, err := Parse([]File{{Name: "f", Text: []byte(file)}}, Options{})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(config.Describe(), "\n")
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", numbers, got, want)
		}
	}
	if _, err := Parse([]File{{Name: "f", Text: []byte("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 2, lease: 1m}}]")}}, Options{}); err == nil {
		t.Error("a lease without the algorithm concurrent is no error")
	}
}

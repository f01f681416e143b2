package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// window is what the tests take for Grafana's $__rate_interval.
const window = "4s"

// labelValues is how Grafana asks for the values of a label: the selector, and the label.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

var promql = parser.NewParser(parser.Options{})

// dashboardQueries returns the queries of the dashboard's panels, by their titles, with
// its variables filled in, and those of the variables.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", window, "$job", ".*", "$policy", ".*")
	queries := make(map[string][]string)
	for _, panel := range dashboard.Panels {
		if panel.Type == "row" {
			continue
		}
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], variables.Replace(target.Expr))
		}
		if len(panel.Targets) == 0 {
			t.Errorf("the panel %q asks nothing", panel.Title)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(variables.Replace(variable.Definition))
		if parts == nil {
			t.Fatalf("the variable %s is made of %q, want label_values", variable.Name, variable.Definition)
		}
		queries["variable "+variable.Name] = []string{fmt.Sprintf("group by (%s) (%s)", parts[2], parts[1])}
	}
	if len(queries) < 10 {
		t.Fatalf("%d panels are too few", len(queries))
	}
	return queries
}

// alertQueries returns the expressions of the alert rules, by their names.
func alertQueries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	queries := make(map[string][]string)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			queries[rule.Alert] = []string{rule.Expr}
		}
	}
	if len(queries) < 3 {
		t.Fatalf("%d alerts are too few", len(queries))
	}
	return queries
}

// series is one that the service exports.
type series = map[string]string

// exported returns all series of the metrics endpoint.
func exported(t *testing.T, url string) []series {
	t.Helper()
	_, text := get(t, url+"/metrics")
	scrape := expfmt.NewTextParser(model.UTF8Validation)
	families, err := scrape.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []series
	for name, family := range families {
		suffixes := []string{""}
		if family.GetType() == dto.MetricType_HISTOGRAM {
			suffixes = []string{"_bucket", "_sum", "_count"}
		}
		for _, metric := range family.GetMetric() {
			for _, suffix := range suffixes {
				s := series{model.MetricNameLabel: name + suffix, "job": "observability"}
				for _, label := range metric.GetLabel() {
					s[label.GetName()] = label.GetValue()
				}
				if suffix == "_bucket" {
					s["le"] = "+Inf"
				}
				list = append(list, s)
			}
		}
	}
	return list
}

// missing returns what a query asks for that is not exported: selectors that match
// nothing, and labels by which it groups that nothing it selects has.
func missing(t *testing.T, query string, all []series) (complaints []string) {
	t.Helper()
	expression, err := promql.ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			if len(matching(node.LabelMatchers, all)) == 0 {
				complaints = append(complaints, query+": nothing is "+node.String())
			}
		case *parser.AggregateExpr:
			for _, label := range node.Grouping {
				if !has(node.Expr, label, all) {
					complaints = append(complaints, query+": nothing has the label "+label)
				}
			}
		}
		return nil
	})
	return complaints
}

// matching returns the series that matchers select.
func matching(matchers []*labels.Matcher, all []series) (list []series) {
	for _, s := range all {
		matches := true
		for _, m := range matchers {
			matches = matches && m.Matches(s[m.Name])
		}
		if matches {
			list = append(list, s)
		}
	}
	return list
}

// has reports whether something that an expression selects has a label.
func has(expression parser.Expr, label string, all []series) (found bool) {
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			for _, s := range matching(selector.LabelMatchers, all) {
				found = found || s[label] != ""
			}
		}
		return nil
	})
	return found
}

// Every metric, label and label's value in the dashboard and in the alert rules is one
// that the service really exports, under load and in an outage.
func TestQueriesAskForWhatIsExported(t *testing.T) {
	server, store := underLoad(t)
	var queries []string
	for _, list := range []map[string][]string{dashboardQueries(t), alertQueries(t)} {
		for _, some := range list {
			queries = append(queries, some...)
		}
	}
	poll(t, func() string { // so that there is something to settle and to repeat
		for _, name := range []string{"ratelimit_denial_cache_hits_total", "ratelimit_settlement_size_sum"} {
			if c := missing(t, name, exported(t, server.URL)); c != nil {
				return c[0]
			}
		}
		return ""
	})
	store.Stop(t)
	poll(t, func() string {
		var complaints []string
		all := exported(t, server.URL)
		for _, query := range queries {
			complaints = append(complaints, missing(t, query, all)...)
		}
		return strings.Join(complaints, "\n")
	})

	all := exported(t, server.URL)
	for _, wrong := range []string{
		`ratelimit_decision_total`,
		`ratelimit_decisions_total{ratelimit_outcome="refused"}`,
		`sum by (policy) (ratelimit_decisions_total)`,
	} {
		if missing(t, wrong, all) == nil {
			t.Errorf("nothing is wrong with %s", wrong)
		}
	}
}

// No client, and no key, has become a label.
func TestMetricsTellOfNoClient(t *testing.T) {
	server, _ := underLoad(t)
	poll(t, func() string {
		return strings.Join(missing(t, "ratelimit_near_limit_total", exported(t, server.URL)), "")
	})
	for _, s := range exported(t, server.URL) {
		for label, value := range s {
			if strings.Contains(strings.ToLower(value), "client") || strings.Contains(value, "header:") || strings.Contains(value, "/items") {
				t.Errorf("%s has %s=%q", s[model.MetricNameLabel], label, value)
			}
		}
	}
}

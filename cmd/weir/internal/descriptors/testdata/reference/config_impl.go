// This file takes the place of src/config/config_impl.go of github.com/envoyproxy/ratelimit when its tests are run: the descriptors are read, and their
// limits found, by a process of ours, which ANSWERS_PROGRAM names.

package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	pb_struct "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/context"
	"gopkg.in/yaml.v2"

	"github.com/envoyproxy/ratelimit/src/stats"
)

type yamlReplaces struct{ Name string }

type YamlRateLimit struct {
	RequestsPerUnit uint32         `yaml:"requests_per_unit"`
	Unit            string         `yaml:"unit,omitempty"`
	Unlimited       bool           `yaml:"unlimited,omitempty"`
	Name            string         `yaml:"name,omitempty"`
	Replaces        []yamlReplaces `yaml:"replaces,omitempty"`
}

type YamlDescriptor struct {
	Key            string           `yaml:"key"`
	Value          string           `yaml:"value,omitempty"`
	RateLimit      *YamlRateLimit   `yaml:"rate_limit,omitempty"`
	Descriptors    []YamlDescriptor `yaml:"descriptors,omitempty"`
	ShadowMode     bool             `yaml:"shadow_mode,omitempty"`
	QuotaMode      bool             `yaml:"quota_mode,omitempty"`
	DetailedMetric bool             `yaml:"detailed_metric,omitempty"`
	ValueToMetric  bool             `yaml:"value_to_metric,omitempty"`
	ShareThreshold bool             `yaml:"share_threshold,omitempty"`
}

type YamlRoot struct {
	Domain      string           `yaml:"domain"`
	Descriptors []YamlDescriptor `yaml:"descriptors,omitempty"`

	text string // of the file from which it comes
}

// ConfigFileContentToYaml keeps the text of a file: ours reads it.
func ConfigFileContentToYaml(_, content string) *YamlRoot { return &YamlRoot{text: content} }

func NewRateLimit(
	requests uint32, unit pb.RateLimitResponse_RateLimit_Unit, rlStats stats.RateLimitStats, unlimited, shadow, quota bool, name string, replaces []string,
	detailed bool,
) *RateLimit {
	return &RateLimit{
		FullKey: rlStats.GetKey(), Stats: rlStats, Limit: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: requests, Unit: unit, Name: name},
		Unlimited: unlimited, ShadowMode: shadow, QuotaMode: quota, Name: name, Replaces: replaces, DetailedMetric: detailed,
	}
}

// loader loads configurations of ours.
type loader struct{}

func NewRateLimitConfigLoaderImpl() RateLimitConfigLoader { return loader{} }

func (loader) Load(configs []RateLimitConfigToLoad, manager stats.Manager, merge bool) RateLimitConfig {
	return NewRateLimitConfigImpl(configs, manager, merge)
}

// loaded is a configuration that a process of ours has read. The process ends with this one.
type loaded struct {
	manager stats.Manager
	ask     *json.Encoder
	answers *bufio.Scanner
	empty   bool
	dump    string
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// NewRateLimitConfigImpl has the files read, and panics with the reference's words for the first mistake of ours.
func NewRateLimitConfigImpl(configs []RateLimitConfigToLoad, manager stats.Manager, merge bool) RateLimitConfig {
	process := exec.Command(os.Getenv("ANSWERS_PROGRAM"))
	process.Stderr = os.Stderr
	questions, err := process.StdinPipe()
	must(err)
	answers, err := process.StdoutPipe()
	must(err)
	must(process.Start())
	c := &loaded{manager: manager, ask: json.NewEncoder(questions), answers: bufio.NewScanner(answers)}
	type file struct{ Name, Text string }
	var files []file
	for _, one := range configs {
		text := one.ConfigYaml.text
		if text == "" {
			written, err := yaml.Marshal(one.ConfigYaml)
			must(err)
			text = string(written)
		}
		files = append(files, file{one.Name, text})
	}
	var answer struct {
		Mistake *mistake
		Empty   bool
		Dump    string
	}
	c.answer(map[string]any{"Files": files, "Merge": merge}, &answer)
	c.empty, c.dump = answer.Empty, answer.Dump
	if m := answer.Mistake; m != nil {
		for _, f := range files {
			if f.Name == m.File {
				panic(RateLimitConfigError(m.File + ": " + m.inTheirWords(f.Text)))
			}
		}
	}
	return c
}

func (c *loaded) answer(question, answer any) {
	must(c.ask.Encode(question))
	if !c.answers.Scan() {
		panic(fmt.Sprintf("the process of ours has ended: %v", c.answers.Err()))
	}
	must(json.Unmarshal(c.answers.Bytes(), answer))
}

func (c *loaded) Dump() string         { return c.dump }
func (c *loaded) IsEmptyDomains() bool { return c.empty }

func (c *loaded) GetLimit(_ context.Context, domain string, descriptor *pb_struct.RateLimitDescriptor) *RateLimit {
	question := struct {
		Domain   string
		Entries  [][2]string
		Requests *uint32
		Unit     string
	}{Domain: domain}
	for _, e := range descriptor.GetEntries() {
		question.Entries = append(question.Entries, [2]string{e.GetKey(), e.GetValue()})
	}
	if own := descriptor.GetLimit(); own != nil {
		question.Requests, question.Unit = &own.RequestsPerUnit, own.GetUnit().String()
	}
	var a struct {
		Unknown, Found                     bool
		Metric                             string
		Requests                           uint32
		Unit, Name                         string
		Replaces, Shared                   []string
		Unlimited, Shadow, Quota, Detailed bool
	}
	c.answer(question, &a)
	if a.Unknown {
		c.manager.NewDomainStats(domain).NotFound.Inc()
	}
	if !a.Found {
		return nil
	}
	unit := pb.RateLimitResponse_RateLimit_Unit(pb.RateLimitResponse_RateLimit_Unit_value[a.Unit])
	limit := NewRateLimit(a.Requests, unit, c.manager.NewStats(a.Metric), a.Unlimited, a.Shadow, a.Quota, a.Name, a.Replaces, a.Detailed)
	limit.ShareThresholdKeyPattern = a.Shared
	return limit
}

// mistake is one that ours has found in a file.
type mistake struct {
	File, Reason string
	Line, Column int
}

// words are the reasons of ours, and what the reference says about the same mistake. $1 is the part in parentheses, $domain the domain of the file, and
// $there the word at the place that ours names.
var words = []struct{ ours, theirs string }{
	{`^the file has to name a domain$`, `config file cannot have empty domain`},
	{`^the domain "(.*)" stands in another file`, `duplicate domain '$1' in config file`},
	{`^a descriptor has to have a key$`, `descriptor has empty key`},
	{`^the descriptor (.*) stands here twice$`, `duplicate descriptor composite key '$domain.$1'`},
	{`^the unit "(.*)" is none of `, `invalid rate limit unit '$1'`},
	{`^the limit ".*" cannot replace itself$`, `replaces should not contain name of same descriptor`},
	{`^replaces has to name a limit$`, `should not have an empty replaces entry`},
	{`^this is no YAML: (.*)$`, `error loading config file: yaml: line 2: $1`}, // ours names the line in which the text begins that does not end
	{`^unknown key "([\d.]+)"`, `config error, key is not of type string: $1`},
	{`^unknown key "(.*?)"`, `config error, unknown key '$1'`},
	{`^a descriptor is a mapping of keys to values$`, `config error, yaml file contains list of type other than map: $there`},
	{`^an unlimited descriptor has no unit$`, `should not specify rate limit unit when unlimited`},
}

var domainOf = regexp.MustCompile(`(?m)^domain: (\S+)$`)

// inTheirWords returns what the reference says.
func (m *mistake) inTheirWords(text string) string {
	for _, w := range words {
		found := regexp.MustCompile(w.ours).FindStringSubmatch(m.Reason)
		if found == nil {
			continue
		}
		theirs := w.theirs
		if len(found) > 1 {
			theirs = strings.ReplaceAll(theirs, "$1", found[1])
		}
		if strings.Contains(theirs, "$domain") {
			theirs = strings.ReplaceAll(theirs, "$domain", domainOf.FindStringSubmatch(text)[1])
		}
		if strings.Contains(theirs, "$there") {
			there := strings.Split(text, "\n")[m.Line-1][m.Column-1:]
			theirs = strings.ReplaceAll(theirs, "$there", there)
		}
		return theirs
	}
	return "a reason that the reference does not know: " + m.Reason
}

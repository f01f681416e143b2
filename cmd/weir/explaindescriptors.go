package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/urfave/cli/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rls"
	"github.com/weir-go/ratelimit/cmd/weir/internal/serving"
	"github.com/weir-go/ratelimit/core"
)

// ExplainedDescriptors is the output of weir explain as JSON, for files of weir serve.
type ExplainedDescriptors struct {
	Domain string `json:"domain"`
	// Asked says whether a store was asked. Without that, nothing is known of Status, and of Over, Remaining and ResetSeconds of Descriptors.
	Asked bool `json:"asked"`
	// Status is 429, or 0 if the request would pass.
	Status      int             `json:"status"`
	Descriptors []MetDescriptor `json:"descriptors"`
}

// MetDescriptor is how a descriptor of the request meets the files.
type MetDescriptor struct {
	Descriptor string `json:"descriptor"`
	// Steps are the ways of its entries, up to the first for which there is nothing.
	Steps []MetStep `json:"steps"`
	// Limit is the limit in words, and Key the key of its state. They are empty if the descriptor meets no limit.
	Limit string `json:"limit,omitempty"`
	Key   string `json:"key,omitempty"`
	// Reason says why no limit counts, if none does.
	Reason string `json:"reason,omitempty"`
	Shadow bool   `json:"shadow,omitempty"`
	Quota  bool   `json:"quota,omitempty"`
	// Unlimited says that the limit lets all requests pass.
	Unlimited bool `json:"unlimited,omitempty"`

	Over         bool  `json:"over"`
	Remaining    int64 `json:"remaining"`
	ResetSeconds int64 `json:"resetSeconds"`
}

// MetStep is the way of an entry: by its value, by a star, by its key alone, or none.
type MetStep struct {
	By         string `json:"by"`
	Descriptor string `json:"descriptor"`
	Shared     bool   `json:"shared,omitempty"`
}

// ofPolicies are the flags of weir explain that descriptors have no use for.
var ofPolicies = []string{"header", "from", "name", "plan", "cost"}

// servedLimits returns the settings of weir serve, and the limits that it would read from a file or a directory, or nil if that is no file for weir serve.
func servedLimits(name string, stdin io.Reader) (s serving.Settings, config *descriptors.Config, text []byte, err error) {
	info, err := os.Stat(name)
	directory := name != "-" && err == nil && info.IsDir()
	if !directory {
		if text, err = textOf(name, stdin); err != nil || !descriptors.Recognize(text) {
			return s, nil, text, err
		}
	}
	if s, err = serving.FromEnvironment(os.Environ()); err != nil {
		return s, nil, nil, usage("%w", err)
	}
	if s.Config = name; name == "-" {
		config, err = descriptors.Parse([]descriptors.File{{Name: name, Text: text}}, descriptors.Options{})
	} else {
		config, err = s.Read()
	}
	if err != nil {
		err = exitError{fmt.Errorf("%s makes no sense:\n%w", called(name), err), exitInvalid}
	}
	return s, config, nil, err
}

// explainDescriptors says which limits the descriptors of a request meet.
func explainDescriptors(ctx context.Context, c *cli.Command, s serving.Settings, config *descriptors.Config, stdout io.Writer) error {
	for _, flag := range ofPolicies {
		if c.IsSet(flag) {
			return usage("-%s is for files of policies, and this one is of weir serve", flag)
		}
	}
	request := &pb.RateLimitRequest{Domain: c.String("domain")}
	if names := config.Names(); request.GetDomain() == "" {
		if len(names) != 1 {
			return usage("name the domain of the request by -domain: the files have %s", cmp.Or(strings.Join(names, ", "), "none"))
		}
		request.Domain = names[0]
	}
	result := ExplainedDescriptors{Domain: request.GetDomain()}
	var limits []*descriptors.Limit
	for _, text := range c.Args().Tail() {
		entries, err := entriesOfText(text)
		if err != nil {
			return err
		}
		met, limit := meet(config, request.GetDomain(), entries)
		met.Descriptor = text
		result.Descriptors, limits = append(result.Descriptors, met), append(limits, limit)
		one := &common.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(0)} // 0 hits only look
		for _, e := range entries {
			one.Entries = append(one.Entries, &common.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		request.Descriptors = append(request.Descriptors, one)
	}
	replace(result.Descriptors, limits)
	var err error
	if c.String("redis") != "" || os.Getenv("REDIS_URL") != "" {
		result.Asked = true
		err = withStore(c, func(limiter *core.Limiter) error {
			options := s.Rules
			options.Timeout, options.OnError, options.Headers = c.Duration("timeout"), rls.Fail, [3]string{}
			service := rls.New(limiter, options)
			service.Use(config)
			response, err := service.ShouldRateLimit(ctx, request)
			if err != nil {
				return errors.New(status.Convert(err).Message())
			}
			result.learn(response)
			return nil
		})
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = writeJSON(stdout, result)
	} else {
		err = writeDescriptors(stdout, result)
	}
	if err == nil && result.Status != 0 {
		err = exitError{fmt.Errorf("the request would be denied with status %d", result.Status), exitDenied}
	}
	return err
}

// entriesOfText reads the entries of a descriptor: keys with values, and commas between them. A comma that belongs to a value has a backslash in front.
func entriesOfText(text string) ([]descriptors.Entry, error) {
	var entries []descriptors.Entry
	var part strings.Builder
	add := func() {
		key, value, _ := strings.Cut(part.String(), "=")
		entries = append(entries, descriptors.Entry{Key: key, Value: value})
		part.Reset()
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			_ = part.WriteByte(text[i])
		case text[i] == ',':
			add()
		default:
			_ = part.WriteByte(text[i])
		}
	}
	add()
	if slices.ContainsFunc(entries, func(e descriptors.Entry) bool { return e.Key == "" }) {
		return nil, usage(`%q is no descriptor: write keys with values, such as path=/login,remote_address=1.2.3.4, and \, for a comma in a value`, text)
	}
	return entries, nil
}

// meet returns how a descriptor meets the files, and its limit, or nil if it meets none.
func meet(config *descriptors.Config, domain string, entries []descriptors.Entry) (MetDescriptor, *descriptors.Limit) {
	steps := config.Meet(domain, entries)
	limit, key := config.Find(domain, entries)
	met := MetDescriptor{Steps: []MetStep{}}
	for _, step := range steps {
		met.Steps = append(met.Steps, MetStep{string(step.By), written(step.Descriptor), step.Shared})
	}
	switch {
	case limit != nil:
		met.Limit, met.Key, met.Shadow, met.Quota, met.Unlimited = limit.Describe(), key, limit.Shadow, limit.Quota, limit.Unlimited
		if limit.Unlimited || limit.RequestsPerUnit == 0 {
			met.Key = "" // nothing is counted
		}
	case !config.Has(domain):
		met.Reason = "no file has the domain " + printable(domain)
	case steps[len(steps)-1].By == descriptors.ByNone:
		met.Reason = "nothing is for " + printable(written(steps[len(steps)-1].Descriptor))
		if len(steps) > 1 {
			met.Reason += " below " + printable(written(steps[len(steps)-2].Descriptor))
		}
	default:
		met.Reason = "no limit stands at this depth"
	}
	return met, limit
}

// written returns an entry as the command line has it.
func written(e descriptors.Entry) string {
	if e.Value == "" {
		return e.Key
	}
	return e.Key + "=" + e.Value
}

// replace says which limits do not count since others take their place.
func replace(all []MetDescriptor, limits []*descriptors.Limit) {
	for i, limit := range limits {
		if limit == nil || limit.Unlimited || limit.Name == "" {
			continue
		}
		for j, other := range limits {
			if other != nil && slices.Contains(other.Replaces, limit.Name) {
				all[i].Reason = "the limit of " + printable(all[j].Descriptor) + " takes its place"
			}
		}
	}
}

// learn takes the answer of the service.
func (e *ExplainedDescriptors) learn(response *pb.RateLimitResponse) {
	if response.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		e.Status = http.StatusTooManyRequests
	}
	for i, answer := range response.GetStatuses() {
		met := &e.Descriptors[i]
		met.Over = answer.GetCode() == pb.RateLimitResponse_OVER_LIMIT || met.Shadow && answer.GetCurrentLimit() != nil && answer.GetLimitRemaining() == 0
		if answer.GetCurrentLimit() != nil {
			met.Remaining, met.ResetSeconds = int64(answer.GetLimitRemaining()), answer.GetDurationUntilReset().GetSeconds()
		}
	}
}

// writeDescriptors writes the explanation for people.
func writeDescriptors(w io.Writer, result ExplainedDescriptors) error {
	counting := 0
	rows := make([][]string, len(result.Descriptors))
	for i := range result.Descriptors {
		met := &result.Descriptors[i]
		steps := make([]string, len(met.Steps))
		for j, step := range met.Steps {
			steps[j] = printable(step.Descriptor) + " " + map[string]string{
				"value": "(exact value)", "star": "(star)", "key": "(key alone)", "none": "(nothing)",
			}[step.By]
			if step.Shared {
				steps[j] = strings.TrimSuffix(steps[j], ")") + ", shared)"
			}
		}
		limit := met.Limit
		switch {
		case met.Reason == "":
			counting++
		case limit == "":
			limit = "none: " + met.Reason
		default:
			limit += "; does not count: " + met.Reason
		}
		rows[i] = []string{printable(met.Descriptor), strings.Join(steps, ", "), limit, printable(met.Key), met.now(result.Asked)}
	}
	if _, err := fmt.Fprintf(w, "The request of domain %s has %s, and %s.\n", printable(result.Domain), counted(len(rows), "descriptor", "descriptors"),
		map[bool]string{true: "one limit counts", false: fmt.Sprintf("%d limits count", counting)}[counting == 1]); err != nil {
		return err
	}
	if err := writeTable(w, []string{"DESCRIPTOR", "MEETS", "LIMIT", "KEY", "NOW"}, rows); err != nil {
		return err
	}
	verdict := "Nothing was asked: name a store by -redis to see what would be decided now."
	switch {
	case result.Asked && result.Status == 0:
		verdict = "It would pass."
	case result.Asked:
		verdict = fmt.Sprintf("It would be denied with status %d.", result.Status)
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// now says how the limit would decide now.
func (m *MetDescriptor) now(asked bool) string {
	switch {
	case m.Reason != "" || m.Unlimited:
		return "passes"
	case !asked:
		return "?"
	case m.Over && m.Shadow:
		return "is over, and denies nothing"
	case m.Over:
		return fmt.Sprintf("is over for %d s", m.ResetSeconds)
	}
	return fmt.Sprintf("passes: %d left", m.Remaining)
}

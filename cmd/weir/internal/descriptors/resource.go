package descriptors

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FromResources reads the configuration that a control plane sends, a resource for each domain. Resources obey the rules of files: a resource is read as
// the file that says the same. An error is of type [Errors].
func FromResources(resources []*config.RateLimitConfig, options Options) (*Config, error) {
	r := newReader(options)
	w := writer{}
	for _, one := range resources {
		r.file = cmp.Or(one.GetName(), one.GetDomain(), "a resource without a name")
		unknown := w.unknown
		r.resource = w.resource(one)
		if w.unknown > unknown {
			r.warnf(r.resource, "%d of its fields are not known here, and have no effect", w.unknown-unknown)
		}
		r.root(r.resource)
	}
	return r.end()
}

// quotaMode is the number of the field quota_mode of a descriptor. The published package of the messages does not have it yet.
const quotaMode protowire.Number = 7

// writer writes resources as YAML, not as a text but as the values that a reader reads. Zeros are left out, as messages leave them out.
type writer struct {
	nodes   int // how many values were written
	depth   int // how many descriptors stand inside one another
	unknown int // how many fields were not known
}

func (w *writer) resource(of *config.RateLimitConfig) *yaml.Node {
	n := w.mapping()
	w.text(n, "domain", of.GetDomain())
	w.descriptors(n, of.GetDescriptors())
	w.others(of, 0)
	return n
}

func (w *writer) descriptors(to *yaml.Node, all []*config.RateLimitDescriptor) {
	if len(all) == 0 || w.depth > deepest { // the reader has refused the resource before it comes here
		return
	}
	w.depth++
	list := w.sequence()
	for _, one := range all {
		if w.nodes > mostNodes { // and here
			break
		}
		n := w.mapping()
		w.text(n, "key", one.GetKey())
		w.text(n, "value", one.GetValue())
		w.rateLimit(n, one.GetRateLimit())
		w.boolean(n, "shadow_mode", one.GetShadowMode())
		w.boolean(n, "quota_mode", w.others(one, quotaMode))
		w.boolean(n, "detailed_metric", one.GetDetailedMetric())
		w.descriptors(n, one.GetDescriptors())
		list.Content = append(list.Content, n)
	}
	w.add(to, "descriptors", list)
	w.depth--
}

func (w *writer) rateLimit(to *yaml.Node, of *config.RateLimitPolicy) {
	if of == nil {
		return
	}
	n := w.mapping()
	if of.GetUnit() != config.RateLimitUnit_UNKNOWN {
		w.text(n, "unit", of.GetUnit().String())
	}
	if of.GetRequestsPerUnit() > 0 {
		w.plain(n, "requests_per_unit", strconv.FormatUint(uint64(of.GetRequestsPerUnit()), 10))
	}
	w.boolean(n, "unlimited", of.GetUnlimited())
	w.text(n, "name", of.GetName())
	if len(of.GetReplaces()) > 0 {
		list := w.sequence()
		for _, one := range of.GetReplaces() {
			name := w.mapping()
			w.text(name, "name", one.GetName())
			w.others(one, 0)
			list.Content = append(list.Content, name)
		}
		w.add(n, "replaces", list)
	}
	w.others(of, 0)
	w.add(to, "rate_limit", n)
}

// others counts the fields of a message that are not known, and reports whether one of a number is among them, and true.
func (w *writer) others(of interface{ ProtoReflect() protoreflect.Message }, wanted protowire.Number) (is bool) {
	for raw := of.ProtoReflect().GetUnknown(); len(raw) > 0; {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			break
		}
		if number == wanted && kind == protowire.VarintType {
			_, _, tag := protowire.ConsumeTag(raw)
			value, _ := protowire.ConsumeVarint(raw[tag:])
			is = protowire.DecodeBool(value)
		} else {
			w.unknown++
		}
		raw = raw[n:]
	}
	return is
}

func (w *writer) node(kind yaml.Kind, style yaml.Style, value string) *yaml.Node {
	w.nodes++
	return &yaml.Node{Kind: kind, Style: style, Value: value}
}

func (w *writer) mapping() *yaml.Node  { return w.node(yaml.MappingNode, 0, "") }
func (w *writer) sequence() *yaml.Node { return w.node(yaml.SequenceNode, 0, "") }

func (w *writer) add(to *yaml.Node, key string, value *yaml.Node) {
	to.Content = append(to.Content, w.node(yaml.ScalarNode, yaml.DoubleQuotedStyle, key), value)
}

// plain adds a value as it stands.
func (w *writer) plain(to *yaml.Node, key, value string) {
	w.add(to, key, w.node(yaml.ScalarNode, 0, value))
}

// text adds a text, which stays one whatever it looks like.
func (w *writer) text(to *yaml.Node, key, value string) {
	if value != "" {
		w.add(to, key, w.node(yaml.ScalarNode, yaml.DoubleQuotedStyle, value))
	}
}

func (w *writer) boolean(to *yaml.Node, key string, value bool) {
	if value {
		w.plain(to, key, "true")
	}
}

// pathTo returns the way from one value to another below it, such as descriptors[0].key.
func pathTo(from, to *yaml.Node) (path string, found bool) {
	if from == to {
		return "", true
	}
	step := 1
	if from.Kind == yaml.MappingNode {
		step = 2
	}
	for i := 0; i+step <= len(from.Content); i += step {
		below, found := pathTo(from.Content[i+step-1], to)
		switch {
		case !found:
			continue
		case step == 1:
			return strings.TrimSuffix(fmt.Sprintf("[%d].%s", i, below), "."), true
		case below == "" || below[0] == '[':
			return from.Content[i].Value + below, true
		default:
			return from.Content[i].Value + "." + below, true
		}
	}
	return "", false
}

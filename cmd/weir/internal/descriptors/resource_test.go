package descriptors

import (
	"errors"
	"slices"
	"strings"
	"testing"

	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// The same configuration as a file has it. The test writes it by itself, so that it can tell when resources are read as something else.
type (
	fileOf struct {
		Domain      string         `yaml:"domain,omitempty"`
		Descriptors []descriptorOf `yaml:"descriptors,omitempty"`
	}
	descriptorOf struct {
		Key         string         `yaml:"key,omitempty"`
		Value       string         `yaml:"value,omitempty"`
		RateLimit   *rateLimitOf   `yaml:"rate_limit,omitempty"`
		Descriptors []descriptorOf `yaml:"descriptors,omitempty"`
		Shadow      bool           `yaml:"shadow_mode"`
		Quota       bool           `yaml:"quota_mode"`
		Detailed    bool           `yaml:"detailed_metric"`
	}
	rateLimitOf struct {
		Unit      string       `yaml:"unit,omitempty"`
		Requests  uint32       `yaml:"requests_per_unit"`
		Unlimited bool         `yaml:"unlimited"`
		Name      string       `yaml:"name,omitempty"`
		Replaces  []replacesOf `yaml:"replaces,omitempty"`
	}
	replacesOf struct {
		Name string `yaml:"name"`
	}
)

// both are one configuration in its two forms.
type both struct {
	file     fileOf
	resource *config.RateLimitConfig
}

// texts are few, so that descriptors meet and limits replace one another, and some look like something else.
var (
	words = []string{"a", "b", "a_b", "yes", "0x10", "~", "a*", "*", "null", "é: [", ""}
	texts = rapid.SampledFrom(words)
)

// withQuota sets the field quota_mode, as control planes with newer messages do.
func withQuota(d *config.RateLimitDescriptor, is bool) {
	d.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, quotaMode, protowire.VarintType), protowire.EncodeBool(is)))
}

func drawDescriptors(t *rapid.T, depth int) (file []descriptorOf, resource []*config.RateLimitDescriptor) {
	for range rapid.IntRange(0, 4-depth).Draw(t, "descriptors") {
		f := descriptorOf{Key: texts.Draw(t, "key"), Value: texts.Draw(t, "value")}
		f.Shadow, f.Quota, f.Detailed = rapid.Bool().Draw(t, "shadow"), rapid.Bool().Draw(t, "quota"), rapid.Bool().Draw(t, "detailed")
		r := &config.RateLimitDescriptor{Key: f.Key, Value: f.Value, ShadowMode: f.Shadow, DetailedMetric: f.Detailed}
		withQuota(r, f.Quota)
		if rapid.Bool().Draw(t, "limited") {
			f.RateLimit, r.RateLimit = drawLimit(t)
		}
		f.Descriptors, r.Descriptors = drawDescriptors(t, depth+1)
		file, resource = append(file, f), append(resource, r)
	}
	return file, resource
}

func drawLimit(t *rapid.T) (*rateLimitOf, *config.RateLimitPolicy) {
	unit := config.RateLimitUnit(rapid.SampledFrom([]int32{1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 0, 99}).Draw(t, "unit"))
	f := &rateLimitOf{
		Unit: strings.ToLower(unit.String()), Requests: rapid.SampledFrom([]uint32{0, 1, 7, 1 << 31, 1<<32 - 1}).Draw(t, "requests"),
		Unlimited: rapid.IntRange(0, 5).Draw(t, "unlimited") == 0, Name: texts.Draw(t, "name"),
	}
	if unit == 0 || f.Unlimited && rapid.Bool().Draw(t, "no unit") {
		f.Unit, unit = "", 0
	}
	r := &config.RateLimitPolicy{Unit: unit, RequestsPerUnit: f.Requests, Unlimited: f.Unlimited, Name: f.Name}
	for range rapid.IntRange(0, 2).Draw(t, "replaces") {
		name := texts.Draw(t, "replaced")
		f.Replaces, r.Replaces = append(f.Replaces, replacesOf{name}), append(r.Replaces, &config.RateLimitReplace{Name: name})
	}
	return f, r
}

// TestResourcesAreReadAsFiles reads random configurations in both forms: both are refused for the same reasons, or both limit the same.
func TestResourcesAreReadAsFiles(t *testing.T) {
	good := 0
	rapid.Check(t, func(t *rapid.T) {
		var files []File
		var resources []*config.RateLimitConfig
		options := Options{Merge: rapid.Bool().Draw(t, "merge")}
		for _, name := range []string{"one", "two"} {
			var b both
			b.file.Domain = rapid.SampledFrom([]string{name, "one", ""}).Draw(t, "domain")
			b.resource = &config.RateLimitConfig{Name: name, Domain: b.file.Domain}
			b.file.Descriptors, b.resource.Descriptors = drawDescriptors(t, 0)
			text, err := yaml.Marshal(b.file)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, File{name, text})
			wire, err := proto.Marshal(b.resource)
			if err != nil {
				t.Fatal(err)
			}
			received := &config.RateLimitConfig{}
			if err := proto.Unmarshal(wire, received); err != nil {
				t.Fatal(err)
			}
			resources = append(resources, received)
		}
		byFiles, fileErr := Parse(files, options)
		byResources, resourceErr := FromResources(resources, options)
		if a, b := reasons(fileErr), reasons(resourceErr); !slices.Equal(a, b) {
			t.Fatalf("the files are refused for %q, and the resources for %q", a, b)
		}
		if fileErr != nil {
			return
		}
		good++
		if a, b := byFiles.Dump(), byResources.Dump(); a != b || !slices.Equal(byFiles.Describe(), byResources.Describe()) {
			t.Fatalf("files: %s\nresources: %s", a, b)
		}
		below := Entry{texts.Draw(t, "key below"), texts.Draw(t, "value below")}
		for _, domain := range []string{"one", "two"} {
			for _, key := range words {
				for _, value := range words {
					e := []Entry{{key, value}, below}
					if a, b := found(byFiles, domain, e[:1]), found(byResources, domain, e[:1]); a != b {
						t.Fatalf("%s: %q meets %q by files, and %q by resources", domain, e[:1], a, b)
					}
					if a, b := found(byFiles, domain, e), found(byResources, domain, e); a != b {
						t.Fatalf("%s: %q meets %q by files, and %q by resources", domain, e, a, b)
					}
				}
			}
		}
	})
	if good == 0 {
		t.Error("every configuration was refused")
	}
}

// found returns the limit of a descriptor in words, with the key of its state.
func found(c *Config, domain string, entries []Entry) string {
	limit, key := c.Find(domain, entries)
	if limit == nil {
		return ""
	}
	return key + " " + limit.path + " " + limit.Describe()
}

// reasons returns the reasons of an error without their places, in the order of the alphabet.
func reasons(err error) (all []string) {
	var many Errors
	if !errors.As(err, &many) {
		return nil
	}
	for _, one := range many {
		all = append(all, one.File+": "+strings.NewReplacer("another resource", "another file", "the resource", "the file").Replace(one.Reason))
	}
	slices.Sort(all)
	return all
}

func resource(descriptors ...*config.RateLimitDescriptor) *config.RateLimitConfig {
	return &config.RateLimitConfig{Name: "r", Domain: "d", Descriptors: descriptors}
}

// TestMistakesInResources are told with the resource and the place in it.
func TestMistakesInResources(t *testing.T) {
	day := &config.RateLimitPolicy{Unit: config.RateLimitUnit_DAY, RequestsPerUnit: 1}
	for want, resources := range map[string][]*config.RateLimitConfig{
		"r: the resource has to name a domain":                       {{Name: "r"}},
		"a resource without a name: the resource has to name":        {{}},
		"r: descriptors[1]: a descriptor has to have a key":          {resource(&config.RateLimitDescriptor{Key: "k"}, &config.RateLimitDescriptor{})},
		"r: descriptors[1].key: the descriptor k stands here twice":  {resource(&config.RateLimitDescriptor{Key: "k"}, &config.RateLimitDescriptor{Key: "k"})},
		"r: domain: the domain \"d\" stands in another resource":     {resource(), resource()},
		"r: descriptors[0].rate_limit: the unit \"\" is none of":     {resource(&config.RateLimitDescriptor{Key: "k", RateLimit: &config.RateLimitPolicy{}})},
		"r: descriptors[0].rate_limit.unit: the unit \"99\" is none": {resource(&config.RateLimitDescriptor{Key: "k", RateLimit: &config.RateLimitPolicy{Unit: 99}})},
		"r: descriptors[0].rate_limit.unit: an unlimited descriptor has no unit": {
			resource(&config.RateLimitDescriptor{Key: "k", RateLimit: &config.RateLimitPolicy{Unit: 1, Unlimited: true}}),
		},
		"r: descriptors[0].descriptors[0].rate_limit.replaces[0]: replaces has to name a limit": {resource(&config.RateLimitDescriptor{
			Key: "k", Descriptors: []*config.RateLimitDescriptor{{
				Key: "l", RateLimit: &config.RateLimitPolicy{Unit: 1, Replaces: []*config.RateLimitReplace{{}}},
			}},
		})},
	} {
		if _, err := FromResources(resources, Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	deep := &config.RateLimitDescriptor{Key: "k", RateLimit: day}
	for range 5000 {
		deep = &config.RateLimitDescriptor{Key: "k", Descriptors: []*config.RateLimitDescriptor{deep}}
	}
	if _, err := FromResources([]*config.RateLimitConfig{resource(deep)}, Options{}); err == nil || !strings.Contains(err.Error(), "stand inside one another") {
		t.Errorf("%.1000v", err)
	}
}

// TestUnknownFieldsAreTold: newer control planes may say more than is known here.
func TestUnknownFieldsAreTold(t *testing.T) {
	quota := &config.RateLimitDescriptor{Key: "k", RateLimit: &config.RateLimitPolicy{Unit: config.RateLimitUnit_DAY, RequestsPerUnit: 1}}
	withQuota(quota, true)
	c, err := FromResources([]*config.RateLimitConfig{resource(quota)}, Options{})
	if err != nil || len(c.Warnings()) != 0 || !strings.Contains(c.Dump(), "quota_mode: true") {
		t.Errorf("%v, %v", c, err)
	}
	more := protowire.AppendVarint(protowire.AppendTag(quota.ProtoReflect().GetUnknown(), 99, protowire.VarintType), 1)
	quota.ProtoReflect().SetUnknown(more)
	c, err = FromResources([]*config.RateLimitConfig{resource(quota)}, Options{})
	if err != nil || c.Warnings().Error() != "r: 1 of its fields are not known here, and have no effect" || !strings.Contains(c.Dump(), "quota_mode: true") {
		t.Errorf("%v, %v", c.Warnings(), err)
	}
}

// FuzzFromResources wants any message to be read, or refused with a place in it.
func FuzzFromResources(f *testing.F) {
	seed := resource(&config.RateLimitDescriptor{Key: "k", Value: "a*", RateLimit: &config.RateLimitPolicy{
		Unit: 3, RequestsPerUnit: 5, Name: "n", Replaces: []*config.RateLimitReplace{{Name: "m"}},
	}})
	withQuota(seed.GetDescriptors()[0], true)
	wire, err := proto.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Fuzz(func(t *testing.T, wire []byte) {
		received := &config.RateLimitConfig{}
		if proto.Unmarshal(wire, received) != nil {
			return
		}
		c, err := FromResources([]*config.RateLimitConfig{received}, Options{})
		var all Errors
		switch {
		case err == nil:
			_ = c.Dump()
		case !errors.As(err, &all) || len(all) == 0 || all[0].Line != 0:
			t.Fatalf("%v", err)
		}
	})
}

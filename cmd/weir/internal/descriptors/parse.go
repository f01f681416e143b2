package descriptors

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/parser"
	"go.yaml.in/yaml/v3"
)

const (
	// mostBytes is how long a file may be.
	mostBytes = 16 << 20
	// mostNodes is how many values all files may have when their aliases are written out, and deepest how many may stand inside one another.
	mostNodes = 4 << 20
	deepest   = 100
	// mostErrors is how many errors are told.
	mostErrors = 100
)

// File is a text with the configuration of a domain. Its Name is for errors.
type File struct {
	Name string
	Text []byte
}

// Options change how files are read.
type Options struct {
	// Merge lets several files have the same domain, and puts their descriptors together.
	Merge bool
}

// Parse reads files. An error is of type [Errors].
func Parse(files []File, options Options) (*Config, error) {
	r := newReader(options)
	for _, f := range files {
		r.read(f)
	}
	return r.end()
}

func newReader(options Options) *reader {
	return &reader{config: &Config{domains: make(map[string]*node)}, merge: options.Merge}
}

// end returns the configuration that was read, or all mistakes.
func (r *reader) end() (*Config, error) {
	if len(r.errors) > 0 {
		r.errors.sort()
		return nil, r.errors
	}
	r.config.warnings.sort()
	return r.config, nil
}

// Recognize reports whether a text is one for [Parse], and no file of policies: it is a mapping that names a domain.
func Recognize(text []byte) bool { return hasKey(text, "domain", "descriptors") }

// RecognizePolicies reports whether a text is a file of policies, and none for [Parse].
func RecognizePolicies(text []byte) bool { return hasKey(text, "policies") && !Recognize(text) }

// hasKey reports whether a text is a mapping that has one of some keys.
func hasKey(text []byte, names ...string) bool {
	var document yaml.Node
	if len(text) > mostBytes || unmarshal(text, &document) != nil || document.Kind == 0 || document.Content[0].Kind != yaml.MappingNode {
		return false
	}
	keys := document.Content[0].Content
	for i := 0; i+1 < len(keys); i += 2 {
		if slices.Contains(names, keys[i].Value) {
			return true
		}
	}
	return false
}

// reader reads one file or resource after the other.
type reader struct {
	config   *Config
	merge    bool
	errors   Errors
	file     string     // the name of the file or resource
	resource *yaml.Node // the resource that is read, or nil if it is a file
	nodes    int
	depth    int
}

// kind returns the word for the text that is read: file or resource.
func (r *reader) kind() string {
	if r.resource != nil {
		return "resource"
	}
	return "file"
}

// mistake returns an error, or a warning, at a place.
func (r *reader) mistake(at *yaml.Node, reason string) *Error {
	if r.resource != nil {
		path, _ := pathTo(r.resource, at)
		return &Error{File: r.file, Path: path, Reason: reason}
	}
	return &Error{File: r.file, Line: max(1, at.Line), Column: max(1, at.Column), Reason: reason}
}

// failf notes an error, unless there are many already.
func (r *reader) failf(at *yaml.Node, format string, args ...any) {
	if len(r.errors) >= mostErrors {
		return
	}
	r.errors = append(r.errors, r.mistake(at, fmt.Sprintf(format, args...)))
}

// warnf notes a part of the file that has no effect.
func (r *reader) warnf(at *yaml.Node, format string, args ...any) {
	r.config.warnings = append(r.config.warnings, r.mistake(at, fmt.Sprintf(format, args...)))
}

// read reads a file.
func (r *reader) read(f File) {
	r.file = f.Name
	start := &yaml.Node{Line: 1, Column: 1}
	if len(f.Text) > mostBytes {
		r.failf(start, "the file is longer than %d bytes", mostBytes)
		return
	}
	var document yaml.Node
	if err := unmarshal(f.Text, &document); err != nil {
		r.errors = append(r.errors, malformed(f, err))
		return
	}
	if document.Kind == 0 {
		r.failf(start, "the file is empty: it has to name a domain")
		return
	}
	r.root(document.Content[0])
}

// unmarshal reads YAML. A panic of the library is an error.
func unmarshal(text []byte, to *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return yaml.Unmarshal(text, to)
}

var lineOf = regexp.MustCompile(`^line (\d+): `)

// malformed returns the error of a text that is no YAML. The library that reads it tells no columns, so another one is asked where it is wrong.
func malformed(f File, err error) *Error {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{File: f.Name, Line: 1, Column: 1}
	if m := lineOf.FindStringSubmatch(reason); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		reason = reason[len(m[0]):]
	}
	e.Reason = "this is no YAML: " + reason
	if line, column, found := secondOpinion(f.Text); found {
		e.Line, e.Column = line, column
	}
	return e
}

func secondOpinion(text []byte) (line, column int, found bool) {
	defer func() { _ = recover() }() // there is no second opinion then
	if len(text) > 1<<14 {
		return 0, 0, false // it takes long texts a long time
	}
	_, err := parser.ParseBytes(text, 0)
	if m := positionOf.FindStringSubmatch(fmt.Sprint(err)); err != nil && m != nil {
		line, _ = strconv.Atoi(m[1])
		column, _ = strconv.Atoi(m[2])
		return line, column, line > 0 && column > 0
	}
	return 0, 0, false
}

var positionOf = regexp.MustCompile(`^\[(\d+):(\d+)\]`)

// pair is a key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// resolve returns the value that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// enter counts a value, and reports whether it may be read. The caller calls leave afterwards.
func (r *reader) enter(n *yaml.Node) bool {
	r.nodes++
	r.depth++
	switch {
	case r.nodes == mostNodes:
		r.failf(n, "the %ss have more than %d values", r.kind(), mostNodes)
	case r.depth == deepest:
		r.failf(n, "more than %d values stand inside one another", deepest)
	}
	return r.nodes < mostNodes && r.depth < deepest
}

func (r *reader) leave() { r.depth-- }

// items returns the items of a list, and none once too much was read.
func (r *reader) items(list *yaml.Node) func(yield func(*yaml.Node) bool) {
	return func(yield func(*yaml.Node) bool) {
		for _, one := range list.Content {
			if r.nodes >= mostNodes || !yield(resolve(one)) {
				return
			}
		}
	}
}

// pairs returns the keys and values of a mapping, those that it merges in behind its own.
func (r *reader) pairs(n *yaml.Node) (all []pair) {
	seen := make(map[string]bool)
	r.addPairs(n, seen, &all)
	return all
}

func (r *reader) addPairs(n *yaml.Node, seen map[string]bool, all *[]pair) {
	if !r.enter(n) {
		r.leave()
		return
	}
	defer r.leave()
	own := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			continue
		case key.Kind != yaml.ScalarNode:
			r.failf(key, "a key is a text")
			continue
		case own[key.Value]:
			r.failf(key, "the key %q stands here twice", key.Value)
			continue
		}
		own[key.Value] = true
		if !seen[key.Value] {
			seen[key.Value] = true
			*all = append(*all, pair{key, value})
		}
	}
	for _, m := range merged {
		from := []*yaml.Node{m}
		if m.Kind == yaml.SequenceNode {
			from = m.Content
		}
		for _, one := range from {
			if one = resolve(one); one.Kind != yaml.MappingNode {
				r.failf(one, "only a mapping can be merged into another")
				continue
			}
			r.addPairs(one, seen, all)
		}
	}
}

// The keys, and where each of them belongs.
var places = map[string]string{
	"domain": "a domain", "descriptors": "a domain and of a descriptor",
	"key": descriptor, "value": descriptor, "rate_limit": descriptor, "shadow_mode": descriptor, "quota_mode": descriptor, "detailed_metric": descriptor,
	"value_to_metric": descriptor, "share_threshold": descriptor, "metadata": descriptor,
	"unit": limit, "requests_per_unit": limit, "unlimited": limit, "name": limit + " and of replaces", "replaces": limit,
	"algorithm": limit, "burst": limit, "time_zone": limit, "lease": limit, "debt": limit,
}

const (
	descriptor = "a descriptor"
	limit      = "rate_limit"
)

// fields calls a function for each key of a mapping: the one of its name. What has no function is no key of this mapping.
func (r *reader) fields(n *yaml.Node, what string, functions map[string]func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.failf(n, "%s is a mapping of keys to values", what)
		return
	}
	for _, p := range r.pairs(n) {
		if function := functions[p.key.Value]; function != nil {
			function(p.key, p.value)
			continue
		}
		if place, known := places[p.key.Value]; known {
			r.warnf(p.key, "%s has no effect here: it is a key of %s", p.key.Value, place)
			continue
		}
		known := slices.Sorted(func(yield func(string) bool) {
			for name := range functions {
				if !yield(name) {
					return
				}
			}
		})
		r.failf(p.key, "unknown key %q: the keys of %s are %s", p.key.Value, what, strings.Join(known, ", "))
	}
}

// text reads a text. A number or a word is one, too.
func (r *reader) text(to *string) func(key, value *yaml.Node) {
	return func(key, value *yaml.Node) {
		if value.Kind != yaml.ScalarNode {
			r.failf(value, "%s is a text", key.Value)
			return
		}
		if !null(value) {
			*to = value.Value
		}
	}
}

// boolean reads yes or no.
func (r *reader) boolean(to *bool) func(key, value *yaml.Node) {
	return func(key, value *yaml.Node) {
		b, ok := booleans[value.Value]
		if null(value) {
			b, ok = false, true
		}
		if value.Kind != yaml.ScalarNode || quoted(value) || !ok {
			r.failf(value, "%s is true or false", key.Value)
			return
		}
		*to = b
	}
}

// number reads a whole number of 32 bits.
func (r *reader) number(to *uint32) func(key, value *yaml.Node) {
	return func(key, value *yaml.Node) {
		if null(value) {
			return
		}
		i, ok := integer(value)
		if value.Kind != yaml.ScalarNode || !ok || i < 0 || i > math.MaxUint32 {
			r.failf(value, "%s is a whole number from 0 to %d", key.Value, uint32(math.MaxUint32))
			return
		}
		*to = uint32(i)
	}
}

// root reads a file, or a resource.
func (r *reader) root(n *yaml.Node) {
	var domain string
	at := n
	var list *yaml.Node
	r.fields(resolve(n), "a "+r.kind(), map[string]func(key, value *yaml.Node){
		"domain": func(key, value *yaml.Node) {
			at = value
			r.text(&domain)(key, value)
		},
		"descriptors": func(_, value *yaml.Node) { list = value },
	})
	if domain == "" {
		if len(r.errors) == 0 || r.errors[len(r.errors)-1].File != r.file {
			r.failf(at, "the %s has to name a domain", r.kind())
		}
		return
	}
	of := r.config.domains[domain]
	if of != nil && !r.merge {
		r.failf(at, "the domain %q stands in another %s: with MERGE_DOMAIN_CONFIG=true both count", domain, r.kind())
		return
	}
	if of == nil {
		of = newNode()
		r.config.domains[domain] = of
	}
	if list != nil {
		r.descriptors(list, of, domain)
	}
}

func newNode() *node {
	return &node{valued: make(map[Entry]*node), valueless: make(map[string]*node)}
}

// descriptors reads the descriptors below another one, or below a domain.
func (r *reader) descriptors(list *yaml.Node, below *node, path string) {
	if null(list) {
		return
	}
	if list.Kind != yaml.SequenceNode {
		r.failf(list, "descriptors is a list")
		return
	}
	if r.enter(list) {
		for one := range r.items(list) {
			r.descriptor(one, below, path)
		}
	}
	r.leave()
}

// descriptor reads one descriptor.
func (r *reader) descriptor(n *yaml.Node, below *node, path string) {
	var e Entry
	var l Limit
	var list, rate *yaml.Node
	var toMetric, shared bool
	at := n
	before := len(r.errors)
	r.fields(n, descriptor, map[string]func(key, value *yaml.Node){
		"key": func(key, value *yaml.Node) {
			at = value
			r.text(&e.Key)(key, value)
		},
		"value":       r.text(&e.Value),
		"rate_limit":  func(_, value *yaml.Node) { rate = value },
		"descriptors": func(_, value *yaml.Node) { list = value },
		"shadow_mode": r.boolean(&l.Shadow), "quota_mode": r.boolean(&l.Quota), "share_threshold": r.boolean(&shared),
		"detailed_metric": r.boolean(&l.detailed), "value_to_metric": r.boolean(&toMetric),
		"metadata": func(_, value *yaml.Node) { l.Metadata = r.metadata(value) },
	})
	if e.Key == "" {
		if len(r.errors) == before {
			r.failf(at, "a descriptor has to have a key")
		}
		return
	}
	starred := strings.Contains(e.Key, "*") || strings.Contains(e.Value, "*")
	if shared && !starred {
		r.failf(at, "share_threshold is for descriptors with a star: all values that match %s count as one", e)
	}
	path += "." + e.String()
	child, added := below.add(e, starred, shared)
	if !added {
		r.failf(at, "the descriptor %s stands here twice", e)
		return
	}
	child.exact, child.valueToMetric, child.byValue = !starred && e.Value != "", toMetric, toMetric || below.byValue
	if rate != nil && !null(rate) {
		r.rateLimit(rate, &l)
		l.path, l.byValue = path, l.detailed || child.byValue
		child.limit = &l
		r.config.limits = append(r.config.limits, &l)
	}
	if list != nil {
		r.descriptors(list, child, path)
	}
}

// String returns the entry as errors name it.
func (e Entry) String() string {
	if e.Value == "" {
		return e.Key
	}
	return e.Key + "_" + e.Value
}

// add adds a descriptor, unless there is the same one.
func (n *node) add(e Entry, starred, shared bool) (child *node, added bool) {
	child = newNode()
	switch {
	case starred:
		if slices.ContainsFunc(n.patterns, func(p *pattern) bool { return p.Entry == e }) {
			return nil, false
		}
		n.patterns = append(n.patterns, &pattern{
			Entry: e, key: globOf(e.Key), value: globOf(e.Value), anyValue: e.Value == "", shared: shared, node: child,
		})
	case e.Value == "":
		if n.valueless[e.Key] != nil {
			return nil, false
		}
		n.valueless[e.Key] = child
	default:
		if n.valued[e] != nil {
			return nil, false
		}
		n.valued[e] = child
	}
	return child, true
}

// rateLimit reads a rate_limit.
func (r *reader) rateLimit(n *yaml.Node, l *Limit) {
	var unit string
	var numbers numbers
	at, algorithmAt := n, n
	before := len(r.errors)
	r.fields(n, limit, map[string]func(key, value *yaml.Node){
		"unit": func(key, value *yaml.Node) {
			at = value
			r.text(&unit)(key, value)
		},
		"requests_per_unit": r.number(&numbers.requests),
		"unlimited":         r.boolean(&l.Unlimited),
		"name":              r.text(&l.Name),
		"replaces":          func(_, value *yaml.Node) { l.Replaces = r.replaces(value) },
		"algorithm": func(key, value *yaml.Node) {
			algorithmAt = value
			r.text(&numbers.algorithm)(key, value)
		},
		"burst": func(key, value *yaml.Node) {
			numbers.hasBurst = true
			r.number(&numbers.burst)(key, value)
		},
		"lease": r.text(&numbers.lease),
		"debt":  r.text(&numbers.debt),
		"time_zone": func(key, value *yaml.Node) {
			numbers.hasZone = true
			r.text(&numbers.zone)(key, value)
		},
	})
	if len(r.errors) > before {
		return
	}
	if l.Name != "" && slices.Contains(l.Replaces, l.Name) {
		r.failf(n, "the limit %q cannot replace itself", l.Name)
	}
	var known bool
	numbers.unit, known = parseUnit(unit)
	switch {
	case l.Unlimited:
		if known {
			r.failf(at, "an unlimited descriptor has no unit")
		}
		return
	case !known:
		r.failf(at, "the unit %q is none of second, minute, hour, day, week, month and year", unit)
		return
	case numbers.algorithm != "" && numbers.algorithm != concurrent && algorithms[numbers.algorithm] == nil:
		r.failf(algorithmAt, "the algorithm %q is none of concurrent, gcra, leaky, sliding_log, sliding_window and token_bucket", numbers.algorithm)
		return
	}
	var err error
	if numbers.algorithm == concurrent {
		l.Places, err = numbers.places()
	} else {
		l.Counts, err = numbers.quota()
	}
	if err != nil {
		r.failf(n, "%v", err)
	}
	l.RequestsPerUnit, l.Unit, l.algorithm = numbers.requests, numbers.unit, numbers.algorithm
}

// replaces reads the names of limits.
func (r *reader) replaces(list *yaml.Node) (names []string) {
	if null(list) {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		r.failf(list, "replaces is a list of names, each after %q", "- name:")
		return nil
	}
	for one := range r.items(list) {
		var name string
		r.fields(one, "replaces", map[string]func(key, value *yaml.Node){"name": r.text(&name)})
		if name == "" {
			r.failf(one, "replaces has to name a limit")
		}
		names = append(names, name)
	}
	return names
}

// metadata reads any mapping.
func (r *reader) metadata(n *yaml.Node) map[string]any {
	if null(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.failf(n, "metadata is a mapping of keys to values")
		return nil
	}
	m, _ := r.any(n).(map[string]any)
	return m
}

// any returns a value of metadata as JSON has it.
func (r *reader) any(n *yaml.Node) any {
	n = resolve(n)
	if !r.enter(n) {
		r.leave()
		return nil
	}
	defer r.leave()
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for _, p := range r.pairs(n) {
			key, err := keyText(p.key)
			if err != nil {
				r.failf(p.key, "%v", err)
			}
			m[key] = r.any(p.value)
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for one := range r.items(n) {
			list = append(list, r.any(one))
		}
		return list
	default:
		v, err := value(n)
		if err != nil {
			r.failf(n, "%v", err)
		}
		return v
	}
}

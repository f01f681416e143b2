package descriptors

import "iter"

// Metrics returns the limits whose metrics have the name of their place in the files, with that name, in the order of the files. The names of all
// others depend on the request: see [Config.AppendMetric].
func (c *Config) Metrics() iter.Seq2[*Limit, string] {
	return func(yield func(*Limit, string) bool) {
		for _, l := range c.limits {
			if !l.byValue && !yield(l, l.path) {
				return
			}
		}
	}
}

// AppendMetric appends the name by which the reference counts the requests of a descriptor that has met a limit: the domain, and after a dot each, the
// entries as they stand in the files. detailed_metric and value_to_metric put the values of the request there.
func (c *Config) AppendMetric(to []byte, domain string, entries []Entry) []byte {
	limit, shared := c.walk(domain, entries, nil)
	to = append(to, domain...)
	c.walk(domain, entries, func(e Entry, n *node, by *pattern) {
		text := Entry{Key: e.Key}
		detailed := limit != nil && limit.detailed
		switch {
		case by != nil && by.shared:
			text.Value = by.Value
		case detailed, n.valueToMetric:
			text.Value = e.Value
		case by != nil:
			text = by.Entry
		case n.exact:
			text.Value = e.Value
		}
		to = append(to, '.')
		to = append(to, text.Key...)
		if text.Value != "" || detailed && !shared {
			to = append(to, '_')
			to = append(to, text.Value...)
		}
	})
	return to
}

// walk calls a function for each entry of a descriptor, and returns its limit and whether one of the entries shares a limit.
func (c *Config) walk(domain string, entries []Entry, do func(Entry, *node, *pattern)) (limit *Limit, shared bool) {
	at := c.domains[domain]
	if at == nil {
		return nil, false
	}
	for _, e := range entries {
		next, by := at.next(e)
		if next == nil {
			return nil, shared
		}
		shared = shared || by != nil && by.shared
		if do != nil {
			do(e, next, by)
		}
		at = next
	}
	return at.limit, shared
}

// AppendOverrideMetric appends the name by which the reference counts the requests of a descriptor that brings its own limit.
func AppendOverrideMetric(to []byte, domain string, entries []Entry) []byte {
	to = append(to, domain...)
	for i, e := range entries {
		if i == 0 || len(to) > len(domain)+1 {
			to = append(to, '.')
		}
		to = append(to, e.Key...)
		if e.Value != "" {
			to = append(to, '_')
			to = append(to, e.Value...)
		}
	}
	return to
}

package exact

import "strings"

// ParseDerivedName reads the name that an unnamed limit has, such as "leaky:10:1/s": see [Spec.Label]. It reports
// whether the name is one, of a limit that makes sense.
func ParseDerivedName(name string) (Params, bool) {
	parts := strings.SplitN(name, ":", 3)
	if len(parts) < 3 {
		return Params{}, false
	}
	algorithm, ok := AlgorithmNamed(parts[0])
	if !ok {
		return Params{}, false
	}
	start := parts[0] + " " + parts[1] + ", "
	candidates := []string{parts[2]}
	switch {
	case algorithm.Dated():
		candidates = withoutColons(parts[2])
	case algorithm.Bans():
		candidates = []string{banText(parts[2])}
	}
	for _, pace := range candidates {
		p, err := Parse(start + pace)
		if err == nil && p.derivedName() == name && NewSpec(p, nil).Problem() == nil {
			return p, true
		}
	}
	return Params{}, false
}

// withoutColons returns every text of which a name with these colons can have been derived: each was a space, an at
// sign or a colon. No period has more than six.
func withoutColons(pace string) []string {
	const most = 6
	parts := strings.Split(pace, ":")
	if len(parts) > most+1 {
		return nil
	}
	texts := parts[:1:1]
	for _, part := range parts[1:] {
		longer := make([]string, 0, 3*len(texts))
		for _, text := range texts {
			longer = append(longer, text+" "+part, text+"@"+part, text+":"+part)
		}
		texts = longer
	}
	return texts
}

// banText returns the text of which the terms of a ban, "10m:10m*2:7d:1d", were derived.
func banText(terms string) string {
	parts := strings.Split(strings.Replace(terms, "*", ":", 1), ":")
	for i, word := range [...]string{"", "first ", "factor ", "longest ", "forget "} {
		if i < len(parts) {
			parts[i] = word + parts[i]
		}
	}
	return strings.Join(parts, ", ")
}

package guard

import (
	"math"
	"mime"
	"strconv"
	"strings"
)

// mostAccepted bounds how many bytes of an Accept header are looked at.
const mostAccepted = 1 << 10

// prefersPlainText reports whether the lines of an Accept header rank text/plain strictly
// above JSON. Without a header, or with */*, it does not.
func prefersPlainText(accept []string) bool {
	var plain, problem preference
	text := strings.Join(accept, ",")
	for item := range strings.SplitSeq(text[:min(len(text), mostAccepted)], ",") {
		mediaType, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := quality(parameters)
		switch mediaType {
		case "text/plain":
			plain.take(3, q)
		case "application/problem+json":
			problem.take(4, q)
		case "application/json":
			problem.take(3, q)
		case "text/*":
			plain.take(2, q)
		case "application/*":
			problem.take(2, q)
		case "*/*":
			plain.take(1, q)
			problem.take(1, q)
		}
	}
	return plain.quality > problem.quality
}

// preference is the quality that the most specific range so far gives to a type.
type preference struct {
	specificity int
	quality     float64
}

func (p *preference) take(specificity int, quality float64) {
	switch {
	case specificity > p.specificity:
		*p = preference{specificity, quality}
	case specificity == p.specificity:
		p.quality = max(p.quality, quality)
	}
}

func quality(parameters map[string]string) float64 {
	text, given := parameters["q"]
	if !given {
		return 1
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(q) || q < 0 || q > 1 {
		return 0
	}
	return q
}

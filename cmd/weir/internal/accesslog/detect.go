package accesslog

import (
	"bytes"
	"errors"
	"time"
)

// ErrUnknown is the error of a log in none of the formats, as far as its first lines tell.
var ErrUnknown = errors.New("the first lines are in none of the formats that weir reads: nginx, Apache, ALB, Caddy, Traefik, JSON lines")

// Detect returns the format of a log that begins with these lines: the one that most of them are in.
func Detect(head []byte) (Format, error) {
	parsers := []struct {
		format Format
		parser Parser
	}{{Combined, &combinedLines{}}, {ALB, &albLines{}}, {JSON, newJSONLines(Options{Zone: time.UTC})}}
	best, most := Format(""), 0
	for _, p := range parsers {
		fits := 0
		for line := range bytes.Lines(head) {
			line = bytes.TrimRight(line, "\r\n")
			var r Record
			err := p.parser.Parse(line, &r)
			if err == nil || errors.Is(err, ErrNoKey) || p.format == JSON && errors.Is(err, errNoInstant) {
				fits++
			}
		}
		if fits > most {
			best, most = p.format, fits
		}
	}
	if most == 0 {
		return "", ErrUnknown
	}
	return best, nil
}

package main

import (
	"regexp"
	"slices"
	"strings"
)

// packages are the names that begin errors of packages, such as "core: ". They mean something to those who write programs.
var packages = []string{
	"admin", "core", "doctor", "guard", "headers", "keyfuncs", "lists", "policies", "ratelimit", // of this library
	"asn1", "gzip", "json", "pem", "time", "tls", "x509", "yaml",
}

// unparsed is what package cli writes of a flag that does not fit, with the names of the functions that have read it.
var unparsed = regexp.MustCompile(`(?s)^(invalid value ".*" for flag \S+: )(?:strconv\.\w+: parsing ".*": |time: )`)

// plain returns the text of an error without the names of packages. Each error of the chain begins with one at most: what looks like another one is a
// word of a message, such as the name of a file.
func plain(err error) string {
	var causes []error
	switch err := any(err).(type) {
	case interface{ Unwrap() error }:
		causes = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		causes = err.Unwrap()
	}
	rest := err.Error()
	var own []string // the texts between those of the causes
	var told []string
	for i, cause := range causes {
		if cause == nil {
			continue
		}
		at := strings.Index(rest, cause.Error())
		if i == len(causes)-1 { // it is the end of most messages
			at = strings.LastIndex(rest, cause.Error())
		}
		if at >= 0 {
			own, told = append(own, rest[:at]), append(told, plain(cause))
			rest = rest[at+len(cause.Error()):]
		}
	}
	own = append(own, rest)
	if name, after, begins := strings.Cut(own[0], ": "); begins && slices.Contains(packages, name) {
		own[0] = after
	}
	own[0] = unparsed.ReplaceAllString(own[0], "$1")
	var text strings.Builder
	for i, part := range own {
		text.WriteString(part)
		if i < len(told) {
			text.WriteString(told[i])
		}
	}
	return text.String()
}

package doctor

import (
	"errors"
	"fmt"
	"strings"
)

// Severity says how much a [Finding] matters.
type Severity string

const (
	// OK means that something is as it should be.
	OK Severity = "ok"
	// Notice means that there is something to know: the limiter works, but not as well or as
	// safely as it could, or something could not be examined.
	Notice Severity = "notice"
	// Problem means that there is something to repair: requests are, or will be, decided
	// wrongly or not at all.
	Problem Severity = "problem"
)

// Finding is one thing that [Examine] has found. It holds addresses, but no password, no
// user name and no caller's key, unless an error message of the server or the network has one.
type Finding struct {
	// Name is the subject of the finding; see [Examine] for the names.
	Name string
	// Server is the address of the server that the finding is about. It is empty if the
	// finding is about this process.
	Server string
	// Severity is how much it matters.
	Severity Severity
	// Found is the fact, such as "maxmemory-policy is allkeys-lru".
	Found string
	// Meaning explains the consequences for the limits, in whole sentences. It may be empty where all is well.
	Meaning string
	// Advice tells how to mend it, in whole sentences. It is empty where there is nothing to do.
	Advice string
}

// String returns the finding as one line.
func (f Finding) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", f.Severity, f.Name)
	if f.Server != "" {
		fmt.Fprintf(&text, " (%s)", f.Server)
	}
	fmt.Fprintf(&text, ": %s", f.Found)
	for _, more := range [...]string{f.Meaning, f.Advice} {
		if more != "" {
			fmt.Fprintf(&text, ". %s", strings.TrimSuffix(more, "."))
		}
	}
	return text.String()
}

// Report is the result of [Examine]: first about this process and its client, then server by server.
type Report []Finding

// Err returns an error that names every problem, or nil if there is none. A notice is
// no error.
func (r Report) Err() error {
	var problems []error
	for _, f := range r {
		if f.Severity == Problem {
			problems = append(problems, fmt.Errorf("doctor: %s", strings.TrimPrefix(f.String(), string(Problem)+": ")))
		}
	}
	return errors.Join(problems...)
}

// String returns the report as a table for people, with a heading for each server.
func (r Report) String() string {
	const indent = "                        " // of the lines below the name
	var text strings.Builder
	for i, f := range r {
		if i == 0 || f.Server != r[i-1].Server {
			heading := "this process"
			if f.Server != "" {
				heading = f.Server
			}
			fmt.Fprintln(&text, heading)
		}
		fmt.Fprintf(&text, "  %-8s  %-11s  %s\n", f.Severity, f.Name, f.Found)
		if f.Meaning != "" {
			fmt.Fprintf(&text, "%s %s\n", indent, f.Meaning)
		}
		if f.Advice != "" {
			fmt.Fprintf(&text, "%s -> %s\n", indent, f.Advice)
		}
	}
	return text.String()
}

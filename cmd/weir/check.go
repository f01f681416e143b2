package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/serving"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

const (
	exitInvalid = 5 // the policies make no sense, and a command other than check needs them
	exitDenied  = 6 // the request would be denied
)

const checkHelp = `Reads a file of policies, and says what it means: which requests meet which limits, and what the program has to give. If it makes no sense,
it says line, column and what to write. "-" is standard input.

A word that is no key, cost or settlement of its own is a name that the program gives a function to, or a misspelling. Say by -has which names it
gives functions to: all others are errors, as they are when the program starts.

   weir check -has user -has tokens limits.yaml

A file that names a domain is one of weir serve, for Envoy: see docs/envoy.md. A directory has such files, and is read with those below it as weir serve
reads it: RUNTIME_IGNOREDOTFILES and MERGE_DOMAIN_CONFIG count, and a domain that two files name is a mistake.

   weir check limits/

Exit codes:
   0  it makes sense
   1  it makes no sense, names a function that -has does not, is not signed by the key of -signed, or could not be read
   2  the command line makes no sense`

// Checked is the output of weir check as JSON.
type Checked struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	// Errors are in the order of the file. There are none if it is valid.
	Errors []Mistake `json:"errors,omitempty"`
	// Says is the meaning of the file, a sentence each.
	Says []string `json:"says,omitempty"`
	// Needs are the names that the program has to give functions to, also if it is only for want of them that the file is not valid.
	Needs *policies.Needs `json:"needs,omitempty"`
	// Serial is the number that was signed with the file, if -signed is given.
	Serial int64 `json:"serial,omitempty"`
}

// Mistake is one thing that is wrong with a file.
type Mistake struct {
	// File is the file of a directory.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Reason string `json:"reason"`
}

func checkCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "says whether a file of policies, or of weir serve, makes sense, and puts it into words",
		UsageText: "weir check [options] limits.yaml", Description: checkHelp,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "has", Usage: "the program gives a function to this `NAME`; repeatable"},
			&cli.StringFlag{Name: "signed", Usage: "the `FILE` of a public key, in PEM: the policies have to be signed by it, as weir sign does"},
			&cli.BoolFlag{Name: "json", Usage: "write JSON to standard output"},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Len() != 1 {
				return usage("name one file of policies, or one file or directory of weir serve: see weir help check")
			}
			options, err := having(c.StringSlice("has"))
			if err != nil {
				return err
			}
			name := c.Args().First()
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				return checkDirectory(c, name, stdout)
			}
			text, err := textOf(name, stdin)
			if err != nil {
				return err
			}
			if descriptors.Recognize(text) && c.String("signed") == "" {
				config, err := descriptors.Parse([]descriptors.File{{Name: name, Text: text}}, descriptors.Options{})
				return tellDescriptors(Checked{File: name}, config, err, c.Bool("json"), stdout)
			}
			result := Checked{File: name}
			if key := c.String("signed"); key != "" {
				if result.Serial, err = checkSignature(name, text, key); err != nil {
					return err
				}
			}
			document, invalid := parsePolicies(name, text)
			if invalid == nil {
				needs := document.Needs()
				result.Needs = &needs
				invalid = lacking(name, document, options, c.StringSlice("has"))
			}
			mistakes, malformed := errors.AsType[policies.Errors](invalid)
			if invalid != nil && (!malformed || !c.Bool("json")) {
				return invalid
			}
			result.Valid = invalid == nil
			for _, m := range mistakes {
				result.Errors = append(result.Errors, Mistake{Line: m.Line, Column: m.Column, Reason: m.Reason})
			}
			if result.Valid {
				result.Says = describe(document)
				if result.Serial > 0 {
					result.Says = append(result.Says, fmt.Sprintf("It is signed with the serial number %d.", result.Serial))
				}
			}
			if c.Bool("json") {
				return errors.Join(writeJSON(stdout, result), invalid)
			}
			_, err = fmt.Fprintf(stdout, "%s makes sense.\n\n%s\n", called(name), strings.Join(result.Says, "\n"))
			return err
		},
	}
}

// checkDirectory says whether the files of a directory make sense together, as weir serve reads them.
func checkDirectory(c *cli.Command, name string, stdout io.Writer) error {
	if c.IsSet("signed") || c.IsSet("has") {
		return usage("-signed and -has are for one file of policies, and %s is a directory of files of weir serve", name)
	}
	settings, err := serving.FromEnvironment(os.Environ())
	if err != nil {
		return usage("%w", err)
	}
	settings.Config = name
	config, err := settings.Read()
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return err
	}
	if err == nil && len(config.Names()) == 0 {
		err = errors.New("no file in it names a domain")
	}
	return tellDescriptors(Checked{File: name}, config, err, c.Bool("json"), stdout)
}

// tellDescriptors tells what files of weir serve mean, or the error because of which they make no sense.
func tellDescriptors(result Checked, config *descriptors.Config, err error, asJSON bool, stdout io.Writer) error {
	if result.Valid = err == nil; result.Valid {
		result.Says = config.Describe()
	}
	mistakes, malformed := errors.AsType[descriptors.Errors](err)
	for _, m := range mistakes {
		one := Mistake{Line: m.Line, Column: m.Column, Reason: m.Reason}
		if m.File != result.File {
			one.File = m.File
		}
		result.Errors = append(result.Errors, one)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%s makes no sense:\n%w", called(result.File), err)
	case !asJSON:
		_, err = fmt.Fprintf(stdout, "%s makes sense.\n\n%s\n", called(result.File), strings.Join(result.Says, "\n"))
	}
	if asJSON && (err == nil || malformed) {
		return errors.Join(writeJSON(stdout, result), err)
	}
	return err
}

// having returns the options of a program that gives functions to some names. A file may use each for any purpose.
func having(names []string) (policies.Options, error) {
	options := policies.Options{
		Keys: make(map[string]keyfuncs.Func), Costs: make(map[string]func(*http.Request) int),
		Settle: make(map[string]func(*http.Request, guard.Served) int),
		Plan:   func(*http.Request) string { return "" },
	}
	for _, name := range names {
		if !functionName.MatchString(name) {
			return policies.Options{}, usage("-has %q is no name of letters, digits, - and _", name)
		}
		options.Keys[name], options.Costs[name] = keyfuncs.Global, func(*http.Request) int { return 1 }
		options.Settle[name] = func(_ *http.Request, s guard.Served) int { return s.Cost }
	}
	return options, nil
}

var functionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// lacking returns an error if a document needs functions that the program does not have.
func lacking(name string, d *policies.Document, options policies.Options, has []string) error {
	_, err := d.Set(options)
	if err == nil {
		return nil
	}
	var lacks strings.Builder
	needs := d.Needs()
	named := slices.Concat(needs.Keys, needs.Costs, needs.Settle)
	for i, one := range named {
		if !slices.Contains(has, one) && !slices.Contains(named[:i], one) {
			lacks.WriteString(" -has " + one)
		}
	}
	const text = "%s names functions that the program may not have:\n%w\nIf it has all of them, say so: weir check%s"
	return fmt.Errorf(text, called(name), err, lacks.String())
}

// readPolicies reads a file of policies, or standard input. The error of one that makes no sense has the exit code for that.
func readPolicies(name string, stdin io.Reader) (*policies.Document, error) {
	text, err := textOf(name, stdin)
	if err != nil {
		return nil, err
	}
	document, err := parsePolicies(name, text)
	if err != nil {
		return nil, exitError{err, exitInvalid}
	}
	return document, nil
}

// textOf reads a file of policies, or standard input. Of a longer one than policies may be it reads no more than shows that.
func textOf(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, policies.MostBytes+1))
	}
	return readFirst(name, policies.MostBytes+1)
}

// mostOfKey is how many bytes of the file of a key are read.
const mostOfKey = 1 << 16

// readFirst reads the first bytes of a file.
func readFirst(path string, most int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the user says which file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return io.ReadAll(io.LimitReader(f, most))
}

func parsePolicies(name string, text []byte) (*policies.Document, error) {
	document, err := policies.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s makes no sense:\n%w", called(name), err)
	}
	return document, nil
}

// describe puts a document into words, a sentence a line.
func describe(d *policies.Document) []string {
	var lines []string
	if len(d.Lists.Allow)+len(d.Lists.Deny) > 0 {
		lines = append(lines, fmt.Sprintf("Before all policies, %s and %s, by %s.",
			counted(len(d.Lists.Allow), "entry passes", "entries pass"), counted(len(d.Lists.Deny), "entry is denied", "entries are denied"),
			cmp.Or(d.Lists.Address, "the TCP peer")))
	}
	for i := range d.Policies {
		lines = append(lines, sentence(d, &d.Policies[i]))
	}
	if d.LimitsNothing {
		lines = append(lines, "No request is limited.")
	}
	needs := d.Needs()
	for _, need := range []struct {
		names  []string
		option string
	}{{needs.Keys, "WithKey"}, {needs.Costs, "WithCost"}, {needs.Settle, "WithSettle"}} {
		if len(need.names) > 0 {
			lines = append(lines, fmt.Sprintf("The program has to give %s functions for %s.", need.option, strings.Join(need.names, ", ")))
		}
	}
	if needs.Plan {
		lines = append(lines, "The program has to say by WithPlan which plan a request is of.")
	}
	return lines
}

// sentence puts a policy into words.
func sentence(d *policies.Document, p *policies.Policy) string {
	parts := []string{p.Requests(), limitInWords(d, p)}
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(p.Key != "", "for each key of %q", p.Key)
	add(p.Cost != "", "a request costs %s", p.Cost)
	add(p.Headroom > 0, "a headroom of %d", p.Headroom)
	add(p.Share != "", "shared by tenants, which %q names", p.Share)
	add(len(p.Settle.Units) > 0 || p.Settle.Name != "", "what it has really cost is settled")
	add(p.MaxWait > 0, "requests wait up to %v for a place", p.MaxWait)
	add(p.Undelayed > 0, "%d more pass without delay", p.Undelayed)
	add(p.ReserveFor > 0, "the cost is reserved for %v", p.ReserveFor)
	add(p.Shadow, "a shadow, which denies no request")
	add(p.Enforced > 0 && p.Enforced < 100, "enforced for %v%% of the keys, and a shadow for the others", p.Enforced)
	add(p.OnError != "", "%s when the store cannot answer", map[string]string{
		"open": "open", "closed": "closed", "fallback": "each process keeps its share",
	}[p.OnError])
	return fmt.Sprintf("%s: %s.", p.Title(), strings.Join(parts, "; "))
}

func limitInWords(d *policies.Document, p *policies.Policy) string {
	switch {
	case len(p.FirstOf) > 0:
		texts := make([]string, len(p.FirstOf))
		for i := range p.FirstOf {
			texts[i] = limitInWords(d, &p.FirstOf[i])
		}
		return "the first that has room of " + strings.Join(texts, ", or ")
	case p.Ban != "":
		if ban, named := d.Bans[p.Ban]; named {
			return ban.String()
		}
		return p.Ban
	}
	if limit, named := d.Limits[p.Limit]; named {
		return limit.String()
	}
	if plans, named := d.Plans[p.Limit]; named {
		return counted(len(plans), "plan", "plans") + " of " + p.Limit
	}
	return p.Limit
}

// capitalized returns words as the beginning of a sentence.
func capitalized(words string) string { return strings.ToUpper(words[:1]) + words[1:] }

func counted(n int, one, several string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "one " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

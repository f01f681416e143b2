package policies

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/poll"
)

// Set is the policies of a document with the functions of the program. Give it to FromPolicies, of the adapters. It may be used by many
// goroutines at once.
type Set struct {
	options Options

	mu        sync.Mutex
	document  *Document
	rules     guard.Rules
	followers []func(guard.Rules) (use func(), err error)
}

// Set returns the set of a document that does not change. It returns an [Errors] if the document makes no sense, and if it names
// functions that the options do not have.
func (d *Document) Set(options Options) (*Set, error) {
	s := &Set{options: options.checked()}
	if err := s.swap(d); err != nil {
		return nil, err
	}
	return s, nil
}

// Needs returns the parts that the program has to supply for the document.
func (d *Document) Needs() Needs {
	c := compiler{document: d, assumes: true}
	c.compile()
	return c.needs
}

// Document returns the document of now.
func (s *Set) Document() *Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.document
}

// Follow is for package guard: see [guard.RuleSet].
func (s *Set) Follow(prepare func(guard.Rules) (use func(), err error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	use, err := prepare(s.rules)
	if err != nil {
		return err
	}
	use()
	s.followers = append(s.followers, prepare)
	return nil
}

// swap puts a document in force, everywhere or nowhere.
func (s *Set) swap(d *Document) error {
	c := compiler{document: d, program: s.options}
	rules := c.compile()
	if len(c.errors) > 0 {
		return c.errors
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := make([]func(), len(s.followers))
	for i, prepare := range s.followers {
		use, err := prepare(rules)
		if err != nil {
			return err
		}
		uses[i] = use
	}
	s.document, s.rules = d, rules
	for _, use := range uses {
		use()
	}
	return nil
}

// Watch reads a set from a source, and again every few seconds until ctx ends:
//
//	set, err := policies.Watch(ctx, policies.File("limits.yaml"), policies.Options{})
//
// Each reading replaces the whole set between two requests: each request meets one set in each middleware. If a reading
// fails, or its document is invalid, the set stays as it was, for as long as that lasts, and OnError is called. The
// same goes for a text that limits nothing, unless it says so itself. When the set is replaced, the log has the changes,
// and OnChange is called.
//
// Watch returns an error if the source cannot be read at the start, unless Start gives the first document. Its
// goroutine is the only one that asks the source, and ends with ctx, after which the set stays as it is.
func Watch(ctx context.Context, source Source, options Options) (*Set, error) {
	if source.read == nil {
		panic("policies: Watch: the source is the zero Source: use File, Redis or Func")
	}
	s := &Set{options: options.checked()}
	if start := s.options.Start; start != nil {
		if err := s.swap(start); err != nil {
			return nil, err
		}
	}
	loop := poll.Loop{
		Name:  "policies: " + source.name,
		Every: s.options.Every, OnError: s.options.OnError, Logger: s.options.Logger,
		Warning: "policies: the policies could not be read, and stay as they were",
	}
	loop.Read = func(ctx context.Context) error {
		before := s.Document()
		err := source.read(ctx, s.swapText)
		if now := s.Document(); before != nil && now != before {
			s.options.report(&loop, source.name, Between(before, now))
		}
		if err != nil {
			return fmt.Errorf("policies: %s: %w", source.name, err)
		}
		return nil
	}
	if err := loop.Start(ctx, s.options.Start != nil); err != nil {
		return nil, err
	}
	return s, nil
}

// mostLogged is how many changes one line of the log names.
const mostLogged = 20

// report tells the log and the program of changes that are in force.
func (o *Options) report(loop *poll.Loop, source string, changes Changes) {
	lines := make([]string, 0, min(len(changes), mostLogged)+1)
	for i := range changes[:min(len(changes), mostLogged)] {
		lines = append(lines, strings.Join(append([]string{changes[i].String()}, changes[i].Says...), " "))
	}
	if more := len(changes) - mostLogged; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	loop.Call("the logger", func() {
		logger := o.Logger
		if logger == nil {
			logger = slog.Default()
		}
		logger.Info("policies: another document is in force", slog.String("source", source), slog.String("summary", changes.Summary()),
			slog.Any("changes", lines))
	})
	loop.Call("the function that is told of changes", func() { o.OnChange(changes) })
}

// unchanged is for how long a file must not have changed, so that its first half is not read alone.
const unchanged = time.Second

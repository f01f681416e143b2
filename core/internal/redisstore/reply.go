package redisstore

import (
	"errors"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// scriptReply is a server's reply to a batch.
type scriptReply struct {
	text    string
	instant bool // the instant of the decision was asked for
	err     error
}

// share gives each group its part of the reply. It returns the error of the script run, or an error if
// the reply is none to these requests.
func (a scriptReply) share(one run) error {
	groups, text, refusal, refused := one.groups, a.text, "", false
	if one.does.Settles() {
		text, refusal, refused = strings.Cut(text, "\n")
	}
	numbers := script.Reader{Rest: text}
	for _, g := range groups {
		g.Answer.Text = numbers.Cut(g.Request.Numbers)
	}
	at, ok := numbers.End(a.instant)
	err := a.err
	if err == nil && !ok {
		err = script.Garbled(text)
	}
	for _, g := range groups {
		g.Answer.At, g.Err = at, err
	}
	if err == nil && refused {
		return shareRefusal(groups, refusedBy(refusal))
	}
	return err
}

// shareRefusal gives an error to the groups with corrections that Redis has refused, and returns it if
// those are all groups. If some corrections of a group were carried out, its error has the places of the
// others.
func shareRefusal(groups []*requestGroup, err error) error {
	all := true
	for _, g := range groups {
		switch refused := script.Failed(g.Answer.Text); len(refused) {
		case 0:
			all = false
		case g.Request.Numbers:
			g.Err = err
		default:
			g.Err = refusedInPart(refused, err)
		}
	}
	if all {
		return err
	}
	return nil
}

// refusedInPart returns the error of corrections of which Redis has refused some.
func refusedInPart(refused []int, err error) error {
	failures := call.JoinErrors([]error{err, call.ErrPartlySettled})
	if !errors.Is(err, call.ErrNotDone) { // so it is unknown whether these were carried out, too
		return failures
	}
	return &call.PartlySettledError{NotDone: refused, Err: failures}
}

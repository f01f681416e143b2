package core

import (
	"errors"
	"strconv"
	"strings"
)

// scriptReply is what a server has replied to a batch.
type scriptReply struct {
	text    string
	instant bool // the instant of the decision was asked for
	err     error
}

// share gives each group its share of the answer to a task, and returns the error of the server:
// that of the call, or that the reply is none to these requests.
func (a scriptReply) share(does task, groups []*requestGroup) error {
	text, refusal, refused := a.text, "", false
	if does == settle {
		text, refusal, refused = strings.Cut(text, "\n")
	}
	numbers := numberReader{rest: text}
	for _, g := range groups {
		g.Answer.text = numbers.cut(g.Question().numbers)
	}
	at, ok := numbers.end(a.instant)
	err := a.err
	if err == nil && !ok {
		err = garbled(text)
	}
	for _, g := range groups {
		g.Answer.at, g.Err = at, err
	}
	if err == nil && refused {
		return shareRefusal(groups, refusedBy(refusal))
	}
	return err
}

// shareRefusal gives the groups an error of whose corrections Redis has refused one, and returns
// it if those are all. A group of which some were carried out is told the places of the others.
func shareRefusal(groups []*requestGroup, err error) error {
	all := true
	for _, g := range groups {
		switch refused := refusedPlaces(g.Answer.text); len(refused) {
		case 0:
			all = false
		case g.Question().numbers:
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

// refusedPlaces returns the places of the ones in a reply about corrections.
func refusedPlaces(text string) (places []int) {
	for i, number := range strings.Split(text, " ") {
		if number == "1" {
			places = append(places, i)
		}
	}
	return places
}

// refusedInPart returns the error of corrections of which Redis has refused some.
func refusedInPart(refused []int, err error) error {
	failures := joined([]error{err, errPartlySettled})
	if !errors.Is(err, ErrNotDone) { // so it is not known either what has become of those
		return failures
	}
	return &partlySettledError{refused, failures}
}

func garbled(text string) error {
	return failed(Garbled, "core: redis replied %.100q, which is no answer to the call", text)
}

// numberReader reads the whole numbers in a text that spaces separate. A mark may follow a number.
type numberReader struct {
	rest  string
	wrong bool // there was something else, or nothing
}

// What marks a number in a reply.
const (
	unmarked = 0
	// replaced says that the key held something that no limit could have left, and was replaced.
	replaced = '!'
	// renewed says that the key had no time to live, and has one now.
	renewed = '+'
)

func (n *numberReader) next() (number int64, mark byte) {
	text, rest, _ := strings.Cut(n.rest, " ")
	if last := len(text) - 1; last >= 0 && (text[last] == replaced || text[last] == renewed) {
		text, mark = text[:last], text[last]
	}
	number, err := strconv.ParseInt(text, 10, 64)
	n.rest, n.wrong = rest, n.wrong || err != nil || number < 0
	return number, mark
}

// end reads the instant of a decision, if that is to be there, and reports whether all that was
// read was right and nothing is left.
func (n *numberReader) end(instant bool) (at int64, ok bool) {
	if instant {
		at, _ = n.next()
	}
	return at, !n.wrong && n.rest == ""
}

// cut returns the text of the next numbers, unread but for where it begins.
func (n *numberReader) cut(numbers int) string {
	if n.rest == "" || n.rest[0] < '0' || n.rest[0] > '9' {
		n.wrong = true
	}
	end := -1
	for range numbers {
		space := strings.IndexByte(n.rest[end+1:], ' ')
		if space < 0 {
			text := n.rest
			n.rest = ""
			return text // what is missing shows when it is read
		}
		end += 1 + space
	}
	text := n.rest[:end]
	n.rest = n.rest[end+1:]
	return text
}

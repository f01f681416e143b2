package script

import (
	"errors"
	"strconv"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Reply is a script's reply to one request.
type Reply struct {
	Text string
	At   int64 // the instant of the decision, if it was wanted
}

// Unknown is behind the number of a plain check if its script has done nothing, since the state is not as the check's limit
// leaves it: it is damaged, from the future, or was left by other numbers. Then [Decide] or [Reserve] is to be asked.
const Unknown = '*'

// Mark is a script's remark about a key, besides its usage.
type Mark byte

// The marks.
const (
	Unmarked Mark = 0
	// Replaced says that the key held something that no limit could have left, and was replaced.
	Replaced Mark = '!'
	// Renewed says that the key had no time to live, and has one now.
	Renewed Mark = '+'
	// Reclaimed says that leases had ended without their places having been given back, and that other holders have these
	// places now; or that reservations had ended, and were given back.
	Reclaimed Mark = '-'
	// Further says that the server's clock is further from the caller's than the windows that were sent:
	// see [Again].
	Further Mark = '?'
)

// Garbled returns the error of a reply that is none to the request.
func Garbled(text string) error {
	return call.Sent(call.Garbled, "core: redis replied %.100q, which is no answer to the call", text)
}

// ErrFurther is the error of a reply that is marked Further.
var ErrFurther = errors.New("the clock of redis is further away")

// Observe sets the usages of the checks in groups from a reply. If a call was asked several times, it takes the one at a
// place, from 0. marked is called with each check that has a marked key.
func Observe(groups [][]call.Check, text string, place int, marked func(*call.Check, Mark)) (err error) {
	numbers := Reader{Rest: text}
	for _, group := range groups {
		for i := range group {
			c := &group[i]
			usage, mark := numbers.usage(c.Spec)
			c.Usage = usage
			if c.Settled && c.Noted() {
				if c.Charged.Order, _ = numbers.next(); c.Charged.Order > 0 {
					c.Charged.Order += int64(place)
					call.SetNumber(group, i, c.Charged.Order)
				}
			}
			switch {
			case mark == Further:
				err = ErrFurther
			case mark != Unmarked && place == 0:
				marked(c, mark)
			}
		}
		if place > 0 {
			call.Advance(group, place)
		}
	}
	if numbers.wrong {
		return Garbled(text)
	}
	return err
}

// ObserveSettled sets the usages after corrections from a reply. A correction that was not carried out has none.
func ObserveSettled(list []call.Correction, text string) error {
	for i := range list {
		c := &list[i]
		word, rest, _ := strings.Cut(text, " ")
		text = rest
		done, seen, _ := strings.Cut(word, ",")
		if done == further {
			at, err := strconv.ParseInt(seen, 10, 64)
			if err != nil {
				return Garbled(word)
			}
			c.Further = at
			continue
		}
		c.Lost, c.Begun, c.More = done == lost, done == begun, done == more
		if c.Wanted && done != refused {
			numbers := Reader{Rest: strings.ReplaceAll(seen, ",", " ")}
			usage, _ := numbers.usage(c.Spec)
			if _, ok := numbers.End(false); !ok {
				return Garbled(word)
			}
			c.Usage, c.Observed = usage, true
		}
	}
	return nil
}

// marks are all of them.
const marks = string(Replaced) + string(Renewed) + string(Reclaimed) + string(Further)

// Reader reads the whole numbers in a reply, which spaces separate. A mark may follow a number.
type Reader struct {
	// Rest is the unread part of the reply.
	Rest string

	wrong bool // there was something else, or nothing
}

func (r *Reader) next() (number int64, mark Mark) {
	text, rest, _ := strings.Cut(r.Rest, " ")
	if last := len(text) - 1; last >= 0 && strings.IndexByte(marks, text[last]) >= 0 {
		text, mark = text[:last], Mark(text[last])
	}
	number, err := strconv.ParseInt(text, 10, 64)
	r.Rest, r.wrong = rest, r.wrong || err != nil || number < 0
	return number, mark
}

// usage reads the usage of a limit, and the mark behind it.
func (r *Reader) usage(of *exact.Spec) (usage exact.Usage, mark Mark) {
	var seen [4]int64
	for i := range of.Observed {
		seen[i], mark = r.next()
	}
	return exact.Usage{Used: seen[0], Second: seen[1], Third: seen[2], Fourth: seen[3]}, mark
}

// End reads the instant of a decision, if that is to be there, and reports whether all that was read
// was right and nothing is left.
func (r *Reader) End(instant bool) (at int64, ok bool) {
	if instant {
		at, _ = r.next()
	}
	return at, !r.wrong && r.Rest == ""
}

// Cut returns the text of the next numbers, unread but for where it begins.
func (r *Reader) Cut(numbers int) string {
	if r.Rest == "" || r.Rest[0] < '0' || r.Rest[0] > '9' {
		r.wrong = true
	}
	end := -1
	for range numbers {
		space := strings.IndexByte(r.Rest[end+1:], ' ')
		if space < 0 {
			text := r.Rest
			r.Rest = ""
			return text // the missing part shows when it is read
		}
		end += 1 + space
	}
	text := r.Rest[:end]
	r.Rest = r.Rest[end+1:]
	return text
}

// refused is the reply about a correction that was not carried out.
const refused = "1"

// further is the reply about a correction that has to be sent again for an instant; the instant is behind it.
const further = "4"

// lost is the reply about a renewal that has found nothing.
const lost = "2"

// begun is the reply about strikes that have begun a ban.
const begun = "3"

// more is how a reply tells of a reset that has not removed all holders of places.
const more = "5"

// Failed returns the places of the corrections that a reply says were not carried out.
func Failed(text string) (places []int) {
	for i, number := range strings.Split(text, " ") {
		if number == refused {
			places = append(places, i)
		}
	}
	return places
}

package core

import (
	"strconv"
	"strings"
)

// deliver hands each request of a batch its share of the reply, and returns the error
// that they get: that of the call, or that the reply is none to these questions.
func deliver(batch []*request, reply string, err error) error {
	var at int64
	if err == nil {
		at, err = share(batch, reply)
	}
	for _, request := range batch {
		request.at, request.err = at, err
		request.answered <- struct{}{}
	}
	return err
}

// share cuts a reply into the shares of a batch, and returns the instant of the
// decision if the reply ends with it.
func share(batch []*request, reply string) (at int64, err error) {
	numbers, instant := numberReader{rest: reply}, false
	for _, request := range batch {
		request.reply = numbers.cut(request.numbers)
		instant = instant || request.instant
	}
	if instant {
		at, _ = numbers.next()
	}
	if numbers.wrong || numbers.rest != "" {
		return 0, failed(Garbled, "core: redis replied %.100q, which is no answer to the question", reply)
	}
	return at, nil
}

// numberReader reads the whole numbers in a text that spaces separate. A "!" may
// follow a number.
type numberReader struct {
	rest  string
	wrong bool // there was something else, or nothing
}

func (n *numberReader) next() (number int64, marked bool) {
	text, rest, _ := strings.Cut(n.rest, " ")
	text, marked = strings.CutSuffix(text, "!")
	number, err := strconv.ParseInt(text, 10, 64)
	n.rest, n.wrong = rest, n.wrong || err != nil || number < 0
	return number, marked
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

package arrival

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MostUnread is how many clients' unreadable lines are counted apart.
const MostUnread = 1000

// Unread is a client, and how many of its lines could not be read.
type Unread struct {
	Address string
	Lines   int64
}

// unread counts unreadable lines by the addresses of their clients.
type unread map[string]int64

// add counts the lines of an address. Those of more than MostUnread addresses are not counted apart.
func (u *unread) add(address string, lines int64) {
	if _, known := (*u)[address]; !known && len(*u) == MostUnread {
		return
	}
	if *u == nil {
		*u = make(unread)
	}
	(*u)[address] += lines
}

// Unread returns the clients of which lines could not be read, as far as their addresses could be: those with the most lines first.
func (s *Summary) Unread() []Unread {
	all := make([]Unread, 0, len(s.unread))
	for address, lines := range s.unread {
		all = append(all, Unread{address, lines})
	}
	slices.SortFunc(all, func(a, b Unread) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Address, b.Address))
	})
	return all
}

// Hidden names the clients of the lines that could not be read. It is empty if all could be read. name returns the name of a client, and read
// reports whether a line of a client could be read; nil means that this is not known.
func (s *Summary) Hidden(name func(address string) string, read func(address string) bool) string {
	if s.Skipped == 0 {
		return ""
	}
	says := fmt.Sprintf("%d of %d lines could not be read, and count nowhere.", s.Skipped, s.Lines)
	clients := s.Unread()
	if len(clients) == 0 {
		return says + " They do not tell whose they are."
	}
	var lines int64
	var vanished []string
	named := func(c Unread) string { return fmt.Sprintf("%s (%d)", name(c.Address), c.Lines) }
	for _, c := range clients {
		lines += c.Lines
		if read != nil && !read(c.Address) {
			vanished = append(vanished, named(c))
		}
	}
	most := make([]string, len(clients))
	for i, c := range clients {
		most[i] = named(c)
	}
	says += fmt.Sprintf(" By their addresses, %d of them are of %s.", lines, listed(most))
	if len(vanished) > 0 {
		says += fmt.Sprintf(" Nothing here is about %s: no line of theirs could be read.", listed(vanished))
	}
	return says
}

// listed names the first few of some clients.
func listed(clients []string) string {
	const most = 5
	if more := len(clients) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(clients[:most], ", "), more)
	}
	return strings.Join(clients, ", ")
}

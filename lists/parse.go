package lists

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

const (
	// keyMark begins an entry that is a key.
	keyMark = "key:"
	// longestLine bounds the lines of a file, in bytes.
	longestLine = 64 << 10
	// mostErrors is how many wrong lines an error tells of.
	mostErrors = 10
)

// Parse reads a list, one entry a line: see "Files" in the package documentation. A line that is no entry, or longer than
// 64 KiB, is an error that names the line; an error tells of ten wrong lines at most. With an error there is no list.
func Parse(r io.Reader) (*List, error) {
	l, _, err := parse(r)
	if err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	return l, nil
}

// ParseFile reads a list from a file, as [Parse] does. Its errors name the file.
func ParseFile(path string) (*List, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the program says which file
	if err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	l, _, err := parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("lists: %s: %w", path, err)
	}
	return l, nil
}

// parse reads a list, and returns how many lines that took.
func parse(r io.Reader) (l *List, lines int, err error) {
	l = new(List)
	var wrong []error
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, longestLine)
	for scanner.Scan() {
		lines++
		line := scanner.Text()
		if lines == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // which editors on Windows write
		}
		if err := l.addLine(line); err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", lines, err))
		}
		if len(wrong) == mostErrors {
			break
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		wrong = append(wrong, fmt.Errorf("line %d: more than %d bytes", lines+1, longestLine))
	case err != nil:
		wrong = append(wrong, fmt.Errorf("line %d: %w", lines+1, err))
	}
	if len(wrong) > 0 {
		return nil, lines, errors.Join(wrong...)
	}
	return l, lines, nil
}

// addLine adds the entry in a line, if there is one.
func (l *List) addLine(line string) error {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, keyMark+`"`) {
		return l.addQuoted(line[len(keyMark):])
	}
	entry := withoutComment(line)
	if entry == "" {
		return nil
	}
	if err := l.add(entry); err != nil {
		return fmt.Errorf("%q: %w", entry, err)
	}
	return nil
}

// addQuoted adds a key in quotes, behind which there may be a comment.
func (l *List) addQuoted(text string) error {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return errors.New("a key in quotes is malformed: it is written as a string in Go")
	}
	if rest := text[len(quoted):]; withoutComment(rest) != "" {
		return fmt.Errorf("%q stands behind a key in quotes", strings.TrimSpace(rest))
	}
	key, err := strconv.Unquote(quoted)
	if err != nil || key == "" {
		return errEmptyKey
	}
	l.addKey(key)
	return nil
}

// withoutComment returns a line without the comment and the white space around the rest.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.TrimSpace(line[:i])
		}
	}
	return strings.TrimSpace(line)
}

var errEmptyKey = errors.New("the key is empty")

// parseKey returns the key that an entry is, if it is one.
func parseKey(entry string) (key string, isKey bool, err error) {
	key, isKey = strings.CutPrefix(entry, keyMark)
	if isKey && key == "" {
		return "", true, errEmptyKey
	}
	return key, isKey, nil
}

// parsePrefix reads a prefix or an address, as package keyfuncs reads those of proxies.
func parsePrefix(entry string) (netip.Prefix, error) {
	if !strings.Contains(entry, "/") {
		address, err := netip.ParseAddr(entry)
		switch {
		case err != nil:
			return netip.Prefix{}, errors.New("is no address, no prefix such as 203.0.113.0/24, and no key such as key:user:42")
		case address.Zone() != "":
			return netip.Prefix{}, fmt.Errorf("has the zone %q, which is never compared", address.Zone())
		}
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(entry) // refuses zones
	if err != nil {
		return netip.Prefix{}, errors.New("is no prefix: write an address without a zone, a slash, and how many bits count, as in 203.0.113.0/24")
	}
	if masked := prefix.Masked(); prefix != masked {
		return netip.Prefix{}, fmt.Errorf("has bits set behind its length: write %v for the prefix, or %v for the address alone", masked, prefix.Addr())
	}
	if address := prefix.Addr(); address.Is4In6() {
		// A masked prefix of mapped addresses is at least 96 bits long.
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-96)
	}
	return prefix, nil
}

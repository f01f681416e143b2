package lists_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weir-go/ratelimit/lists"
)

func TestParseReadsOneEntryALine(t *testing.T) {
	list, err := lists.Parse(strings.NewReader("\ufeff# who may not\r\n" +
		"203.0.113.0/24\t# a botnet\r\n" +
		"\r\n" +
		"  2001:db8::/32  \n" +
		"::ffff:198.51.100.0/120\n" +
		"::ffff:192.0.2.7\n" +
		"key:user:42 # left in July\n" +
		"key:user:a#1\n" +
		`key:"user:a #2"# quoted` + "\n" +
		`key:"\ttab\n"` + "\n" +
		"key:user:two words"))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"203.0.113.9", "2001:db8::1", "198.51.100.255", "192.0.2.7"} {
		if !list.Has(netip.MustParseAddr(address), "") {
			t.Errorf("%s is not in the list", address)
		}
	}
	for _, key := range []string{"user:42", "user:a#1", "user:a #2", "\ttab\n", "user:two words"} {
		if !list.Has(netip.Addr{}, key) {
			t.Errorf("key %q is not in the list", key)
		}
	}
	if list.Prefixes() != 4 || list.Keys() != 5 {
		t.Errorf("%d prefixes and %d keys, want 4 and 5", list.Prefixes(), list.Keys())
	}
}

func TestAWrongLineIsNamed(t *testing.T) {
	const none = "is no address, no prefix such as 203.0.113.0/24, and no key such as key:user:42"
	const malformed = "is no prefix: write an address without a zone, a slash, and how many bits count, as in 203.0.113.0/24"
	for line, want := range map[string]string{
		"10.0.0.1/8":            `"10.0.0.1/8": has bits set behind its length: write 10.0.0.0/8 for the prefix, or 10.0.0.1 for the address alone`,
		"::ffff:10.0.0.1/104":   `"::ffff:10.0.0.1/104": has bits set behind its length: write ::ffff:10.0.0.0/104 for the prefix, or ::ffff:10.0.0.1 for the address alone`,
		"::ffff:0.0.0.0/90":     `"::ffff:0.0.0.0/90": has bits set behind its length: write ::ffc0:0:0/90 for the prefix, or ::ffff:0.0.0.0 for the address alone`,
		"fe80::1%eth0":          `"fe80::1%eth0": has the zone "eth0", which is never compared`,
		"fe80::%eth0/10":        `"fe80::%eth0/10": ` + malformed,
		"10.0.0.0/33":           `"10.0.0.0/33": ` + malformed,
		"10.0.0.0/":             `"10.0.0.0/": ` + malformed,
		"10.0.0/24":             `"10.0.0/24": ` + malformed,
		"example.com":           `"example.com": ` + none,
		"010.0.0.1":             `"010.0.0.1": ` + none,
		"10.0.0.1:80":           `"10.0.0.1:80": ` + none,
		"10.0.0.1 10.0.0.2":     `"10.0.0.1 10.0.0.2": ` + none,
		"10.0.0.1-10.0.0.9 # x": `"10.0.0.1-10.0.0.9": ` + none,
		"user:42":               `"user:42": ` + none,
		"key:":                  `"key:": the key is empty`,
		"key: # x":              `"key:": the key is empty`,
		`key:""`:                `the key is empty`,
		`key:"user:42`:          `a key in quotes is malformed: it is written as a string in Go`,
		`key:"user:42" x`:       `"x" stands behind a key in quotes`,
	} {
		list, err := lists.Parse(strings.NewReader("203.0.113.9\n\n" + line + "\n"))
		if err == nil {
			t.Errorf("%q is read", line)
			continue
		}
		if want := "lists: line 3: " + want; err.Error() != want {
			t.Errorf("%q: error\n%s, want\n%s", line, err, want)
		}
		if list != nil {
			t.Errorf("%q: there is a list", line)
		}
	}
}

func TestAllWrongLinesAreNamedUpToTen(t *testing.T) {
	_, err := lists.Parse(strings.NewReader("x\n10.0.0.0/8\ny\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "line 1:") || !strings.Contains(err.Error(), "line 3:") {
		t.Errorf("error %v, want lines 1 and 3", err)
	}
	_, err = lists.Parse(strings.NewReader(strings.Repeat("x\n", 1000)))
	if err == nil || strings.Count(err.Error(), "line ") != 10 {
		t.Errorf("error %v, want ten lines", err)
	}
}

func TestALineIsOf64KiBAtMost(t *testing.T) {
	_, err := lists.Parse(strings.NewReader("10.0.0.0/8\nkey:" + strings.Repeat("x", 64<<10)))
	if err == nil || err.Error() != "lists: line 2: more than 65536 bytes" {
		t.Errorf("error %v", err)
	}
	if _, err := lists.Parse(strings.NewReader("key:" + strings.Repeat("x", 63<<10))); err != nil {
		t.Error(err)
	}
}

func TestAReaderThatFailsGivesNoList(t *testing.T) {
	list, err := lists.Parse(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("10.0.0.0/8\n203.0.113.9\n"))))
	if err == nil || list != nil {
		t.Errorf("list %v, error %v", list, err)
	}
}

func TestParseFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deny.txt")
	if _, err := lists.ParseFile(path); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "lists: ") {
		t.Errorf("error %v", err)
	}
	write(t, path, "# nobody\nx")
	if _, err := lists.ParseFile(path); err == nil || !strings.HasPrefix(err.Error(), "lists: "+path+": line 2: ") {
		t.Errorf("error %v", err)
	}
	write(t, path, "key:user:42")
	if list, err := lists.ParseFile(path); err != nil || !list.Has(netip.Addr{}, "user:42") {
		t.Errorf("list %v, error %v", list, err)
	}
}

// FuzzParse wants a list or an error that names a line, and that a list contains what stands
// in its text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "\n", "# x", "203.0.113.0/24 # x\n2001:db8::/32", "::ffff:1.2.3.0/120", "key:user:42\nkey:\"a\\n\"#", "10.0.0.1/8", "fe80::1%x", "key:\"", "\ufeff1.2.3.4", "key:\"\\xff\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := lists.Parse(bytes.NewReader(text))
		if (list == nil) == (err == nil) {
			t.Fatalf("list %v, error %v", list, err)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "lists: line ") {
				t.Fatalf("error %v names no line", err)
			}
			return
		}
		lines := strings.Count(string(text), "\n") + 1
		if list.Prefixes()+list.Keys() > lines {
			t.Fatalf("%d prefixes and %d keys in %d lines", list.Prefixes(), list.Keys(), lines)
		}
		for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
			entry, _, _ := strings.Cut(line, "#")
			entry = strings.TrimSpace(entry)
			if prefix, err := netip.ParsePrefix(entry); err == nil && !list.Has(prefix.Addr(), "") {
				t.Fatalf("%v is in the text and not in the list", prefix)
			}
			if address, err := netip.ParseAddr(entry); err == nil && !list.Has(address, "") {
				t.Fatalf("%v is in the text and not in the list", address)
			}
		}
	})
}

// FuzzKey wants that each key can be written in quotes, and in the program as it is.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"user:42", "user:a #1", "\"", "\n", "\xff", " ", "key:x"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" || len(key) > 10_000 {
			t.Skip()
		}
		list, err := lists.Parse(strings.NewReader("key:" + strconv.Quote(key) + " # it"))
		if err != nil || !list.Has(netip.Addr{}, key) || list.Keys() != 1 || !lists.Of("key:"+key).Has(netip.Addr{}, key) {
			t.Fatalf("key %q: %v", key, err)
		}
	})
}

// write replaces a file in one step.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

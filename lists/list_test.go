package lists_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/lists"
)

func TestAListContains(t *testing.T) {
	list := lists.Of("203.0.113.0/24", "198.51.100.7", "2001:db8:7::/48", "2001:db8::9", "key:user:42", "203.0.113.0/24", "key:user:42")
	for address, want := range map[string]bool{
		"203.0.113.0": true, "203.0.113.255": true, "203.0.112.255": false, "203.0.114.0": false,
		"198.51.100.7": true, "198.51.100.8": false,
		"2001:db8:7::": true, "2001:db8:7:ffff::1": true, "2001:db8:8::": false, "2001:db8::9": true, "2001:db8::8": false,
		"::ffff:203.0.113.9": true, "::ffff:1.2.3.4": false, // mapped
		"::203.0.113.9":    false, // IPv4-compatible, which is IPv6
		"2001:db8::9%eth0": true, "::": false, "0.0.0.0": false,
	} {
		if got := list.Has(netip.MustParseAddr(address), ""); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	for key, want := range map[string]bool{"user:42": true, "user:4": false, "user:421": false, "User:42": false, "": false, "key:user:42": false} {
		if got := list.Has(netip.Addr{}, key); got != want {
			t.Errorf("key %q: %v, want %v", key, got, want)
		}
	}
	if list.Prefixes() != 4 || list.Keys() != 1 {
		t.Errorf("%d prefixes and %d keys, want 4 and 1: duplicates are one", list.Prefixes(), list.Keys())
	}
}

func TestAnAddressWithoutAnAddressIsNowhere(t *testing.T) {
	if lists.Of("0.0.0.0/0", "::/0").Has(netip.Addr{}, "") {
		t.Error("the zero Addr is in the list of all addresses")
	}
}

func TestAllOfOneProtocolIsNotAllOfTheOther(t *testing.T) {
	ipv4, ipv6 := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8::1")
	if all := lists.Of("0.0.0.0/0"); !all.Has(ipv4, "") || all.Has(ipv6, "") {
		t.Error("0.0.0.0/0 is not all of IPv4, and nothing else")
	}
	if all := lists.Of("::/0"); all.Has(ipv4, "") || !all.Has(ipv6, "") {
		t.Error("::/0 is not all of IPv6, and nothing else")
	}
}

func TestNoListIsTheEmptyOne(t *testing.T) {
	for name, list := range map[string]*lists.List{"nil": nil, "zero": {}, "Of nothing": lists.Of()} {
		if list.Has(netip.MustParseAddr("203.0.113.9"), "") || list.Has(netip.Addr{}, "user:42") || list.Prefixes() != 0 || list.Keys() != 0 {
			t.Errorf("%s: is not empty", name)
		}
	}
}

func TestOfPanicsOnWhatIsNoEntry(t *testing.T) {
	defer func() {
		if got, want := fmt.Sprint(recover()), `lists: Of: entry "10.0.0.1/8": has bits set behind its length: write 10.0.0.0/8 for the prefix, or 10.0.0.1 for the address alone`; got != want {
			t.Errorf("panics with %s, want %s", got, want)
		}
	}()
	lists.Of("10.0.0.0/8", "10.0.0.1/8")
}

// A key in the program may be anything: it is no line of a file.
func TestAKeyIsTakenAsItIs(t *testing.T) {
	for _, key := range []string{"user:a #1", ` "quoted"`, `"`, "user:\n", " ", "#"} {
		if !lists.Of("key:"+key).Has(netip.Addr{}, key) {
			t.Errorf("%q is not found", key)
		}
	}
}

// A naive search through all prefixes says the same of every address.
func TestAListAgreesWithASliceOfPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefixes := rapid.SliceOfN(rapid.Custom(drawPrefix), 0, 50).Draw(t, "prefixes")
		entries := make([]string, len(prefixes))
		for i, p := range prefixes {
			entries[i] = p.String()
		}
		var list *lists.List
		if rapid.Bool().Draw(t, "as a file") {
			var err error
			if list, err = lists.Parse(strings.NewReader(strings.Join(entries, "\n"))); err != nil {
				t.Fatal(err)
			}
		} else {
			list = lists.Of(entries...)
		}
		different := make(map[netip.Prefix]bool)
		for _, p := range prefixes {
			different[p] = true
		}
		if got := list.Prefixes(); got != len(different) {
			t.Fatalf("%d prefixes, want %d", got, len(different))
		}
		for _, address := range rapid.SliceOfN(rapid.Custom(drawAddress), 1, 50).Draw(t, "addresses") {
			want := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
			if got := list.Has(address, ""); got != want {
				t.Fatalf("%v in %v: %v, want %v", address, prefixes, got, want)
			}
			if address.Is4() && list.Has(netip.AddrFrom16(address.As16()), "") != want {
				t.Fatalf("%v mapped in %v: want %v", address, prefixes, want)
			}
		}
	})
}

// drawAddress draws an address of few bits, so that prefixes and addresses meet often.
func drawAddress(t *rapid.T) netip.Addr {
	few := rapid.SampledFrom([]byte{0, 1, 127, 128, 255})
	if rapid.Bool().Draw(t, "IPv4") {
		return netip.AddrFrom4([4]byte{10, few.Draw(t, "b"), few.Draw(t, "c"), few.Draw(t, "d")})
	}
	address := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	for _, at := range []int{4, 7, 8, 15} {
		address[at] = few.Draw(t, "byte")
	}
	return netip.AddrFrom16(address)
}

func drawPrefix(t *rapid.T) netip.Prefix {
	address := drawAddress(t)
	return netip.PrefixFrom(address, rapid.IntRange(0, address.BitLen()).Draw(t, "bits")).Masked()
}

func TestALookupAllocatesNothing(t *testing.T) {
	list, address := lists.Of("203.0.113.0/24", "2001:db8::/32", "key:user:42"), netip.MustParseAddr("::ffff:203.0.113.9")
	live := new(lists.Live)
	live.Swap(list)
	if n := testing.AllocsPerRun(100, func() { live.List().Has(address, ""); live.List().Has(netip.Addr{}, "user:42") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

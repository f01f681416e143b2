package given

import (
	"fmt"
	"net/http"
	"net/netip"
)

// Address says how keyfuncs.IP and keyfuncs.Address find the address of a client, and how many of its bits count. A
// keyfuncs.Trust is a function that changes it.
type Address struct {
	// Caller is the function of package keyfuncs that has the options.
	Caller string
	// Model is the trust model; nil believes the TCP peer alone.
	Model AddressModel
	// Found returns the address that a framework has found, in place of a Model.
	Found func(*http.Request) string
	// IPv4 and IPv6 are the numbers of leading bits that count.
	IPv4, IPv6 int
	// NAT64 are the prefixes of addresses that embed an IPv4 address.
	NAT64 []netip.Prefix

	name string // of the trust model
}

// AddressModel returns the address that a request comes from, given that of its TCP peer. own says that the address is one
// of the proxies that the model believes.
type AddressModel func(peer netip.Addr, r *http.Request) (address netip.Addr, own bool)

// Believe sets the trust model. It panics if there is one: with two, the client would choose between their headers.
func (a *Address) Believe(name string, model AddressModel) {
	a.claim(name)
	a.Model = model
}

// FoundBy returns an option of keyfuncs.IP: it believes the address that a framework has found. The framework then
// decides which headers count. If the result is no address, the TCP peer pays.
func FoundBy(find func(*http.Request) string) func(*Address) {
	return func(a *Address) {
		a.claim("the framework's own")
		a.Found = find
	}
}

func (a *Address) claim(name string) {
	if a.name != "" {
		panic(fmt.Sprintf("keyfuncs: %s: %s and %s are two trust models, choose one", a.Caller, a.name, name))
	}
	a.name = name
}

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// hosts are the names by which the page may be opened. A page of another site with a name that is made to lead to this machine
// (DNS rebinding) has another one. To the browser it would be of one origin with this page.
type hosts []string

// localhost are the names of the machine that the page is on.
var localhost = hosts{"localhost", "127.0.0.1", "::1"}

// with returns the hosts, and the ones that the flags name: the address to listen on, if it names one, and others.
func (h hosts) with(addr string, names []string) hosts {
	h = slices.Clone(h)
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
			names = append(slices.Clone(names), host)
		}
	}
	for _, name := range names {
		if name = normalHost(name); name != "" {
			h = append(h, name)
		}
	}
	return h
}

// normalHost returns a host without its port, brackets and final dot, in lower case.
func normalHost(host string) string {
	return strings.ToLower(strings.TrimSuffix((&url.URL{Host: host}).Hostname(), "."))
}

// only serves requests for one of the hosts.
func (h *hosts) only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := normalHost(r.Host); !slices.Contains(*h, name) {
			http.Error(w, fmt.Sprintf("The demo is not known as %q. If it should be, start it with -host and that name.", name), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noOtherSite keeps other sites from asking for anything but the page itself, in a tab of its own: each stream or page that they open
// would be a visitor, and take the place of one.
func noOtherSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Dest") != "document" {
			http.Error(w, "the demo serves no other site", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// opened returns the host to open for a listener: localhost if it listens on all addresses.
func opened(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return address.String()
}

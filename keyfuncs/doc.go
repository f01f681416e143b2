// Package keyfuncs reads the key of a request: it names the client, user or thing that the request counts for.
//
// A [Func] reads one key from a request: "ip:203.0.113.9", "user:42", "route:/items/{id}". Every key starts with a
// namespace of its own, so that the user "203.0.113.9" and the address 203.0.113.9 never share a limit. [Join] makes one
// key of several, and [Or] takes the first that is there:
//
//	keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)            // each address on each route
//	keyfuncs.Or(keyfuncs.User(userID), keyfuncs.RemoteIP)  // the user, else the address
//
// # Your setup, and the function for it
//
// No header is believed unless the code names it. The right function depends on the proxies in front of the server, which
// no library can find out:
//
//	your setup                                  use
//	clients connect directly                    RemoteIP
//	proxies at known addresses that write       IP(TrustedProxies("10.0.0.0/8"))
//	  X-Forwarded-For, see below
//	proxies at unknown addresses, or on a       IP(TrustedHops(1))
//	  unix socket, and no way around them
//	an edge that always overwrites one header   IP(TrustedHeader("CF-Connecting-IP", edge...))
//	  (Cloudflare's CF-Connecting-IP, nginx
//	  with proxy_set_header X-Real-IP)
//	proxies that append to Forwarded            IP(Forwarded("10.0.0.0/8"))
//	  (RFC 7239)
//	a framework that is told of its proxies     ClientIP() of packages gin and echo
//	IPv4 clients through a NAT64 translator     IP(NAT64())
//	users who have signed in                    Or(User(userID), RemoteIP)
//	clients with an API key                     guard.Layers with Header("X-API-Key"), see below
//	clients with a bearer token                 guard.Layers with Bearer()
//	a tenant of the path                        PathValue("tenant")
//	one limit for all clients                   Global
//
// Behind a proxy, write IP(...) with your trust model where the table says
// RemoteIP: there the TCP peer is the proxy, and all its clients would share one
// limit.
//
// A proxy has to write X-Forwarded-For itself. nginx, HAProxy and Envoy do not by default: they pass on the client's own
// header.
//
//	nginx      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
//	HAProxy    option forwardfor
//	Envoy      use_remote_address: true
//
// Apache, Caddy, Traefik and AWS' load balancers do it by themselves. The page
// docs/keys-and-proxies.md has a line for each of them, and for CDNs. [WhoAmI] is a handler that shows the
// key: ask it through all proxies, with forged headers, before going live.
//
// # Addresses
//
// The same client is the same key, in every notation of its address. IPv4 counts whole, and IPv6 by /64, since one
// subscriber has that many. An IPv4-mapped IPv6 address is the IPv4 address. Zones and ports are dropped. [IPv4Prefix]
// and [IPv6Prefix] change the lengths; a 6to4 address never counts by more than the /48 that belongs to one IPv4 address.
// [NAT64] finds the IPv4 address in others.
//
// A forwarded address that cannot be read is never skipped in favour of one
// further left or in another header, since the client may have written those: the
// TCP peer pays instead.
//
// # Safety of keys
//
// A value from a request cannot imitate another namespace or another part of a joined key: '%', '|' and '\' in it are
// percent-encoded. Headers, bearer tokens and cookies are secrets and appear only as hashes. Keys of users, paths and
// hosts are as long as the client's own text; the stores of package core shorten them.
//
// Clients choose some keys themselves: a header or a token that is not verified, a path
// value, a host. A limit by such a key alone protects the thing that it names. It does
// not protect the server from a client that makes up new ones, all of which the store
// keeps. Or(Header("X-API-Key"), RemoteIP) does not, either: with another header for each
// request, the address never counts. Put a limit by address around it: Layers, in package
// guard, does that for the middleware of every framework.
//
//	ratelimit.New(limiter, ratelimit.Options{}, guard.Layers(
//		ratelimit.Policy{Limit: core.Leaky(100, core.PerSecond(20)).Named("address"), By: keyfuncs.RemoteIP},
//		ratelimit.Policy{Limit: core.TokenBucket(20, core.PerSecond(5)).Named("user"), By: keyfuncs.Header("X-API-Key")},
//	)...)
//
// # Functions of your own
//
// A Func of the program's own finds in [http.Request.PathValue] the same values as [PathValue], also around a mux and in
// gin and echo. If it finds no key in any of its first hundred requests, the middleware logs a warning.
package keyfuncs

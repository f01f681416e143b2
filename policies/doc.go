// Package policies reads limits from a file, so that they change without a deployment:
//
//	set, err := policies.Watch(ctx, policies.File("limits.yaml"), policies.Options{})
//	…
//	http.ListenAndServe(":8080", ratelimit.FromPolicies(limiter, set, ratelimit.Options{})(mux))
//
// FromPolicies is in every adapter. A [Set] is replaced as a whole while requests are served: each request meets one set.
// An invalid document never replaces a valid one; the error says line, column, and how to write it.
//
// # The file
//
// It is YAML, or JSON if it begins with a brace. Package policies has a JSON Schema for editors, schema.json.
//
//	limits:                             # a limit with a name keeps its state when the numbers change
//	  burst: leaky 20, 5/s              # as core.ParseLimit reads it
//	  orders: token-bucket 10, 1/s
//	  exports: concurrent 2, 30s
//	  guesses: concurrent 2, 30s
//	plans:                              # a limit that depends on the plan of a request, which the program says
//	  requests:
//	    free: sliding-window 1000, 1d
//	    paid: sliding-window 50000, 1d
//	    staff: unlimited
//	    "*": sliding-window 100, 1d     # every other plan, and none
//	bans:
//	  passwords: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d
//	lists:                              # before all policies
//	  allow: [198.51.100.0/24]
//	  deny: [203.0.113.9, "key:user:42"]
//	  address: ip trusted 10.0.0.0/8
//	  key: user
//	policies:
//	  - limit: burst
//	    key: ip trusted 10.0.0.0/8      # as keyfuncs.Parse reads it
//	  - limit: requests
//	    key: user or ip trusted 10.0.0.0/8
//	  - match: POST /orders
//	    limit: orders
//	    key: user
//	    cost: 2
//	    settle: {5xx: 0}                # units by status; all others keep their cost
//	    enforced: 25%                   # of the keys; the others only watch
//	  - match: POST /login
//	    ban: passwords
//	    key: ip trusted 10.0.0.0/8 and account # by address alone, it must not forgive
//	    strike: {401: 1, 200: forgive}
//	  - match: POST /login                # beside a ban by response: bounds the guesses in flight
//	    limit: guesses
//	    key: ip trusted 10.0.0.0/8 and account
//	  - match: GET /exports/{id}
//	    limit: exports
//	    key: global
//
// [Policy] has all fields: in a file they begin with a small letter.
//
// # A file that is cut
//
// An entry of a document without effect is an error, since the document may be the first part of a longer one: a limit,
// plan or ban that no policy uses, lists without an entry, a last line of YAML without a line end, and policies of which
// none limits anything. If that is meant, say it:
//
//	limitsNothing: true
//
// So an empty text never puts all limits out of force. A text that was cut behind a whole line, and makes sense up to
// there, is not noticed: write a file elsewhere and rename it, or have the program believe only [Signed] texts.
//
// # Which policies a request meets
//
// It meets all policies without a match, and those of the most specific match, as [http.ServeMux] chooses among patterns: "POST /orders" before
// "/orders", "/orders/new" before "/orders/{id}", a host before none. Several policies may have one match; then it meets all of them. Write
// match: / for a policy that gives way to every other match, and limit: unlimited for a route that is to meet no more than the policies without a
// match. Of one pattern, the policies with more header fields come first:
//
//	match: {pattern: /api/, header: {X-Tier: batch}}
//
// Two patterns that match some of the same requests, while neither is more specific, are an error, and so are such header fields.
//
// If a router has found the route of a request, the request meets the pattern that covers this route. Otherwise, or if
// the route leaves the rest of the path to its handler, the request meets the patterns of every reading of the path:
// escaped and not, as it stands, with slashes collapsed, clean, with and without a slash at its end. All policies that a
// request meets are decided together, in one round trip. The client chooses the host that a pattern sees, unless the
// router has the same hosts: gin, echo and chi have none.
//
// # State after a change
//
// A limit with a name keeps the units that its keys have used, also with other numbers. A limit that is renamed, or that
// has no name and other numbers, starts anew. Processes of a fleet that have different documents for a moment agree about
// each limit by its name.
package policies

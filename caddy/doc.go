// Package caddyratelimit is a module of Caddy, http.handlers.weir, which limits requests for a whole fleet of servers at once. Build Caddy with it:
//
//	xcaddy build --with github.com/weir-go/ratelimit/caddy
//
// In a Caddyfile it is the directive weir, which stands in front of redir, rewrite and all that answers:
//
//	example.com {
//		weir leaky 10, 1/s
//		file_server
//	}
//
// Each client address gets ten requests at once, and then one a second. In full:
//
//	weir [<matcher>] [<limit>] {
//		store redis://localhost:6379
//		policies limits.yaml
//		limit <limit> {
//			match POST /login
//			key client_ip and header X-API-Key
//			on_error open|closed|fallback
//		}
//	}
//
// See [Handler] for each of them, and for the same in JSON.
package caddyratelimit

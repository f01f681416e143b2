package given

import (
	"context"
	"net/http"
)

// Matched is the route that a router has found for a request: package keyfuncs describes it.
type Matched interface {
	Route() string
	PathValue(name string) string
}

// MatchedKey is the key of a [Matched] in a context.
type MatchedKey struct{}

// MatchedFrom returns the Matched in a context, or nil.
func MatchedFrom(ctx context.Context) Matched {
	matched, _ := ctx.Value(MatchedKey{}).(Matched)
	return matched
}

// OwnProxy is told by keyfuncs.IP if the address of a request is one of the proxies that its trust model believes: every
// forwarded address is a proxy of yours, or there was none. key is the result of IP.
//
// Package guard has one in the context of a request while it reads the request's keys. It bans no such key, since that
// would keep out all clients behind the proxy.
type OwnProxy interface{ OwnProxy(key string) }

// OwnProxyKey is the key of an [OwnProxy] in a context.
type OwnProxyKey struct{}

// TellOwnProxy tells the OwnProxy in the context of a request, if there is one.
func TellOwnProxy(r *http.Request, key string) {
	if told, ok := r.Context().Value(OwnProxyKey{}).(OwnProxy); ok {
		told.OwnProxy(key)
	}
}

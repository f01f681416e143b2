package keyfuncs

import "net/http"

// OwnProxy is told by [IP] that the address of a request is one of those that its trust model believes: every
// forwarded address is a proxy of yours, or none was told. key is what IP returns for it.
//
// Package guard has one in the context of a request whose keys it reads, and bans no such key: that would keep
// everybody out who comes through the proxy.
type OwnProxy interface{ OwnProxy(key string) }

// OwnProxyKey is the key of an [OwnProxy] in a context, for contexts that answer it themselves.
type OwnProxyKey struct{}

// tellOwnProxy tells the OwnProxy in the context of a request, if there is one.
func tellOwnProxy(r *http.Request, key string) {
	if told, ok := r.Context().Value(OwnProxyKey{}).(OwnProxy); ok {
		told.OwnProxy(key)
	}
}

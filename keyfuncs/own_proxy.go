package keyfuncs

import "net/http"

// OwnProxy is called by [IP] if the address of a request is one of the proxies that its trust model believes: every
// forwarded address is a proxy of yours, or there was none. key is the result of IP.
//
// Package guard has one in the context of a request while it reads the request's keys. It bans no such key, since that
// would keep out all clients behind the proxy.
type OwnProxy interface{ OwnProxy(key string) }

// OwnProxyKey is the key of an [OwnProxy] in a context, for contexts that answer it themselves.
type OwnProxyKey struct{}

// tellOwnProxy tells the OwnProxy in the context of a request, if there is one.
func tellOwnProxy(r *http.Request, key string) {
	if told, ok := r.Context().Value(OwnProxyKey{}).(OwnProxy); ok {
		told.OwnProxy(key)
	}
}

package keyfuncs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// HashOption changes how [Header], [Bearer] and [Cookie] hash their values: [Secret].
type HashOption func(*hasher)

// leastSecret is the least number of bytes that makes a secret: as many as the
// hash keeps.
const leastSecret = 16

// Secret hashes with HMAC-SHA-256 under a key of the server's, so that even a
// value that can be guessed, such as an e-mail address, cannot be confirmed by reading
// the keys in Redis. Without it the hash is a plain SHA-256, which is enough for random
// values.
//
// All servers of a fleet need the same key; a new one makes all clients new.
// Secret copies the key, and panics if it has fewer than 16 bytes.
func Secret(key []byte) HashOption {
	if len(key) < leastSecret {
		panic(fmt.Sprintf("keyfuncs: Secret: key of %d bytes, want at least %d", len(key), leastSecret))
	}
	key = slices.Clone(key)
	return func(h *hasher) { h.secret = key }
}

// Header names requests by the hash of a header, such as an API key:
// "header:x-api-key:" and 22 letters. The value itself appears nowhere. A request
// without the header, or with an empty one, gives [ErrNoKey].
//
// Of several lines of the header the first counts, as for [http.Header.Get], which
// applications read. White space around the value is no part of it. In Authorization, one set
// of credentials is one key, however its scheme, the space and the base64 of Basic are written.
//
// A client may choose a new value for every request unless something in front of the
// limiter refuses wrong values. Otherwise put a limit by address around it: Layers, in
// package guard. Header panics on a name that is no
// header's, on Host, which net/http keeps apart, and on a nil option.
func Header(name string, options ...HashOption) Func {
	requireToken("Header", name)
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		panic("keyfuncs: Header: net/http keeps Host out of the headers, use keyfuncs.Host")
	}
	hash := newHasher("header", strings.ToLower(name), options)
	if name == "Authorization" || name == "Proxy-Authorization" {
		return func(r *http.Request) (string, error) { return hash.key(credentials(r.Header.Get(name))) }
	}
	return func(r *http.Request) (string, error) { return hash.key(r.Header.Get(name)) }
}

// Bearer names requests by the hash of their bearer token, which RFC 6750 puts into
// "Authorization: Bearer …": "bearer:" and 22 letters. The token itself appears nowhere.
// A request without a bearer token gives [ErrNoKey].
//
// One token is one key, in any case of the scheme and with any white space around the token, as [strings.Fields] knows
// it. A token ends at the next white space. Of several Authorization lines the first counts, as for [http.Header.Get].
//
// Bearer does not verify the token. A client may make up a new one for every request, unless a gateway in front of the
// limiter refuses wrong ones. Otherwise put a limit by address around it: Layers, in package guard. A renewed token is a
// new key: to limit a user across tokens, use [User] behind the authentication.
// Bearer panics on a nil option.
func Bearer(options ...HashOption) Func {
	hash := newHasher("bearer", "", options)
	return func(r *http.Request) (string, error) {
		return hash.key(bearerToken(r.Header.Get("Authorization")))
	}
}

// bearerToken returns the token in the value of an Authorization header, or "" if its
// scheme is not Bearer.
func bearerToken(value string) string {
	scheme, rest := cutField(value)
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	token, _ := cutField(rest)
	return token
}

// credentials returns the value of an Authorization header in the one notation for all that
// applications read alike.
func credentials(value string) string {
	scheme, rest := cutField(value)
	if strings.EqualFold(scheme, "Basic") {
		r := http.Request{Header: http.Header{"Authorization": {"Basic " + rest}}}
		if user, password, ok := r.BasicAuth(); ok {
			return "basic\x00" + user + ":" + password
		}
	}
	if rest == "" {
		return scheme
	}
	return strings.ToLower(scheme) + " " + strings.Join(strings.Fields(rest), " ")
}

// cutField cuts a value behind its first field, in the sense of [strings.Fields].
func cutField(value string) (field, rest string) {
	value = strings.TrimSpace(value)
	if end := strings.IndexFunc(value, unicode.IsSpace); end >= 0 {
		return value[:end], strings.TrimSpace(value[end:])
	}
	return value, ""
}

// Cookie names requests by the hash of a cookie, such as a session:
// "cookie:session:" and 22 letters. The value itself appears nowhere. A request
// without the cookie, or with an empty one, gives [ErrNoKey].
//
// Of several cookies of that name the first counts, as for [http.Request.Cookie].
// Values that differ only in their percent-encoding, which gin decodes, are one.
//
// A client may choose a new value for every request unless something in front of
// the limiter refuses wrong ones. Otherwise put a limit by address around it: Layers, in
// package guard. Cookie panics on a name that is no
// cookie's and on a nil option.
func Cookie(name string, options ...HashOption) Func {
	requireToken("Cookie", name)
	hash := newHasher("cookie", name, options)
	return func(r *http.Request) (string, error) {
		cookie, err := r.Cookie(name)
		if err != nil { // http.ErrNoCookie, the only one there is
			return "", ErrNoKey
		}
		if decoded, err := url.QueryUnescape(cookie.Value); err == nil {
			return hash.key(decoded)
		}
		return hash.key(cookie.Value)
	}
}

// hasher makes keys of secrets of one kind, and of one name if the kind has names.
type hasher struct {
	prefix string // of the key: "header:x-api-key:"
	domain []byte // hashed before the value, to keep kinds and names apart
	secret []byte // nil for a plain hash
}

func newHasher(kind, name string, options []HashOption) *hasher {
	h := &hasher{prefix: kind + ":"}
	if name != "" {
		h.prefix += encode(name) + ":"
	}
	h.domain = appendSized(appendSized(nil, kind), name)
	for _, option := range options {
		if option == nil {
			panic("keyfuncs: " + h.prefix + " an option is nil")
		}
		option(h)
	}
	return h
}

// key returns the key of a value. White space around it does not count, since
// applications trim it. An empty value is none.
func (h *hasher) key(value string) (string, error) {
	if value = strings.TrimSpace(value); value == "" {
		return "", ErrNoKey
	}
	var space [512]byte
	message := appendSized(append(space[:0], h.domain...), value)
	sum := h.sum(message)
	return h.prefix + base64.RawURLEncoding.EncodeToString(sum[:16]), nil
}

func (h *hasher) sum(message []byte) [sha256.Size]byte {
	if h.secret == nil {
		return sha256.Sum256(message)
	}
	mac := hmac.New(sha256.New, h.secret)
	mac.Write(message)
	return [sha256.Size]byte(mac.Sum(nil))
}

// appendSized appends a text behind its length, so that texts in a row cannot
// run into each other.
func appendSized(buffer []byte, text string) []byte {
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(text)))
	return append(buffer, text...)
}

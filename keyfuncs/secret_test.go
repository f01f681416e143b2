package keyfuncs_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

var serverKey = []byte("0123456789abcdef0123456789abcdef")

// sized is a text behind its length in eight bytes; no text here is longer than 255.
func sized(text string) string {
	return "\x00\x00\x00\x00\x00\x00\x00" + string([]byte{byte(len(text))}) + text
}

func letters(sum []byte) string {
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func TestHashesStayWhatTheyAre(t *testing.T) {
	header := request("203.0.113.9:1", "X-Api-Key: opensesame")
	cookie := request("203.0.113.9:1", "Cookie: session=opensesame")

	expectKey(t, keyfuncs.Header("X-API-Key"), header, "header:x-api-key:VCKlFU3Y9axYK_jdWN3x2A")
	expectKey(t, keyfuncs.Cookie("session"), cookie, "cookie:session:Ucm40W-IjaDlTicGsaZleA")
	expectKey(t, keyfuncs.Header("X-API-Key", keyfuncs.Secret(serverKey)), header, "header:x-api-key:vfTb851yh4GfgQiL1nV-mQ")

	plain := sha256.Sum256([]byte(sized("header") + sized("x-api-key") + sized("opensesame")))
	expectKey(t, keyfuncs.Header("X-API-Key"), header, "header:x-api-key:"+letters(plain[:]))
	mac := hmac.New(sha256.New, serverKey)
	mac.Write([]byte(sized("cookie") + sized("session") + sized("opensesame")))
	expectKey(t, keyfuncs.Cookie("session", keyfuncs.Secret(serverKey)), cookie, "cookie:session:"+letters(mac.Sum(nil)))
}

func TestHashesRevealNothingAndAreShort(t *testing.T) {
	value := strings.Repeat("opensesame", 100_000)
	for name, f := range map[string]keyfuncs.Func{
		"header":             keyfuncs.Header("Authorization"),
		"header with secret": keyfuncs.Header("Authorization", keyfuncs.Secret(serverKey)),
		"bearer":             keyfuncs.Bearer(),
		"cookie":             keyfuncs.Cookie("session"),
	} {
		t.Run(name, func(t *testing.T) {
			got := key(t, f, request("203.0.113.9:1", "Authorization: Bearer "+value, "Cookie: session="+value))
			if strings.Contains(got, "open") || len(got) > 64 {
				t.Errorf("key %q, want a short hash", got)
			}
		})
	}
}

func TestHashesOfOneValueDifferByKindNameAndSecret(t *testing.T) {
	r := request("203.0.113.9:1", "A: v", "B: v", "Bearer: v", "Authorization: Bearer v", "Cookie: a=v; b=v; A=v; bearer=v")
	other := append([]byte("!"), serverKey...)
	seen := map[string]string{}
	for name, f := range map[string]keyfuncs.Func{
		"header a":                    keyfuncs.Header("a"),
		"header b":                    keyfuncs.Header("b"),
		"cookie a":                    keyfuncs.Cookie("a"),
		"cookie b":                    keyfuncs.Cookie("b"),
		"cookie A":                    keyfuncs.Cookie("A"),
		"header a with secret":        keyfuncs.Header("a", keyfuncs.Secret(serverKey)),
		"header a with other secret":  keyfuncs.Header("a", keyfuncs.Secret(other)),
		"cookie a with secret":        keyfuncs.Cookie("a", keyfuncs.Secret(serverKey)),
		"cookie a with other secret":  keyfuncs.Cookie("a", keyfuncs.Secret(other)),
		"header b with secret":        keyfuncs.Header("b", keyfuncs.Secret(serverKey)),
		"cookie b with other secret ": keyfuncs.Cookie("b", keyfuncs.Secret(other)),
		"bearer":                      keyfuncs.Bearer(),
		"bearer with secret":          keyfuncs.Bearer(keyfuncs.Secret(serverKey)),
		"bearer with other secret":    keyfuncs.Bearer(keyfuncs.Secret(other)),
		"header bearer":               keyfuncs.Header("Bearer"),
		"header authorization":        keyfuncs.Header("Authorization"),
		"cookie bearer":               keyfuncs.Cookie("bearer"),
	} {
		got := key(t, f, r)
		hash := got[strings.LastIndexByte(got, ':')+1:]
		if before, ok := seen[hash]; ok {
			t.Errorf("%s and %s have the same hash", name, before)
		}
		seen[hash] = name
	}
}

func TestSecretCopiesItsKey(t *testing.T) {
	secret := append([]byte(nil), serverKey...)
	f := keyfuncs.Header("A", keyfuncs.Secret(secret))
	r := request("203.0.113.9:1", "A: v")
	before := key(t, f, r)
	clear(secret)
	expectKey(t, f, r, before)
}

// Applications read a header by Header.Get, so a line that they never look at makes no other key.
func TestTheFirstLineOfAHeaderCounts(t *testing.T) {
	f := keyfuncs.Header("A")
	want := key(t, f, request("203.0.113.9:1", "A: v"))
	for _, lines := range [][]string{{"v", "w"}, {"v", ""}, {"v", "v"}, {"v", "w", "x"}} {
		r := request("203.0.113.9:1")
		r.Header["A"] = lines
		expectKey(t, f, r, want)
	}
	for _, lines := range [][]string{{"w", "v"}, {"v, w"}, {"vw"}, {"v\x00w"}} {
		r := request("203.0.113.9:1")
		r.Header["A"] = lines
		if got := key(t, f, r); got == want {
			t.Errorf("lines %q have the key of another value", lines)
		}
	}
	r := request("203.0.113.9:1")
	r.Header["A"] = []string{"", "v"}
	if got, err := f(r); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("behind an empty line: key %q, error %v, want ErrNoKey", got, err)
	}
}

func TestHeaderNamesAreInAnyCaseAndSpaceAroundValuesIsNotPartOfThem(t *testing.T) {
	r := request("203.0.113.9:1", "X-Api-Key: v")
	want := key(t, keyfuncs.Header("X-API-Key"), r)
	expectKey(t, keyfuncs.Header("x-api-key"), r, want)
	for _, value := range []string{"\t v ", "v\u00a0", "\u2003v\u0085\u0085"} { // strings.TrimSpace trims all of these
		r.Header["X-Api-Key"] = []string{value}
		expectKey(t, keyfuncs.Header("x-api-key"), r, want)
	}
}

// What applications read alike is one key, or a client would have as many as there are spellings.
func TestOneSetOfCredentialsIsOneKeyHoweverItIsWritten(t *testing.T) {
	for _, spellings := range [][]string{
		{"Basic dXNlcjpwYXM=", "bAsIc dXNlcjpwYXM=", "BASIC  dXNlcjpwYXM=", "Basic dXNlcjpwYXN="}, // the last bits of base64 do not count
		{"Bearer secret", "bearer secret", "Bearer\u00a0secret", "BEARER \t secret "},
		{"Digest a=b", "digest  a=b"},
		{"token"},
		{"Token"},
		{"Basic no-base64", "basic no-base64"},
		{"Basic dXNlcjpwYXNz"},
	} {
		for _, name := range []string{"Authorization", "proxy-authorization"} {
			f := keyfuncs.Header(name)
			want := key(t, f, request("203.0.113.9:1", name+": "+spellings[0]))
			for _, spelling := range spellings {
				r := request("203.0.113.9:1")
				r.Header.Set(name, spelling)
				expectKey(t, f, r, want)
				r.Header.Add(name, "Basic YW5vdGhlcjpvbmU=")
				expectKey(t, f, r, want)
				if got := key(t, f, request("203.0.113.9:1", name+": Basic YW5vdGhlcjpvbmU=")); got == want {
					t.Errorf("%q has the key of another one's credentials", spelling)
				}
			}
		}
	}
}

func TestTheFirstCookieOfANameCounts(t *testing.T) {
	f := keyfuncs.Cookie("session")
	want := key(t, f, request("203.0.113.9:1", "Cookie: session=v"))
	expectKey(t, f, request("203.0.113.9:1", "Cookie: a=b; session=v; session=w"), want)
	expectKey(t, f, request("203.0.113.9:1", "Cookie: session=v", "Cookie: session=w"), want)
	expectKey(t, f, request("203.0.113.9:1", `Cookie: session="v"`), want)
	expectKey(t, f, request("203.0.113.9:1", "Cookie: session=%76"), want) // which gin decodes
}

func TestOneBearerTokenIsOneKeyHoweverItIsWritten(t *testing.T) {
	f := keyfuncs.Bearer()
	const want = "bearer:wjxJ2W6CIy_Mgu66lG6Svw"
	for _, lines := range [][]string{
		{"Bearer mF_9.B5f-4.1JqM=="},
		{"bearer mF_9.B5f-4.1JqM=="},
		{"BEARER mF_9.B5f-4.1JqM=="},
		{"bEaReR mF_9.B5f-4.1JqM=="},
		{"Bearer   mF_9.B5f-4.1JqM=="},
		{"Bearer\tmF_9.B5f-4.1JqM=="},
		{" \t Bearer \t mF_9.B5f-4.1JqM== \t"},
		{"Bearer mF_9.B5f-4.1JqM== of no meaning"},
		{"Bearer mF_9.B5f-4.1JqM==\tof no meaning"},
		{"Bearer\u00a0mF_9.B5f-4.1JqM==\u2003of no meaning"}, // strings.Fields takes these for white space, too
		{"Bearer mF_9.B5f-4.1JqM==", "Bearer another"},       // the first counts, as for http.Header.Get
	} {
		r := request("203.0.113.9:1")
		r.Header["Authorization"] = lines
		expectKey(t, f, r, want)
	}
	for _, other := range []string{"Bearer MF_9.B5f-4.1JqM==", "Bearer mF_9.B5f-4.1JqM=", "Bearer bearer"} {
		if got := key(t, f, request("203.0.113.9:1", "Authorization: "+other)); got == want {
			t.Errorf("%q has the key of another token", other)
		}
	}
	sum := sha256.Sum256([]byte(sized("bearer") + sized("") + sized("mF_9.B5f-4.1JqM==")))
	expectKey(t, f, request("203.0.113.9:1", "Authorization: Bearer mF_9.B5f-4.1JqM=="), "bearer:"+letters(sum[:]))
	mac := hmac.New(sha256.New, serverKey)
	mac.Write([]byte(sized("bearer") + sized("") + sized("mF_9.B5f-4.1JqM==")))
	secret := keyfuncs.Bearer(keyfuncs.Secret(serverKey))
	expectKey(t, secret, request("203.0.113.9:1", "Authorization: bearer mF_9.B5f-4.1JqM=="), "bearer:"+letters(mac.Sum(nil)))
}

func TestWithoutABearerTokenThereIsNoKey(t *testing.T) {
	for _, lines := range [][]string{
		nil,
		{""},
		{"Bearer"},
		{"Bearer "},
		{"Bearer \t "},
		{"Bearertoken"},
		{"Bearer=token"},
		{"Bearer:token"},
		{"Bearer, token"},
		{"token"},
		{"Basic dXNlcjpwYXNz"},
		{"Digest Bearer token"},
		{`"Bearer" token`},
		{"Basic dXNlcjpwYXNz", "Bearer token"},
	} {
		r := request("203.0.113.9:1")
		r.Header["Authorization"] = lines
		if got, err := keyfuncs.Bearer()(r); !errors.Is(err, keyfuncs.ErrNoKey) || got != "" {
			t.Errorf("lines %q: key %q, error %v, want ErrNoKey", lines, got, err)
		}
	}
	if _, err := keyfuncs.Bearer()(&http.Request{}); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("without a header map: error %v, want ErrNoKey", err)
	}
}

func TestMissingOrEmptySecretsAreNoKeys(t *testing.T) {
	for _, lines := range [][]string{
		nil, {"A: "}, {"A:  \t"}, {"A: ", "A: "}, {"Cookie: "}, {"Cookie: a="}, {"Cookie: b=v"}, {`Cookie: a=""`},
	} {
		r := request("203.0.113.9:1", lines...)
		for _, f := range []keyfuncs.Func{keyfuncs.Header("A"), keyfuncs.Cookie("a"), keyfuncs.Header("A", keyfuncs.Secret(serverKey))} {
			if got, err := f(r); !errors.Is(err, keyfuncs.ErrNoKey) || got != "" {
				t.Errorf("lines %q: key %q, error %v, want ErrNoKey", lines, got, err)
			}
		}
	}
	if _, err := keyfuncs.Header("A")(&http.Request{}); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("without a header map: error %v, want ErrNoKey", err)
	}
}

func TestMisuseOfSecretsPanicsAtStartUp(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func()
		word  string
	}{
		{"no header name", func() { keyfuncs.Header("") }, "Header"},
		{"a bad header name", func() { keyfuncs.Header("X API Key") }, `"X API Key"`},
		{"Host as a header", func() { keyfuncs.Header("host") }, "keyfuncs.Host"},
		{"a nil option of Header", func() { keyfuncs.Header("A", nil) }, "nil"},
		{"no cookie name", func() { keyfuncs.Cookie("") }, "Cookie"},
		{"a bad cookie name", func() { keyfuncs.Cookie("a=b") }, `"a=b"`},
		{"a nil option of Cookie", func() { keyfuncs.Cookie("a", nil) }, "nil"},
		{"a nil option of Bearer", func() { keyfuncs.Bearer(nil) }, "bearer"},
		{"no secret", func() { keyfuncs.Secret(nil) }, "0 bytes"},
		{"a short secret", func() { keyfuncs.Secret([]byte("opensesame")) }, "10 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) { expectPanic(t, test.build, test.word) })
	}
}

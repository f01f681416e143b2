package headers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

var partitionSecret = []byte("0123456789abcdef")

// partition returns the pk of the only policy in a field, and "" if it has none.
func partition(t *testing.T, h http.Header, field string) string {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s %q: %v", field, h.Values(field), err)
	}
	value, ok := list[0].(httpsfv.Item).Params.Get("pk")
	if !ok {
		return ""
	}
	return string(value.([]byte))
}

func written(w headers.Writer, key string) http.Header {
	list := policies(first)
	list[0].Key = key
	h := http.Header{}
	w.Write(h, list)
	return h
}

func TestPartitionKeysAreOnRequestOnly(t *testing.T) {
	for name, w := range writers {
		for field, values := range written(w, "ip:203.0.113.9") {
			if strings.Contains(strings.Join(values, ""), "pk=") {
				t.Errorf("%s: %s is %q, want no partition key", name, field, values)
			}
		}
	}
}

// A partition key depends on the secret, so trying all addresses does not find the key.
func TestPartitionKeysAreNotReversible(t *testing.T) {
	const key = "ip:203.0.113.9"
	w := headers.DraftPartitioned(partitionSecret)
	pk := partition(t, written(w, key), "RateLimit")

	mac := hmac.New(sha256.New, partitionSecret)
	mac.Write([]byte("ratelimit partition\x00" + key))
	if want := string(mac.Sum(nil)[:16]); pk != want {
		t.Fatalf("pk %x, want %x, of 16 bytes", pk, want)
	}
	plain := sha256.Sum256([]byte(key))
	if strings.HasPrefix(string(plain[:]), pk[:8]) || strings.Contains(pk, "203") {
		t.Errorf("pk %x tells of the key", pk)
	}
	other := slices.Clone(partitionSecret)
	other[0]++
	if pk == partition(t, written(headers.DraftPartitioned(other), key), "RateLimit") {
		t.Error("another secret gives the same pk")
	}
}

func TestPartitionKeysTellKeysApart(t *testing.T) {
	w := dialect.Prepare(headers.DraftPartitioned(partitionSecret), policies(first))
	seen := map[string]string{}
	for _, key := range []string{"ip:203.0.113.9", "ip:203.0.113.10", "user:203.0.113.9"} {
		h := written(w, key)
		pk := partition(t, h, "RateLimit")
		if policy := partition(t, h, "RateLimit-Policy"); policy != pk {
			t.Errorf("%s: pk %x in RateLimit-Policy, %x in RateLimit", key, policy, pk)
		}
		if again := partition(t, written(w, key), "RateLimit"); again != pk {
			t.Errorf("%s: pk %x and then %x", key, pk, again)
		}
		if other, taken := seen[pk]; taken {
			t.Errorf("%s and %s have the same pk", key, other)
		}
		seen[pk] = key
	}
	if got := partition(t, written(w, ""), "RateLimit"); got != "" {
		t.Errorf("pk %x of no key, want none", got)
	}
}

func TestPartitionedBytes(t *testing.T) {
	list := policies(first, closed)
	list[0].Key, list[1].Key = "ip:203.0.113.9", "user:42"
	encoded := func(key string) string {
		mac := hmac.New(sha256.New, partitionSecret)
		mac.Write([]byte("ratelimit partition\x00" + key))
		return ";pk=:" + base64.StdEncoding.EncodeToString(mac.Sum(nil)[:16]) + ":"
	}
	checkGolden(t, headers.DraftPartitioned(partitionSecret), []golden{{"two", list, fields{
		"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10` + encoded("ip:203.0.113.9") + `, "b";q=100;w=60` + encoded("user:42"),
		"RateLimit":        `"a";r=9;t=9` + encoded("ip:203.0.113.9") + `, "b";r=0;t=18` + encoded("user:42"),
	}}})
}

func TestPartitionSecretIsCopiedAndLong(t *testing.T) {
	secret := slices.Clone(partitionSecret)
	w := headers.DraftPartitioned(secret)
	before := written(w, "a").Get("RateLimit")
	clear(secret)
	if got := written(w, "a").Get("RateLimit"); got != before {
		t.Errorf("RateLimit %s after the secret was cleared, was %s", got, before)
	}
	defer func() {
		if got, want := recover(), "headers: partition keys: secret of 15 bytes, want at least 16"; got != want {
			t.Errorf("panic %v, want %s", got, want)
		}
	}()
	headers.DraftPartitioned(make([]byte, 15))
}

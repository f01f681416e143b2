package policies

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newKey(tb testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return public, private
}

func sign(tb testing.TB, text string, key ed25519.PrivateKey) []byte {
	tb.Helper()
	signed, err := Sign([]byte(text), key)
	if err != nil {
		tb.Fatal(err)
	}
	return signed
}

// What is signed is put in force, and nothing else.
func TestSigned(t *testing.T) {
	public, private := newKey(t)
	next, nextPrivate := newKey(t)
	_, foreign := newKey(t)
	var text []byte
	source := Signed(Func("here", func(context.Context) ([]byte, error) { return text, nil }), public, next)
	s := new(Set)
	good := sign(t, numbered(1), private)
	for _, c := range []struct {
		name string
		text []byte
		want string
	}{
		{"signed", good, ""},
		{"signed, with a line end more", append(bytes.Clone(good), '\n'), ""},
		{"not signed", []byte(numbered(2)), errUnsigned.Error()},
		{"signed by a key that is not believed", sign(t, numbered(2), foreign), errForeign.Error()},
		{"changed", bytes.Replace(good, []byte("leaky 1"), []byte("leaky 9"), 1), errForeign.Error()},
		{"with something behind the signature", append(bytes.Clone(good), "policies: []\n"...), errUnsigned.Error()},
		{"with something in front", append([]byte("version: 1\n"), good...), errForeign.Error()},
		{"with the signature of another text", append([]byte(numbered(2)), good[bytes.LastIndex(good, []byte(signedAs)):]...), errForeign.Error()},
		{"with half a signature", good[:len(good)-9], errForeign.Error()},
		{"with a signature that is none", []byte(numbered(2) + signedAs + "!\n"), errUnsigned.Error()},
		{"signed by the next key", sign(t, numbered(3), nextPrivate), ""},
		{"signed anew", sign(t, string(good), nextPrivate), ""},
		{"signed, and makes no sense", sign(t, numbered(0), private), "line 1, column 13: "},
	} {
		before := s.Document()
		text = c.text
		err := source.read(t.Context(), s.read)
		if c.want == "" && (err != nil || s.Document() == before) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || s.Document() != before) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A signature fits its text, and none that differs in one bit.
func TestSignatureFitsOneText(t *testing.T) {
	public, private := newKey(t)
	rapid.Check(t, func(t *rapid.T) {
		signed, err := Sign(rapid.SliceOf(rapid.Byte()).Draw(t, "text"), private)
		if err != nil || Verify(signed, public) != nil {
			t.Fatalf("%q: %v, %v", signed, err, Verify(signed, public))
		}
		end := bytes.LastIndex(signed, []byte(signedAs))
		if end == 0 {
			return
		}
		changed := bytes.Clone(signed)
		changed[rapid.IntRange(0, end-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if Verify(changed, public) == nil {
			t.Fatalf("%q is taken for %q", changed, signed)
		}
	})
}

func TestSignedRefuses(t *testing.T) {
	public, _ := newKey(t)
	for _, keys := range [][]ed25519.PublicKey{nil, {nil}, {public, public[:31]}} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "policies: Signed: ") {
					t.Errorf("%d keys: %q", len(keys), text)
				}
			}()
			Signed(File("x"), keys...)
		}()
	}
	if _, err := Sign(nil, nil); err == nil || err.Error() != "policies: a private key has 0 bytes, want 64" {
		t.Errorf("%v", err)
	}
}

func TestParsePublicKey(t *testing.T) {
	public, _ := newKey(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(key any) []byte {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	if got, err := ParsePublicKey(encoded(public)); err != nil || !got.Equal(public) {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		"x":                               `policies: a public key is in PEM, which begins with "-----BEGIN PUBLIC KEY-----"`,
		string(encoded(&other.PublicKey)): "policies: the public key is a *ecdsa.PublicKey, want one of Ed25519",
		"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n": "policies: the public key cannot be read: ",
	} {
		if _, err := ParsePublicKey([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

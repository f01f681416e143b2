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

func sign(tb testing.TB, text string, key ed25519.PrivateKey, serial int64) []byte {
	tb.Helper()
	signed, err := Sign([]byte(text), key, serial)
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
	good := sign(t, numbered(1), private, 7)
	for _, c := range []struct {
		name string
		text []byte
		want string
	}{
		{"signed", good, ""},
		{"signed, with a line end more", append(bytes.Clone(good), '\n'), ""},
		{"signed, with the line ends of Windows", bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), ""},
		{"signed, with another number", bytes.Replace(good, []byte("serial 7"), []byte("serial 8"), 1), errForeign.Error()},
		{"signed, without a number", bytes.Replace(good, []byte("serial 7 "), nil, 1), errUnsigned.Error()},
		{"signed, with a number that is too great", bytes.Replace(good, []byte("serial 7"), []byte("serial 9007199254740993"), 1), errUnsigned.Error()},
		{"not signed", []byte(numbered(2)), errUnsigned.Error()},
		{"signed by a key that is not believed", sign(t, numbered(2), foreign, 7), errForeign.Error()},
		{"changed", bytes.Replace(good, []byte("leaky 1"), []byte("leaky 9"), 1), errForeign.Error()},
		{"with something behind the signature", append(bytes.Clone(good), "policies: []\n"...), errUnsigned.Error()},
		{"with something in front", append([]byte("version: 1\n"), good...), errForeign.Error()},
		{"with the signature of another text", append([]byte(numbered(2)), good[bytes.LastIndex(good, []byte(signedAs)):]...), errForeign.Error()},
		{"with half a signature", good[:len(good)-9], errForeign.Error()},
		{"with a signature that is none", []byte(numbered(2) + signedAs + "!\n"), errUnsigned.Error()},
		{"signed by the next key", sign(t, numbered(3), nextPrivate, 8), ""},
		{"signed anew", sign(t, string(good), nextPrivate, 9), ""},
		{"signed before that", good, "its serial number 7 is smaller than 9, which has been in force: sign it again"},
		{"signed, and makes no sense", sign(t, numbered(0), private, 10), "line 1, column 13: "},
	} {
		before := s.Document()
		text = c.text
		err := source.read(t.Context(), s.swapText)
		if c.want == "" && (err != nil || s.Document() == before) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || s.Document() != before) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A signature fits its text, and none that differs in one bit.
func TestSignatureFitsOneText(t *testing.T) {
	public, private := newKey(t)
	rapid.Check(t, func(t *rapid.T) {
		serial := rapid.Int64Range(1, MostSerial).Draw(t, "serial")
		signed, err := Sign(rapid.SliceOf(rapid.Byte()).Draw(t, "text"), private, serial)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{signed, bytes.ReplaceAll(signed, []byte("\n"), []byte("\r\n"))} {
			if got, err := Verify(text, public); err != nil || got != serial {
				t.Fatalf("%q: %d, %v", text, got, err)
			}
		}
		changed := bytes.Clone(signed)
		changed[rapid.IntRange(0, len(signed)-2).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := Verify(changed, public); err == nil && !bytes.Equal(oneLineEnd(changed), signed) {
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
	_, private := newKey(t)
	for _, serial := range []int64{-1, 0, MostSerial + 1} {
		if _, err := Sign(nil, private, serial); err == nil || !strings.Contains(err.Error(), "is not from 1 to 9007199254740992") {
			t.Errorf("%d: %v", serial, err)
		}
	}
	if _, err := Sign(nil, nil, 1); err == nil || err.Error() != "policies: a private key has 0 bytes, want 64" {
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

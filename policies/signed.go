package policies

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

const (
	// signedAs is what the last line of a signed text begins with: a comment of YAML.
	signedAs = "# signed: ed25519 "
	// purpose stands in front of what is signed, so that no signature of something else is one of policies.
	purpose = "github.com/weir-go/ratelimit/policies\n"
)

// Signed is a source whose texts are believed if one of some keys has signed them, as [Sign] and weir sign do. All others are errors,
// which change nothing. Whoever can write to the source, but has no such key, can put back what was signed before, and nothing else: use a
// key of its own for each source. Give it two keys while one takes the place of the other. It panics without a key, and if a key is none.
func Signed(source Source, keys ...ed25519.PublicKey) Source {
	if len(keys) == 0 {
		panic("policies: Signed: no key is given")
	}
	for _, key := range keys {
		if len(key) != ed25519.PublicKeySize {
			panic(fmt.Sprintf("policies: Signed: a key has %d bytes, want %d", len(key), ed25519.PublicKeySize))
		}
	}
	return Source{source.name, func(ctx context.Context, put func([]byte) error) error {
		return source.read(ctx, func(text []byte) error {
			if err := Verify(text, keys...); err != nil {
				return err
			}
			return put(text)
		})
	}}
}

// Sign returns a text of YAML whose last line is a comment with the signature of all before it, in place of one that it may have. It
// returns an error if the key is none.
func Sign(text []byte, key ed25519.PrivateKey) ([]byte, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("policies: a private key has %d bytes, want %d", len(key), ed25519.PrivateKeySize)
	}
	signed, _, _ := cutSignature(text)
	signed = slices.Clip(signed)
	if !bytes.HasSuffix(signed, []byte{'\n'}) {
		signed = append(signed, '\n')
	}
	signature := ed25519.Sign(key, slices.Concat([]byte(purpose), signed))
	return fmt.Appendf(signed, "%s%s\n", signedAs, base64.StdEncoding.EncodeToString(signature)), nil
}

// Verify returns an error unless one of some keys has signed a text.
func Verify(text []byte, keys ...ed25519.PublicKey) error {
	signed, signature, found := cutSignature(text)
	if !found {
		return errUnsigned
	}
	message := slices.Concat([]byte(purpose), signed)
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, signature) {
			return nil
		}
	}
	return errForeign
}

var (
	errUnsigned = errors.New("it is not signed: its last line is no signature, as weir sign writes one")
	errForeign  = errors.New("its signature is not by a key that is believed, or the text has changed since")
)

// cutSignature returns what is signed of a text, and the signature in its last line, if there is one.
func cutSignature(text []byte) (signed, signature []byte, found bool) {
	trimmed := bytes.TrimRight(text, "\r\n") // redis-cli ends what it gets with a line end of its own
	begin := bytes.LastIndexByte(trimmed, '\n') + 1
	line, found := bytes.CutPrefix(trimmed[begin:], []byte(signedAs))
	if !found {
		return text, nil, false
	}
	signature, err := base64.StdEncoding.DecodeString(string(line))
	return text[:begin], signature, err == nil
}

// ParsePublicKey reads a public key of Ed25519 from PEM, as "openssl pkey -pubout" writes it.
func ParsePublicKey(text []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New(`policies: a public key is in PEM, which begins with "-----BEGIN PUBLIC KEY-----"`)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("policies: the public key cannot be read: %w", err)
	}
	public, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("policies: the public key is a %T, want one of Ed25519", key)
	}
	return public, nil
}

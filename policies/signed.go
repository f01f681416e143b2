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
	"regexp"
	"slices"
	"strconv"
)

const (
	// signedAs begins the last line of a signed text: a comment of YAML. The serial number and the signature follow.
	signedAs = "# signed: ed25519 "
	// purpose is signed in front of the text, so that no signature made for another purpose is valid here.
	purpose = "github.com/weir-go/ratelimit/policies\n"
	// MostSerial is the greatest serial number of a signed text: 2^53, up to which Redis keeps them exactly.
	MostSerial = 1 << 53
)

// Signed is a source that believes only texts signed by one of some keys, as [Sign] and weir sign do. All other texts are
// errors, which change nothing. Use a key of its own for each source, and give two keys while one takes the place of the
// other.
//
// A text with a smaller serial number than one that has been in force is an error, too. So an attacker who can write to
// the source, but has no key, cannot put an older signed text back. The process keeps the greatest number. For a source
// of [Redis], the sorted set key:serial keeps it, too, so that a new process knows it; that needs the permissions for
// ZADD and ZSCORE. Do not let users who may write to the source write there, and have Redis not evict it. Other sources
// begin anew with the process. If the number cannot be read, no other text is put in force. If it cannot be kept,
// Options.OnError is called until it is, and a [Watch] without Options.Start does not begin.
//
// Signed panics without a key, and if a key is invalid.
func Signed(source Source, keys ...ed25519.PublicKey) Source {
	if len(keys) == 0 {
		panic("policies: Signed: no key is given")
	}
	for _, key := range keys {
		if len(key) != ed25519.PublicKeySize {
			panic(fmt.Sprintf("policies: Signed: a key has %d bytes, want %d", len(key), ed25519.PublicKeySize))
		}
	}
	s := sequence{kept: source.serials}
	return Source{name: source.name, read: func(ctx context.Context, swap func([]byte) error) error {
		return source.read(ctx, func(text []byte) error {
			text = oneLineEnd(text)
			serial, err := Verify(text, keys...)
			if err != nil {
				return err
			}
			return s.swap(ctx, text, serial, swap)
		})
	}}
}

// Sign adds a last line to a text of YAML: a comment with a serial number and the signature of all in front of it. It
// replaces an earlier one. Let each text of a source have a greater number than the one before it, such as the time. Line
// ends of all kinds become those of Unix; a later checkout with other line ends does not break the signature. Sign
// returns an error if the key is invalid, and if the number is not from 1 to [MostSerial].
func Sign(text []byte, key ed25519.PrivateKey, serial int64) ([]byte, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("policies: a private key has %d bytes, want %d", len(key), ed25519.PrivateKeySize)
	}
	if serial < 1 || serial > MostSerial {
		return nil, fmt.Errorf("policies: the serial number %d is not from 1 to %d", serial, int64(MostSerial))
	}
	signed := oneLineEnd(append(slices.Clip(text), '\n'))
	signed = signed[:len(signed)-1]
	if last := lastLine(signed); signatureLine.Match(signed[last:]) {
		signed = signed[:last]
	}
	signed = slices.Clip(signed)
	if len(signed) > 0 && !bytes.HasSuffix(signed, []byte{'\n'}) {
		signed = append(signed, '\n')
	}
	signed = fmt.Appendf(signed, "%sserial %d ", signedAs, serial)
	signature := ed25519.Sign(key, slices.Concat([]byte(purpose), signed))
	return fmt.Appendf(signed, "%s\n", base64.StdEncoding.EncodeToString(signature)), nil
}

// Verify returns the serial number of a text that one of some keys has signed, and an error for all other texts.
func Verify(text []byte, keys ...ed25519.PublicKey) (serial int64, err error) {
	text = oneLineEnd(text)
	last := lastLine(text)
	parts := signatureLine.FindSubmatchIndex(text[last:])
	if parts == nil {
		return 0, errUnsigned
	}
	serial, err = strconv.ParseInt(string(text[last+parts[2]:last+parts[3]]), 10, 64)
	signature, malformed := base64.StdEncoding.Strict().DecodeString(string(text[last+parts[4] : last+parts[5]]))
	if err != nil || malformed != nil || serial > MostSerial {
		return 0, errUnsigned
	}
	message := slices.Concat([]byte(purpose), text[:last+parts[4]])
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, signature) {
			return serial, nil
		}
	}
	return 0, errForeign
}

var (
	errUnsigned = errors.New("it is not signed: its last line is no signature, as weir sign writes one")
	errForeign  = errors.New("its signature is not by a key that is believed, or the text has changed since")
)

// signatureLine matches the last line of a signed text, and its line ends: redis-cli ends its output with one of its own.
var signatureLine = regexp.MustCompile(`^` + regexp.QuoteMeta(signedAs) + `serial ([1-9][0-9]*) ([A-Za-z0-9+/=]+)[\r\n]*$`)

// lastLine returns where the last line of a text begins, but for empty ones.
func lastLine(text []byte) int { return bytes.LastIndexByte(bytes.TrimRight(text, "\r\n"), '\n') + 1 }

// lineEnd matches a line end as a checkout may have written it.
var lineEnd = regexp.MustCompile(`\r+\n`)

// oneLineEnd returns a text with the line ends of Unix.
func oneLineEnd(text []byte) []byte { return lineEnd.ReplaceAll(text, []byte{'\n'}) }

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

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
	// signedAs is what the last line of a signed text begins with: a comment of YAML. The serial number and the signature follow.
	signedAs = "# signed: ed25519 "
	// purpose stands in front of what is signed, so that no signature of something else is one of policies.
	purpose = "github.com/weir-go/ratelimit/policies\n"
	// MostSerial is the greatest serial number of a signed text: 2^53, up to which Redis keeps them exactly.
	MostSerial = 1 << 53
)

// Signed is a source whose texts are believed if one of some keys has signed them, as [Sign] and weir sign do. All others are errors,
// which change nothing. Use a key of its own for each source, and give two keys while one takes the place of the other.
//
// A text with a smaller serial number than that of one which has been in force is an error, too: whoever can write to the source, but has no
// such key, cannot put back what was signed before. The greatest number is kept in the process. Of a source of [Redis] it is also kept in the
// sorted set key:serial, so that a process that starts anew knows it; that needs the permissions for ZADD and ZSCORE. Keep the permission to
// write there from whoever may write to the source, and have Redis not evict it. Other sources begin anew with the process. Where the number
// cannot be read, no other text is put in force; where it cannot be kept, [WithOnError] is told until it is, and a [Watch] without [WithStart]
// does not begin.
//
// Signed panics without a key, and if a key is none.
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
	return Source{name: source.name, read: func(ctx context.Context, put func([]byte) error) error {
		return source.read(ctx, func(text []byte) error {
			text = oneLineEnd(text)
			serial, err := Verify(text, keys...)
			if err != nil {
				return err
			}
			return s.put(ctx, text, serial, put)
		})
	}}
}

// Sign returns a text of YAML whose last line is a comment with a serial number and the signature of all in front of it, in place of one that
// it may have. Let each text of a source have a greater number than the one before it, such as the time. Line ends of all kinds become those of
// Unix; those that a checkout makes of them later do not break the signature. Sign returns an error if the key is none, and if the number is
// not from 1 to [MostSerial].
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

// signatureLine is the last line of a signed text, and what line ends follow: redis-cli ends what it gets with one of its own.
var signatureLine = regexp.MustCompile(`^` + regexp.QuoteMeta(signedAs) + `serial ([1-9][0-9]*) ([A-Za-z0-9+/=]+)[\r\n]*$`)

// lastLine returns where the last line of a text begins, but for empty ones.
func lastLine(text []byte) int { return bytes.LastIndexByte(bytes.TrimRight(text, "\r\n"), '\n') + 1 }

// lineEnd is what a checkout may have made of the end of a line.
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

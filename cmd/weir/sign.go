package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/policies"
)

const signHelp = `Writes a file of policies to standard output, with a serial number and a signature of it in its last line, for policies.Signed. "-" is
standard input. A file that makes no sense is not signed.

Programs believe no text with a smaller number than one before it. The number is the time in milliseconds, unless -serial says another one.

   openssl genpkey -algorithm ed25519 -out policies.key
   openssl pkey -in policies.key -pubout -out policies.pub
   weir sign -key policies.key limits.yaml | redis-cli -x SET api:policies

Exit codes:
   0  it is signed
   1  the file or the key could not be read
   2  the command line makes no sense
   5  the file makes no sense`

// Signed is the output of weir sign as JSON.
type Signed struct {
	File string `json:"file"`
	// Serial is the number that is signed with it.
	Serial int64 `json:"serial"`
	// Text is the file with its signature.
	Text string `json:"text"`
}

func signCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "sign", Usage: "signs a file of policies, so that programs need not believe whoever can write to its place",
		UsageText: "weir sign -key policies.key limits.yaml", Description: signHelp,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "the `FILE` of a private key of Ed25519, in PEM"},
			&cli.Int64Flag{Name: "serial", Usage: "sign with the number `N`, greater than that of the text before: the default is the time in milliseconds"},
			&cli.BoolFlag{Name: "json", Usage: "write JSON to standard output"},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Len() != 1 || c.String("key") == "" {
				return usage("name one file of policies, and the file of a private key by -key: see weir help sign")
			}
			name := c.Args().First()
			text, err := textOf(name, stdin)
			if err != nil {
				return err
			}
			if _, err := parsePolicies(name, text); err != nil {
				return exitError{err, exitInvalid}
			}
			key, err := privateKey(c.String("key"))
			if err != nil {
				return err
			}
			serial := time.Now().UnixMilli()
			if c.IsSet("serial") {
				if serial = c.Int64("serial"); serial < 1 || serial > policies.MostSerial {
					return usage("-serial %d is not from 1 to %d", serial, int64(policies.MostSerial))
				}
			}
			signed, err := policies.Sign(text, key, serial)
			if err != nil {
				return err
			}
			if _, err := parsePolicies(name, signed); err != nil { // JSON has no comments
				return exitError{fmt.Errorf("the signature is a comment, so sign YAML: %w", err), exitInvalid}
			}
			if c.Bool("json") {
				return writeJSON(stdout, Signed{File: name, Serial: serial, Text: string(signed)})
			}
			_, err = stdout.Write(signed)
			return err
		},
	}
}

// privateKey reads a key from a file.
func privateKey(path string) (ed25519.PrivateKey, error) {
	text, err := readFirst(path, mostOfKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no key in PEM: make one by openssl genpkey -algorithm ed25519", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is no private key: %w", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s has a %T, want a key of Ed25519", path, key)
	}
	return private, nil
}

// checkSignature returns the serial number of a text if its signature matches the public key in a file, and otherwise an error.
func checkSignature(name string, text []byte, path string) (serial int64, err error) {
	public, err := readFirst(path, mostOfKey)
	if err != nil {
		return 0, err
	}
	key, err := policies.ParsePublicKey(public)
	if err != nil {
		return 0, fmt.Errorf("%s has no public key: %w", path, err)
	}
	if serial, err = policies.Verify(text, key); err != nil {
		return 0, fmt.Errorf("%s is not to be believed: %w", called(name), err)
	}
	return serial, nil
}

package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/policies"
)

// keyFiles writes the files of a new key, as openssl does.
func keyFiles(t *testing.T) (private, public string) {
	t.Helper()
	half, whole, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, of string, der []byte, err error) string {
		path := filepath.Join(t.TempDir(), name)
		if err == nil {
			err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: of, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(whole)
	private = write("policies.key", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(half)
	return private, write("policies.pub", "PUBLIC KEY", der, err)
}

func TestSign(t *testing.T) {
	private, public := keyFiles(t)
	before := time.Now().UnixMilli()
	code, signed, messages := weir(t, limitsFile, "sign", "-key", private, "-")
	if code != 0 || !strings.HasPrefix(signed, limitsFile+"# signed: ed25519 ") {
		t.Fatalf("exit code %d: %s%s", code, signed, messages)
	}
	text, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	key, err := policies.ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	if serial, err := policies.Verify([]byte(signed), key); err != nil || serial < before || serial > time.Now().UnixMilli() {
		t.Errorf("serial number %d, %v", serial, err)
	}
	code, out, _ := weir(t, limitsFile, "sign", "-json", "-serial", "7", "-key", private, "-")
	var said Signed
	if err := json.Unmarshal([]byte(out), &said); code != 0 || err != nil || said.Serial != 7 || !strings.Contains(said.Text, "\n# signed: ed25519 serial 7 ") {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	if _, signed, _ = weir(t, signed, "sign", "-serial", "8", "-key", private, "-"); strings.Count(signed, "# signed") != 1 {
		t.Errorf("it is signed twice: %s", signed)
	}
	_, foreign := keyFiles(t)
	for _, c := range []struct {
		stdin, want string
		code        int
		args        []string
	}{
		{signed, "It is signed with the serial number 8.", 0, check("-signed", public, "-")},
		{strings.ReplaceAll(signed, "\n", "\r\n"), "It is signed with the serial number 8.", 0, check("-signed", public, "-")},
		{signed, `"serial": 8`, 0, check("-json", "-signed", public, "-")},
		{limitsFile, "-serial 0 is not from 1 to", exitUsage, []string{"sign", "-serial", "0", "-key", private, "-"}},
		{signed, "a public key is in PEM", exitFailed, []string{"check", "-signed", "/dev/zero", "-"}},
		{signed, "is not to be believed: its signature is not by a key", exitFailed, []string{"check", "-signed", foreign, "-"}},
		{limitsFile, "is not to be believed: it is not signed", exitFailed, []string{"check", "-signed", public, "-"}},
		{signed, "no such file", exitFailed, []string{"check", "-signed", public + "x", "-"}},
		{signed, "cannot be read", exitFailed, []string{"check", "-signed", private, "-"}},
		{"limits: {a: x}", "makes no sense", exitInvalid, []string{"sign", "-key", private, "-"}},
		{`{"limitsNothing": true}`, "sign YAML", exitInvalid, []string{"sign", "-key", private, "-"}},
		{limitsFile, "is no private key", exitFailed, []string{"sign", "-key", public, "-"}},
		{limitsFile, "no such file", exitFailed, []string{"sign", "-key", private + "x", "-"}},
		{limitsFile, "-key", exitUsage, []string{"sign", "-"}},
	} {
		code, out, messages := weir(t, c.stdin, c.args...)
		if code != c.code || !strings.Contains(out+messages, c.want) {
			t.Errorf("%q: exit code %d: %s%s, want %d: %s", c.args, code, out, messages, c.code, c.want)
		}
	}
}

// Package logfile opens logs, compressed or not, and cuts them into blocks of whole lines.
package logfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A File is an open log. Read returns its text, decompressed.
type File struct {
	name    string
	file    *os.File
	text    io.Reader
	release func()
	read    *atomic.Int64
}

// Open opens a log. Its content says whether it is compressed with gzip or zstd; its name means nothing. The bytes that are read of the file, as it
// lies on the disk, are added to read.
func Open(name string, read *atomic.Int64) (*File, error) {
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("a log cannot be opened: %w", err)
	}
	opened := &File{name: name, file: f, release: func() {}, read: read}
	if opened.text, err = opened.decompressed(); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return opened, nil
}

// decompressed returns a reader of the file's text.
func (f *File) decompressed() (io.Reader, error) {
	raw := bufio.NewReaderSize(counted{f.file, f.read}, 64<<10)
	magic, err := raw.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b: // RFC 1952
		return gzip.NewReader(raw)
	case len(magic) == 4 && (string(magic) == "\x28\xb5\x2f\xfd" || magic[0]&0xf0 == 0x50 && string(magic[1:]) == "\x2a\x4d\x18"): // RFC 8878
		z, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		f.release = z.Close
		return z, nil
	}
	return raw, nil
}

// Read reads the log's text.
func (f *File) Read(p []byte) (int, error) { return f.text.Read(p) }

// Close closes the file.
func (f *File) Close() error {
	f.release()
	return f.file.Close()
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader

	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Spool copies standard input into a temporary file, since a log may be read twice. The caller removes the file.
func Spool(r io.Reader) (name string, err error) {
	f, err := os.CreateTemp("", "weir-*.log")
	if err != nil {
		return "", fmt.Errorf("no temporary file: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("standard input: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

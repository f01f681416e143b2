package logfile

import (
	"bytes"
	"errors"
	"io"
)

const (
	// BlockSize is the size of a block, unless one line is longer.
	BlockSize = 256 << 10
	// Longest is the length of the longest line. Servers refuse requests that would need longer ones.
	Longest = 1 << 20
)

// Blocks cuts a text into blocks of whole lines. Of a line that is longer than Longest, it returns the first Longest+1 bytes, without a line end,
// as a block of its own.
type Blocks struct {
	r        io.Reader
	rest     []byte // the begin of the next block
	skipping bool   // whether the next bytes belong to a line that is too long
	err      error
}

// NewBlocks returns the blocks of a text.
func NewBlocks(r io.Reader) *Blocks { return &Blocks{r: r} }

// Next returns the next block in space, or in a larger slice if that has no room for it. It ends with a line end, unless the text ends
// without one or the line is too long. The error is io.EOF at the end. The text before any other error is returned first.
func (b *Blocks) Next(space []byte) ([]byte, error) {
	if cap(space) < BlockSize {
		space = make([]byte, 0, BlockSize)
	}
	block := space[:0]
	block = append(block, b.rest...)
	if b.rest = b.rest[:0]; cap(b.rest) > BlockSize {
		b.rest = nil
	}
	block = b.skip(block)
	for b.err == nil {
		for len(block) < cap(block) && b.err == nil {
			var n int
			n, b.err = b.r.Read(block[len(block):cap(block)])
			block = block[:len(block)+n]
		}
		if b.err != nil {
			break
		}
		if end := bytes.LastIndexByte(block, '\n') + 1; end > 0 {
			b.rest = append(b.rest, block[end:]...)
			return block[:end], nil
		}
		if len(block) > Longest {
			b.skipping = true
			return block, nil
		}
		block = append(make([]byte, 0, min(2*cap(block), Longest+1)), block...)
	}
	if len(block) > 0 {
		return block, nil
	}
	if errors.Is(b.err, io.EOF) {
		return nil, io.EOF
	}
	return nil, b.err
}

// skip leaves the rest of a line out that is too long, and appends the text behind it.
func (b *Blocks) skip(block []byte) []byte {
	for b.skipping && b.err == nil {
		var n int
		n, b.err = b.r.Read(block[:cap(block)])
		if end := bytes.IndexByte(block[:n], '\n'); end >= 0 {
			b.skipping = false
			block = append(block, block[end+1:n]...)
		}
	}
	return block
}

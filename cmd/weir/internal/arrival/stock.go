package arrival

import (
	"sync"

	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

// A stock keeps batches and blocks for the next reader. A sync.Pool would lose them at each garbage collection, and new ones would
// make the next collection come sooner.
type stock struct {
	most int // of either

	mu      sync.Mutex
	batches []*batch
	blocks  [][]byte
}

// batch returns an empty batch, perhaps with the space of an earlier one.
func (s *stock) batch() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.batches) - 1
	if last < 0 {
		return new(batch)
	}
	b := s.batches[last]
	s.batches = s.batches[:last]
	return b
}

// block returns the space of an earlier block, or nil.
func (s *stock) block() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.blocks) - 1
	if last < 0 {
		return nil
	}
	block := s.blocks[last]
	s.blocks = s.blocks[:last]
	return block
}

// put takes a batch back, and its block unless a long line made that one large.
func (s *stock) put(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(b.block) <= logfile.BlockSize && len(s.blocks) < s.most {
		s.blocks = append(s.blocks, b.block)
	}
	b.block, b.badText = nil, nil
	clear(b.arrivals) // they may refer to requests
	if len(s.batches) < s.most {
		s.batches = append(s.batches, b)
	}
}

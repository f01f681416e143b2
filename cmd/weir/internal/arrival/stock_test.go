package arrival

import (
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

// A stock has a bound, keeps no block that a long line has made large, and no request of a batch.
func TestStocksAreBounded(t *testing.T) {
	s := stock{most: 2}
	for range 5 {
		s.put(&batch{block: make([]byte, 0, logfile.BlockSize), arrivals: []Arrival{{Request: new(accesslog.Request)}}, badText: []byte("bad")})
	}
	s.put(&batch{block: make([]byte, 0, logfile.BlockSize+1)})
	if len(s.batches) != 2 || len(s.blocks) != 2 {
		t.Fatalf("it keeps %d batches and %d blocks", len(s.batches), len(s.blocks))
	}
	if b := s.batch(); b.arrivals[0].Request != nil || b.badText != nil || b.block != nil {
		t.Errorf("a batch that was put back refers to %+v", *b)
	}
	large := stock{most: 2}
	large.put(&batch{block: make([]byte, 0, logfile.BlockSize+1)})
	if block := large.block(); block != nil {
		t.Errorf("it keeps a block of %d bytes", cap(block))
	}
}

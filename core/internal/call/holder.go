package call

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// hostLength is how much of a host's name is kept: its end, which tells the pods of a deployment apart.
const hostLength = 10

// thisProcess is a process: a number that it has drawn, and the beginning of the names of its holders.
type thisProcess struct {
	number int64
	label  string
}

var process = sync.OnceValue(func() (p thisProcess) {
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // it never fails
	p.number = int64(binary.LittleEndian.Uint64(drawn[:]) >> 37)
	host, _ := os.Hostname() // a process without one has a label all the same
	p.label = HolderLabel(host) + "." + strconv.FormatInt(p.number, 36) + "."
	return p
})

// HolderLabel returns the part of a host's name that is kept.
func HolderLabel(host string) string {
	host = strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, host)
	if len(host) > hostLength {
		host = host[len(host)-hostLength:]
	}
	return host
}

var latest atomic.Int64

// NewHolder returns a new holder. Its second number is when it was made, in microseconds since 1970 on this process's clock, or
// a little more.
func NewHolder() exact.Holder {
	now := time.Now().UnixMicro()
	for {
		last := latest.Load()
		if next := max(last+1, now); latest.CompareAndSwap(last, next) {
			return exact.Holder{process().number, next}
		}
	}
}

// HolderName returns the name of a holder of this process in a store: "web-7f9c2d.k3x9a.mhz1k2b3q8".
func HolderName(h exact.Holder) string {
	var scratch [2 * (hostLength + 12)]byte
	return string(AppendHolderName(scratch[:0], h))
}

// AppendHolderName appends the HolderName of a holder.
func AppendHolderName(b []byte, h exact.Holder) []byte {
	return strconv.AppendInt(append(b, process().label...), h[1], 36)
}

// manyPlaces stands in a member between the name of a holder and the number of its places, if it has several.
const manyPlaces = "*"

// HolderPlaces returns the number of places in a holder's name as a store has it.
func HolderPlaces(name string) int {
	if _, places, several := strings.Cut(name, manyPlaces); several {
		if n, err := strconv.Atoi(places); err == nil {
			return n
		}
	}
	return 1
}

// ParseHolder returns the host and the time in a holder's name as a store has it, or false if it is no name of a holder.
func ParseHolder(name string) (host string, since time.Time, ok bool) {
	name, _, _ = strings.Cut(name, manyPlaces)
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return "", time.Time{}, false
	}
	micro, err := strconv.ParseInt(parts[2], 36, 64)
	if err != nil {
		return "", time.Time{}, false
	}
	return parts[0], time.UnixMicro(micro), true
}

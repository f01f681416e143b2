// Package weblog writes the access log of a busy site that there is not. It is hard on a program that keeps something for each client: there are
// ten million addresses, of which most come a few times, and some all the time. The same number of lines is the same log.
package weblog

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"
)

// Format is how a line is written.
type Format int

// The formats: that of nginx and Apache, and Caddy's JSON.
const (
	Combined Format = iota
	JSON
)

// The site: its addresses, and a request each 8,640 µs, which is ten million a day.
const (
	addresses = 10_000_000
	pause     = 8_640 * time.Microsecond
)

var begin = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
	"python-requests/2.32",
}

// Write writes the given number of lines, and returns how many addresses they are of.
func Write(w io.Writer, format Format, lines int) (keys int, err error) {
	random := rand.New(rand.NewPCG(17, uint64(format)))
	ranks := rand.NewZipf(random, 1.05, 20, addresses-1)
	seen := make([]uint64, addresses/64+1)
	out := bufio.NewWriterSize(w, 1<<20)
	var line []byte
	r := request{at: begin}
	for range lines {
		rank := ranks.Uint64()
		if bit := uint64(1) << (rank % 64); seen[rank/64]&bit == 0 {
			seen[rank/64] |= bit
			keys++
		}
		r.address = uint32(rank) * 2_654_435_761 // odd, so that no two ranks have the same
		r.agent = agents[rank%uint64(len(agents))]
		r.page = random.IntN(5_000)
		r.status = 200
		if random.IntN(50) == 0 || rank%1_000 == 7 { // scanners find nothing
			r.status = 404
		}
		if format == JSON {
			line = r.json(line[:0])
		} else {
			line = r.combined(line[:0])
		}
		if _, err = out.Write(line); err != nil {
			return 0, fmt.Errorf("weblog: %w", err)
		}
		r.at = r.at.Add(pause)
	}
	if err = out.Flush(); err != nil {
		return 0, fmt.Errorf("weblog: %w", err)
	}
	return keys, nil
}

// request is one line.
type request struct {
	at           time.Time
	address      uint32
	page, status int
	agent        string

	second int64 // that of stamp
	stamp  []byte
}

func (r *request) combined(line []byte) []byte {
	if second := r.at.Unix(); second != r.second {
		r.second, r.stamp = second, r.at.AppendFormat(r.stamp[:0], "02/Jan/2006:15:04:05 -0700")
	}
	line = appendAddress(line, r.address)
	line = append(append(append(line, " - - ["...), r.stamp...), `] "GET /products/`...)
	line = append(strconv.AppendInt(line, int64(r.page), 10), ` HTTP/1.1" `...)
	line = append(strconv.AppendInt(line, int64(r.status), 10), ' ')
	line = append(strconv.AppendInt(line, int64(200+r.page), 10), ` "-" "`...)
	return append(append(line, r.agent...), "\"\n"...)
}

func (r *request) json(line []byte) []byte {
	micros := r.at.UnixMicro()
	line = append(strconv.AppendInt(append(line, `{"level":"info","ts":`...), micros/1e6, 10), '.')
	line = append(line, strconv.Itoa(1e6 + int(micros%1e6))[1:]...)
	line = append(line, `,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"`...)
	line = append(appendAddress(line, r.address), `","remote_port":"41342","client_ip":"`...)
	line = append(appendAddress(line, r.address), `","proto":"HTTP/2.0","method":"GET","host":"shop.example","uri":"/products/`...)
	line = append(strconv.AppendInt(line, int64(r.page), 10), `","headers":{"User-Agent":["`...)
	line = append(append(line, r.agent...), `"],"Accept":["*/*"],"Accept-Encoding":["gzip"]},"tls":{"resumed":false,"version":772,`...)
	line = append(line, `"cipher_suite":4865,"proto":"h2","server_name":"shop.example"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":`...)
	line = append(strconv.AppendInt(line, int64(200+r.page), 10), `,"status":`...)
	line = strconv.AppendInt(line, int64(r.status), 10)
	return append(line, `,"resp_headers":{"Server":["Caddy"],"Content-Type":["text/html"]}}`+"\n"...)
}

// appendAddress adds an IPv4 address to a line.
func appendAddress(line []byte, address uint32) []byte {
	for shift := 24; shift >= 0; shift -= 8 {
		line = strconv.AppendUint(line, uint64(address>>shift&0xff), 10)
		if shift > 0 {
			line = append(line, '.')
		}
	}
	return line
}

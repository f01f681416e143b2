package arrival

import (
	"bytes"
	"errors"
	"hash/maphash"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

// seed is that of all hashes of this process.
var seed = maphash.MakeSeed()

// Hash returns the number that stands for a key in this process.
func Hash(key []byte) uint64 { return maphash.Bytes(seed, key) }

// A job is a block to parse, and where the batch is sent.
type job struct {
	block  []byte
	format accesslog.Format
	done   chan *batch
}

// A batch has the requests of a block. Its arrivals refer to texts alone.
type batch struct {
	block    []byte
	texts    texts
	arrivals []Arrival
	times    []int64 // the instants of all lines that can be read
	places   []int32 // of each arrival, where in times its line is

	lines, otherRoute, keyless, skipped, whole int64

	badLine int64 // the first, counted from 1, or 0
	badText []byte
	bad     error
	unread  unread
}

// A worker parses blocks.
type worker struct {
	options Options
	parsers map[accesslog.Format]accesslog.Parser
	matcher *matcher
	agents  map[string]agent
	copier  accesslog.Copier
}

func newWorker(o Options) *worker {
	o.Log.Whole = o.Requests
	w := &worker{options: o, parsers: make(map[accesslog.Format]accesslog.Parser), agents: make(map[string]agent)}
	if o.Route != nil {
		w.matcher = &matcher{route: o.Route}
	}
	return w
}

// parse fills a batch with the requests of a block.
func (w *worker) parse(j job, b *batch) error {
	parser := w.parsers[j.format]
	if parser == nil {
		var err error
		if parser, err = accesslog.New(j.format, w.options.Log); err != nil {
			return err
		}
		w.parsers[j.format] = parser
	}
	b.texts.forget()
	*b = batch{block: j.block, texts: b.texts, arrivals: b.arrivals[:0], times: b.times[:0], places: b.places[:0]}
	var r accesslog.Record
	for rest := j.block; len(rest) > 0; {
		line := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			line, rest = rest[:end], rest[end+1:]
		} else {
			rest = nil
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		b.lines++
		if len(line) == 0 {
			continue
		}
		w.take(b, line, &r, parser)
	}
	return nil
}

// errLong is the error of a line that is cut.
var errLong = errors.New("the line is longer than 1 MiB")

// longestStart is how much of a line that is cut is looked at.
const longestStart = 64 << 10

// longestAgent is how much of a User-Agent is looked at, and mostAgents is how many of them a worker remembers.
const longestAgent, mostAgents = 256, 4096

// agent is a User-Agent, and its hash.
type agent struct {
	text string
	hash uint64
}

// agent returns the User-Agent of a line. It remembers some, since a log has the same ones again and again.
func (w *worker) agent(text []byte) agent {
	text = text[:min(len(text), longestAgent)]
	one, known := w.agents[string(text)]
	if !known {
		if len(w.agents) == mostAgents {
			clear(w.agents)
		}
		one = agent{string(text), maphash.Bytes(seed, text)}
		w.agents[one.text] = one
	}
	return one
}

// take adds the request of a line.
func (w *worker) take(b *batch, line []byte, r *accesslog.Record, parser accesslog.Parser) {
	err := errLong
	if len(line) <= logfile.Longest {
		err = parser.Parse(line, r)
	}
	if err == nil || errors.Is(err, accesslog.ErrNoKey) && r.Instant > 0 {
		b.times = append(b.times, r.Instant)
	}
	switch {
	case errors.Is(err, accesslog.ErrNoKey):
		b.keyless++
		return
	case err != nil:
		if b.skipped++; b.bad == nil {
			b.badLine, b.badText, b.bad = b.lines, line, err
		}
		if len(line) > logfile.Longest {
			line = line[:longestStart]
		}
		if address := parser.Address(line); address != nil {
			b.unread.add(string(address), 1)
		}
		return
	}
	a := Arrival{Instant: r.Instant, Hash: Hash(r.Key), Status: uint16(r.Status), Whole: r.Whole}
	part := When
	if w.options.Keep != nil {
		part = w.options.Keep(a.Hash)
	}
	if part == All || w.matcher != nil || w.options.Requests {
		parser.Details(r)
	}
	if w.matcher != nil && !w.matcher.matches(r) {
		b.otherRoute++
		return
	}
	if r.Whole {
		b.whole++
	}
	switch a.passing = part == None; {
	case a.passing:
	case w.options.Requests:
		a.Request = w.copier.Copy(r)
	default:
		a.Key = b.texts.keep(r.Key)
	}
	if part == All {
		a.Path = maphash.Bytes(seed, r.Path)
		agent := w.agent(r.Agent)
		a.Agent, a.AgentHash = agent.text, agent.hash
	}
	b.arrivals, b.places = append(b.arrivals, a), append(b.places, int32(len(b.times)-1))
}

package accesslog

import (
	"bytes"
	"errors"
	"time"
)

// albLines reads the access log of an AWS Application Load Balancer.
type albLines struct {
	take    column
	details details

	request, agent, client []byte // of the line that was parsed last
}

var errShortALB = errors.New("fewer than the 14 first fields of a load balancer's log")

// Parse implements Parser.
func (a *albLines) Parse(line []byte, r *Record) error {
	r.empty()
	var fields [12][]byte // type time elb client:port target:port three times elb_status target_status received sent
	rest := line
	for i := range fields {
		if fields[i], rest = word(rest); len(fields[i]) == 0 {
			return errShortALB
		}
	}
	var err error
	if r.Instant, r.Whole, err = stamp(fields[1], time.UTC); err != nil {
		return err
	}
	var ok bool
	if r.Status, ok = statusOf(fields[8]); !ok {
		return errNoStatus
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return errShortALB
	}
	agent, _, _ := quoted(rest)
	a.request, a.agent, a.client = request, agent, fields[3]
	switch a.take {
	case agentColumn:
		return r.setKey(agent, false)
	case refererColumn, forwardedColumn:
		return ErrNoKey // the load balancer logs neither
	case addressColumn:
	}
	client := fields[3]
	if i := bytes.LastIndexByte(client, ':'); i > 0 {
		client = client[:i]
	}
	return r.setKey(client, true)
}

// Address implements Parser.
func (a *albLines) Address(line []byte) []byte {
	var client []byte
	for range 4 {
		client, line = word(line)
	}
	if i := bytes.LastIndexByte(client, ':'); i > 0 {
		client = client[:i]
	}
	return addressOf(client)
}

// Details implements Parser.
func (a *albLines) Details(r *Record) {
	splitRequest(a.request, r)
	r.Agent = present(a.agent)
	a.details.add(r, a.client, nil, nil)
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

const (
	loopback = "127.0.0.1"
	// portTries bounds the search for a free port, and for a pair of them.
	portTries = 100
	highest   = 1<<16 - 1
)

// freePort returns a port without a listener, such that the ports above it
// by each of the offsets are free too. Another process may take one of them
// before the caller does.
func freePort(offsets ...int) (int, error) {
	var last error
	for range portTries {
		port, err := tryPorts(offsets)
		if err == nil {
			return port, nil
		}
		last = err
	}
	return 0, fmt.Errorf("redistest: no free port in %d tries: %w", portTries, last)
}

// tryPorts asks the system for one port, and checks those at the offsets while
// it is still held.
func tryPorts(offsets []int) (port int, err error) {
	first, err := listen(0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	address, ok := first.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("redistest: a TCP listener has the address %v", first.Addr())
	}
	for _, offset := range offsets {
		if address.Port+offset > highest {
			return 0, fmt.Errorf("redistest: port %d has no port %d above it", address.Port, offset)
		}
		other, err := listen(address.Port + offset)
		if err != nil {
			return 0, err
		}
		if err := other.Close(); err != nil {
			return 0, fmt.Errorf("redistest: %w", err)
		}
	}
	return address.Port, nil
}

func listen(port int) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addressOf(port))
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return listener, nil
}

func addressOf(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// Package serve runs the examples' servers until they are interrupted.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long requests may take to end after an interrupt.
const patience = 5 * time.Second

// Server returns a server that waits for no client forever, be it for the rest of a
// request or for the next one. ReadTimeout is over when all of a request has been read,
// and cuts neither streams nor shaped requests; only one whose body is read after its
// turn has come would need more.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
	}
}

// Run serves a handler on an address until SIGINT or SIGTERM, and then lets the
// requests under way end. It prints where it listens, and what about it.
func Run(addr string, handler http.Handler, about string) error {
	interrupted, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var config net.ListenConfig
	listener, err := config.Listen(interrupted, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n%s\n", listener.Addr(), about)

	server := Server(handler)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-interrupted.Done():
	}
	stop() // a second interrupt ends the process at once
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

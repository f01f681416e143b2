// Doctor examines the Redis that limits are to live on, and says in plain words what is
// wrong and what to do about it. It exits with status 1 if there is a problem.
//
//	go run ./examples/doctor -redis redis://user:password@localhost:6379
//
// It asks with the client that core.Open makes and the default prefix of keys. A program
// that has others asks its own limiter: limiter.Diagnose(ctx).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func main() {
	store := flag.String("redis", "redis://localhost:6379", "URL of the store")
	patience := flag.Duration("timeout", 10*time.Second, "how long it may take")
	flag.Parse()
	if err := run(os.Stdout, *store, *patience); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(w io.Writer, store string, patience time.Duration) error {
	limiter, err := core.Open(store)
	if err != nil {
		return err
	}
	defer limiter.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	diagnosis := limiter.Diagnose(ctx)
	fmt.Fprint(w, diagnosis)
	if diagnosis.Err() != nil { // what it says has been printed
		return errors.New("there is a problem")
	}
	return nil
}

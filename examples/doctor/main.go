// Doctor examines the Redis that limits are to live on, and says in plain words what is
// wrong and what to do about it. It exits with status 1 if there is a problem.
//
//	go run ./examples/doctor -redis redis://localhost:6379
//	REDIS_URL=redis://user:password@localhost:6379 go run ./examples/doctor
//
// A URL with a password belongs in REDIS_URL: everybody on the machine can read the flags of a
// process. Where both are given, the flag wins.
//
// It asks with the client that core.Open makes and the default prefix of keys. A program
// that has others examines its own limiter: doctor.Examine(ctx, limiter).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
)

const lastResort = "redis://localhost:6379"

func main() {
	if err := command(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command runs the doctor with the flags of a command line.
func command(w io.Writer, args []string) error {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(w)
	store := flags.String("redis", "", "`URL` of the store (default REDIS_URL, or else "+lastResort+")")
	patience := flags.Duration("timeout", 10*time.Second, "how long it may take")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	return run(w, cmp.Or(*store, os.Getenv("REDIS_URL"), lastResort), *patience)
}

func run(w io.Writer, store string, patience time.Duration) error {
	limiter, err := core.Open(store)
	if err != nil {
		return err
	}
	defer limiter.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	report := doctor.Examine(ctx, limiter)
	fmt.Fprint(w, report)
	if report.Err() != nil { // what it says has been printed
		return errors.New("there is a problem")
	}
	return nil
}

package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is the program when the program starts itself: the test binary is what
// generates the HTTP load, and what measures a command.
func TestMain(m *testing.M) {
	if code, asked := generator(os.Stdout, os.Stderr); asked {
		os.Exit(code)
	}
	if code, asked := commander(os.Stderr); asked {
		os.Exit(code)
	}
	// A process with the race detector waits a second before it exits, unless told.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// go-zero starts these with the program.
		goleak.IgnoreAnyFunction("github.com/zeromicro/go-zero/core/proc.init.1.func1"),
		goleak.IgnoreAnyFunction("github.com/zeromicro/go-zero/core/stat.init.1.func1"),
		// ulule's ends when its store is collected.
		goleak.IgnoreAnyFunction("github.com/ulule/limiter/v3/drivers/store/memory.(*cleaner).Run"),
	)
}

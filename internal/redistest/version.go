package redistest

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

var majorVersion = regexp.MustCompile(` v=(\d+)\.`)

// Major returns the first number of the version of the server program, such as 6 of Redis
// 6.2.16 and 8 of Valkey 8.0.1.
//
// Without a server program the test is skipped, or fails when CI=true.
func Major(tb testing.TB) int {
	tb.Helper()
	binary, err := installed()
	if err != nil {
		giveUp(tb, err)
	}
	told, err := exec.CommandContext(tb.Context(), binary, "--version").Output()
	if err != nil {
		tb.Fatalf("redistest: asking %s for its version: %v", binary, err)
	}
	found := majorVersion.FindSubmatch(told)
	if found == nil {
		tb.Fatalf("redistest: %s tells no version: %q", binary, told)
	}
	major, err := strconv.Atoi(string(found[1]))
	if err != nil {
		tb.Fatalf("redistest: the version of %s: %v", binary, err)
	}
	return major
}

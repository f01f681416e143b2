package redistest

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLaunchedServerServesUntilItIsEnded(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	server, end, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, server.Client(t), "key")
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := dead(server); err != nil {
		t.Error(err)
	}
}

func TestLaunchWithoutAServerProgramIsAnError(t *testing.T) {
	t.Setenv(serverProgram, "")
	t.Setenv("PATH", t.TempDir())
	if _, _, err := Launch(); !errors.Is(err, errNotInstalled) {
		t.Errorf("Launch = %v, want %v", err, errNotInstalled)
	}
}

func TestLaunchOfAProgramThatIsNamedAndMissingIsAnError(t *testing.T) {
	t.Setenv(serverProgram, filepath.Join(t.TempDir(), "redis-server"))
	_, _, err := Launch()
	if err == nil || errors.Is(err, errNotInstalled) || !strings.Contains(err.Error(), serverProgram) {
		t.Errorf("Launch = %v, want an error that names %s", err, serverProgram)
	}
}

func TestLaunchStartsTheProgramThatIsNamed(t *testing.T) {
	program, err := installed()
	if err != nil {
		giveUp(t, err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv(serverProgram, program)
	_, end, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestMajorIsThatOfTheServer(t *testing.T) {
	info := Start(t).Client(t).Info(t.Context(), "server").Val()
	major := Major(t)
	if !strings.Contains(info, fmt.Sprintf("_version:%d.", major)) {
		t.Errorf("Major = %d, but the server says %q", major, info)
	}
}

func TestServersStartAtTheSameTime(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			server, err := start(plan{prepare: alone(nil)})
			if err != nil {
				t.Error(err)
				return
			}
			server.end(t)
		})
	}
	group.Wait()
}

func TestFailedStartShowsWhatTheServerWrote(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	_, err := start(plan{prepare: alone([]string{"--no-such-setting", "1"})})
	if !errors.Is(err, errExited) {
		t.Fatalf("start = %v, want %v", err, errExited)
	}
	for _, want := range []string{"Bad directive", "no-such-setting"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func TestTakenPortIsNotTheEnd(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	taken, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	server, err := start(plan{prepare: func(directory string, own int) ([]string, error) {
		arguments, err := alone(nil)(directory, own)
		if tries++; tries == 1 {
			arguments = append(arguments, "--port", port)
		}
		return arguments, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.end(t)
	if tries != 2 {
		t.Errorf("the server was started %d times, want 2", tries)
	}
}

func TestPortsAtTheOffsetsAreFree(t *testing.T) {
	port, err := freePort(busOffset)
	if err != nil {
		t.Fatal(err)
	}
	if port+busOffset > highest {
		t.Errorf("port %d has no bus port", port)
	}
	if _, err := freePort(highest); err == nil {
		t.Error("a port was found with 65535 ports above it")
	}
}

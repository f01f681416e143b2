package redistest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// startTries is how often a server is started on another port after another
// process took the one chosen for it.
const startTries = 10

var (
	errNotInstalled = errors.New("redistest: neither redis-server nor valkey-server is on the PATH; " +
		"install one (apt-get install redis-server, brew install redis), or use make test, which does")
	errPortTaken = errors.New("redistest: the port was taken by another process")
	errExited    = errors.New("redistest: the server ended by itself")
	errNoAnswer  = errors.New("redistest: the server does not answer")
)

// process is one server process: how to start it, and, while it runs, how to end
// it. It is not safe for concurrent use.
type process struct {
	binary    string
	arguments []string
	directory string
	port      int

	pid    int
	kill   context.CancelFunc
	exited chan struct{} // closed when the process is gone and has been reaped
}

// plan says how a process is started in a directory and on a port, both of which
// may be others at the next try.
type plan struct {
	// prepare returns the arguments of the server.
	prepare func(directory string, port int) ([]string, error)
	// offsets are those of the ports that must be free as well.
	offsets []int
}

// launch starts a server and waits until it answers.
func launch(p plan) (*process, error) {
	binary, err := installed()
	if err != nil {
		return nil, err
	}
	var failure error
	for range startTries {
		started, err := tryLaunch(binary, p)
		if err == nil {
			return started, nil
		}
		failure = err
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, failure
}

func tryLaunch(binary string, p plan) (*process, error) {
	port, err := freePort(p.offsets...)
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &process{binary: binary, directory: directory, port: port}
	if s.arguments, err = p.prepare(directory, port); err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// serverProgram is the environment variable that names the server program, as its path or as it is
// called on the PATH.
const serverProgram = "RATELIMIT_TEST_SERVER"

// installed returns the path of the server program. One that is asked for by name and missing
// is an error and no reason to skip: another version must not be tested in its place.
func installed() (string, error) {
	if name := os.Getenv(serverProgram); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("redistest: the program that %s names: %w", serverProgram, err)
		}
		if path, err = filepath.Abs(path); err != nil { // servers run in directories of their own
			return "", fmt.Errorf("redistest: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNotInstalled
}

// start runs the process and waits until it answers. After an error nothing
// runs, and the error holds the server's output.
func (p *process) start() error {
	if err := p.run(); err != nil {
		return err
	}
	if err := p.await(); err != nil {
		p.stop()
		return p.explain(err)
	}
	return nil
}

func (p *process) run() error {
	output, err := os.Create(p.log())
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer func() { _ = output.Close() }() // the server has its own

	ctx, kill := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, p.binary, p.arguments...)
	command.Dir = p.directory
	command.Stdout, command.Stderr = output, output
	endWithParent(command)

	exited := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(exited)
		// The system ends the server with the thread that started it, not with
		// the process, so that thread is kept for as long as the server runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // the error says that it was killed
		}
	}()
	if err := <-started; err != nil {
		kill()
		return fmt.Errorf("redistest: starting %s: %w", p.binary, err)
	}
	p.pid, p.kill, p.exited = command.Process.Pid, kill, exited
	return nil
}

// await returns nil when the process answers, and an error when it has ended or
// patience has.
func (p *process) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var ended error
	err := poll(ctx, func() error {
		select {
		case <-p.exited:
			ended = errExited
			return nil
		default:
			return p.ask(ctx)
		}
	})
	return errors.Join(ended, err)
}

// ask returns nil when this very process answers on its port: another server may
// have been quicker to take it. One that wants a password first cannot say who
// it is, and is believed.
func (p *process) ask(ctx context.Context) error {
	dialer := net.Dialer{Timeout: time.Second}
	connection, err := dialer.DialContext(ctx, "tcp", addressOf(p.port))
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if _, err := io.WriteString(connection, "INFO server\r\n"); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		line := lines.Text()
		if line == fmt.Sprintf("process_id:%d", p.pid) || strings.HasPrefix(line, "-NOAUTH") {
			return nil
		}
		if strings.HasPrefix(line, "process_id:") || strings.HasPrefix(line, "-") {
			return fmt.Errorf("%w as process %d, but: %s", errNoAnswer, p.pid, line)
		}
	}
	return fmt.Errorf("%w: %w", errNoAnswer, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// explain adds the server's output to err, and tells a taken port apart.
func (p *process) explain(err error) error {
	output, readErr := os.ReadFile(p.log())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if errors.Is(err, errExited) && bytes.Contains(output, []byte("already in use")) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return fmt.Errorf("%w\n%s %s\n%s", err, p.binary, strings.Join(p.arguments, " "), output)
}

// signal sends the process a signal by its name, such as STOP.
func (p *process) signal(ctx context.Context, name string) error {
	// The shell has the names on every system where the server runs, while the
	// numbers and package syscall differ.
	output, err := exec.CommandContext(ctx, "sh", "-c", `kill -s "$0" "$1"`, name, strconv.Itoa(p.pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("redistest: sending %s to process %d: %w: %s", name, p.pid, err, output)
	}
	return nil
}

// stop kills the process, as a crash would, and returns when it is gone. Stopping
// a stopped process does nothing.
func (p *process) stop() {
	p.kill()
	<-p.exited
}

// remove deletes the directory of a process that does not run.
func (p *process) remove() error {
	if err := os.RemoveAll(p.directory); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return nil
}

func (p *process) log() string { return filepath.Join(p.directory, "server.log") }

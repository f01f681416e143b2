package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/bench/internal/weblog"
)

// The rows of the table about logs.
const (
	recommendName     = "weir recommend, combined format"
	recommendJSONName = "weir recommend, JSON lines"
	simulateName      = "weir simulate, combined format"
)

// replayed are the policies that the log is replayed through.
const replayed = `limits:
  burst: leaky 40, 40/m
  pages: sliding-window 600, 1h
policies:
  - limit: burst
    key: ip
  - match: GET /products/{id}
    limit: pages
    key: ip
`

// reader is a command that reads a log.
type reader struct {
	name   string
	format weblog.Format
	lines  int
	// arguments are followed by the name of the log.
	arguments []string
}

// logs shows the time and the memory that reading access logs takes.
func (b *bench) logs(ctx context.Context) (_ []comparison, err error) {
	directory, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	weir, page, limits := filepath.Join(directory, "weir"), filepath.Join(directory, "page.html"), filepath.Join(directory, "limits.yaml")
	if err := os.WriteFile(limits, []byte(replayed), 0o600); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := buildWeir(ctx, weir); err != nil {
		return nil, err
	}
	var entries []*entry
	keys, lines := map[*entry]int{}, map[*entry]int{}
	for _, r := range []reader{
		{recommendName, weblog.Combined, b.lines, []string{"recommend", "-out", page}},
		{recommendJSONName, weblog.JSON, b.lines / 4, []string{"recommend", "-out", page}},
		{simulateName, weblog.Combined, b.lines / 10, []string{"simulate", "-out", page, limits}},
	} {
		b.report("%s, %d lines", r.name, r.lines)
		e := &entry{contender: contender{name: r.name, own: true}}
		if keys[e], err = r.read(ctx, weir, filepath.Join(directory, "access.log"), e); err != nil {
			return nil, err
		}
		lines[e] = r.lines
		entries = append(entries, e)
	}
	count := func(of map[*entry]int) func(*entry, []*entry) string {
		return func(e *entry, _ []*entry) string { return showRate(float64(of[e])) }
	}
	return []comparison{{
		slug:  "logs",
		title: "Reading access logs",
		text: "The command line reads a generated log, once, in a process of its own. A few of the ten million addresses come all the time, " +
			"and most of them a few times, so that there are more keys than the 100,000 that `weir recommend` follows at a time. " +
			"It notes the requests of a log in a temporary file, and goes through them twice. The JSON lines are Caddy's. " +
			"`weir simulate` has the guard decide each request under two limits. " +
			"The memory is the most that the whole process had at a time (its resident set).",
		entries: entries,
		columns: []column{
			{"lines", neither, count(lines)},
			{"keys", neither, count(keys)},
			figure("lines/s", perSecond, showRate),
			figure("CPU a line", cpuEach, showTime),
			{"peak memory", less, func(e *entry, _ []*entry) string { return showMegabytes(e.bytes) }},
		},
	}}, nil
}

// buildWeir builds the command line.
func buildWeir(ctx context.Context, into string) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("..", "cmd", "weir"), "-o", into, ".") //nolint:gosec // it is this project
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: building weir: %w\n%s", err, output)
	}
	return nil
}

// read writes the log, has weir read it, and deletes it. It returns how many keys the log has.
func (r reader) read(ctx context.Context, weir, log string, e *entry) (keys int, err error) {
	file, err := os.Create(log) //nolint:gosec // the directory is ours
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(log)) }()
	keys, err = weblog.Write(file, r.format, r.lines)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	used, err := measureCommand(ctx, commandPlan{append(append([]string{weir}, r.arguments...), log), log + ".used"})
	if err != nil {
		return 0, err
	}
	e.bytes = float64(used.Peak)
	e.samples = append(e.samples, sample{tally: tally{checks: r.lines, admitted: r.lines, elapsed: used.Elapsed}, cpu: used.CPU})
	return keys, nil
}

// commandVariable is the environment variable that makes this program run a command and report its usage. It is a process of its own
// since Linux counts the memory of the process that starts a command as the command's.
const commandVariable = "RATELIMIT_BENCH_COMMAND"

// usage is the time and the memory of a command.
type usage struct {
	Elapsed, CPU time.Duration
	Peak         int64 // bytes of its resident set
}

// commandPlan is a command, and the file to write its usage to. It is not the standard output, which go-zero logs to.
type commandPlan struct {
	Arguments []string
	Result    string
}

// measureCommand has a process of its own run a command.
func measureCommand(ctx context.Context, plan commandPlan) (used usage, err error) {
	order, err := json.Marshal(plan)
	if err != nil {
		return usage{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	command := exec.CommandContext(ctx, self) //nolint:gosec // it is this program
	command.Env = append(os.Environ(), commandVariable+"="+string(order))
	var messages bytes.Buffer
	command.Stderr = &messages
	if err := command.Run(); err != nil {
		return usage{}, fmt.Errorf("bench: %s %s: %w\n%s", filepath.Base(plan.Arguments[0]), plan.Arguments[1], err, &messages)
	}
	result, err := os.ReadFile(plan.Result)
	if err == nil {
		err = json.Unmarshal(result, &used)
	}
	if err != nil {
		return usage{}, fmt.Errorf("bench: the usage of a command: %w", err)
	}
	return used, nil
}

// commander runs the command in the environment, if there is one, and returns the code to exit with.
func commander(messages io.Writer) (code int, asked bool) {
	order, asked := os.LookupEnv(commandVariable)
	if !asked {
		return 0, false
	}
	var plan commandPlan
	err := json.Unmarshal([]byte(order), &plan)
	if err == nil {
		err = plan.carryOut(messages)
	}
	if err != nil {
		_, _ = fmt.Fprintln(messages, err)
		return 1, true
	}
	return 0, true
}

func (p commandPlan) carryOut(messages io.Writer) error {
	used, err := use(p.Arguments, messages)
	if err != nil {
		return err
	}
	result, err := json.Marshal(used)
	if err != nil {
		return err
	}
	return os.WriteFile(p.Result, result, 0o600)
}

// use runs a command and returns its usage.
func use(arguments []string, messages io.Writer) (usage, error) {
	command := exec.Command(arguments[0], arguments[1:]...) //nolint:gosec // this program names it, and ends with it
	command.Stderr = messages
	start := time.Now()
	if err := command.Run(); err != nil {
		return usage{}, err
	}
	used := usage{Elapsed: time.Since(start), CPU: command.ProcessState.UserTime() + command.ProcessState.SystemTime()}
	of, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, errors.New("bench: the system does not tell the usage of a process")
	}
	used.Peak = of.Maxrss
	if runtime.GOOS == "linux" {
		used.Peak *= 1 << 10 // elsewhere it is in bytes
	}
	return used, nil
}

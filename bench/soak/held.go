package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// priority is the nice value of the server, where the system lets a process set it.
const priority = -10

// server is what a Redis server says of itself.
type server struct {
	*redis.Client

	pid int
}

// serverOf asks a server for its process.
func serverOf(ctx context.Context, client *redis.Client) (server, error) {
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return server{}, fmt.Errorf("soak: %w", err)
	}
	s := server{Client: client}
	_, line, _ := strings.Cut(text, "process_id:")
	if _, err := fmt.Sscan(line, &s.pid); err != nil {
		return server{}, fmt.Errorf("soak: the server does not tell its process: %w", err)
	}
	return s, nil
}

// hurry has the server come before other processes of the machine, and reports whether the system permits that.
func (s server) hurry() bool {
	return syscall.Setpriority(syscall.PRIO_PROCESS, s.pid, priority) == nil
}

// waited returns for how long the thread that serves clients has been ready to run and had no processor, and how often something
// else has been run in its place. It reports whether the system tells.
func (s server) waited() (wait time.Duration, often int, told bool) {
	thread := os.DirFS(fmt.Sprintf("/proc/%d/task/%d", s.pid, s.pid))
	schedule, err := fs.ReadFile(thread, "schedstat")
	if err != nil {
		return 0, 0, false
	}
	status, err := fs.ReadFile(thread, "status")
	if err != nil {
		return 0, 0, false
	}
	var ran time.Duration
	if _, err := fmt.Sscan(string(schedule), &ran, &wait); err != nil {
		return 0, 0, false
	}
	_, line, _ := strings.Cut(string(status), "nonvoluntary_ctxt_switches:")
	if _, err := fmt.Sscan(line, &often); err != nil {
		return 0, 0, false
	}
	return wait, often, true
}

// load is how many commands a server has carried out, and how long that took.
type load struct {
	commands int
	took     time.Duration
}

// add adds a command's line of INFO commandstats.
func (l *load) add(line string) {
	var commands, microseconds int
	if _, stats, ok := strings.Cut(line, ":"); ok {
		if _, err := fmt.Sscanf(stats, "calls=%d,usec=%d,", &commands, &microseconds); err == nil {
			l.commands += commands
			l.took += time.Duration(microseconds) * time.Microsecond
		}
	}
}

// loads returns the load of script runs, and that of other commands: of clients, and of scripts.
func (s server) loads(ctx context.Context) (runs, others load, err error) {
	text, err := s.Info(ctx, "commandstats").Result()
	if err != nil {
		return runs, others, fmt.Errorf("soak: %w", err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "cmdstat_eval") {
			runs.add(line)
		} else {
			others.add(line)
		}
	}
	return runs, others, nil
}

// held is the commands of one kind that have held a server for too long: the runs of a script, of which most has had the longest.
type held struct {
	name    string
	count   int
	longest time.Duration
	most    redis.SlowLog
}

// heldBy sorts the log of commands that have held a server: the runs of scripts by their script, those in which Redis has compiled
// one, and all others together.
func heldBy(log []redis.SlowLog, names map[string]string) (runs, compiled []held, others held) {
	for _, one := range log {
		switch strings.ToLower(one.Args[0]) {
		case "evalsha":
			runs = add(runs, one, cmp.Or(names[one.Args[1]], one.Args[1]))
		case "eval":
			first, _, _ := strings.Cut(one.Args[1], "\n")
			compiled = add(compiled, one, first)
		default:
			others.add(one)
		}
	}
	return runs, compiled, others
}

// add adds a command to those of its name.
func add(all []held, one redis.SlowLog, name string) []held {
	place := slices.IndexFunc(all, func(h held) bool { return h.name == name })
	if place < 0 {
		place, all = len(all), append(all, held{name: name})
	}
	all[place].add(one)
	return all
}

func (h *held) add(one redis.SlowLog) {
	h.count++
	if one.Duration > h.longest {
		h.longest, h.most = one.Duration, one
	}
}

// scriptNames returns the names of the scripts by their hashes, which stand in a file.
func scriptNames() (map[string]string, error) {
	names := make(map[string]string)
	for _, root := range []string{"../core", "../../core"} { // seen from the module, or from this directory
		text, err := fs.ReadFile(os.DirFS(root), "internal/script/testdata/hashes.txt")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("soak: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			hash, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			names[hash] = name
		}
	}
	return names, nil
}

// report tells of the commands that have held a server for too long, and returns how many of these were runs of scripts that Redis
// knew. A command that takes microseconds is among them only if the machine has run something else in its place: so the other
// commands tell how often a run has met with that.
func (s server) report(ctx context.Context, w io.Writer) (long int, err error) {
	log, err := s.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return 0, fmt.Errorf("soak: %w", err)
	}
	names, err := scriptNames()
	if err != nil {
		return 0, err
	}
	all, rest, err := s.loads(ctx)
	if err != nil {
		return 0, err
	}
	runs, compiled, others := heldBy(log, names)
	for _, h := range runs {
		long += h.count
		_, _ = fmt.Fprintf(w, "%4d runs of %s were longer than %v, the longest took %v with %s keys: %.80q\n",
			h.count, h.name, tooLong, h.longest, h.most.Args[2], h.most.Args[min(3, len(h.most.Args)-1)])
	}
	for _, h := range compiled {
		_, _ = fmt.Fprintf(w, "%4d runs of a script that Redis had to compile were longer than %v, the longest took %v: %.80s\n",
			h.count, tooLong, h.longest, h.name)
	}
	if others.count > 0 {
		_, _ = fmt.Fprintf(w, "%4d other commands were longer than %v, the longest took %v: %.80q\n", others.count, tooLong, others.longest, others.most.Args)
	}
	_, _ = fmt.Fprintf(w, "%d of %d script runs in %v, and %d of %d other commands in %v, of which most are in scripts\n",
		long, all.commands, all.took.Round(time.Millisecond), others.count, rest.commands, rest.took.Round(time.Millisecond))
	if others.count > 0 && rest.took > 0 {
		_, _ = fmt.Fprintf(w, "what has made other commands so long explains %.0f script runs, in so much more time\n",
			float64(others.count)*float64(all.took)/float64(rest.took))
	}
	if wait, often, told := s.waited(); told {
		_, _ = fmt.Fprintf(w, "the server was put off %d times, and has waited for a processor for %v\n", often, wait.Round(time.Millisecond))
	}
	return long, nil
}

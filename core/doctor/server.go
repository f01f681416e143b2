package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// introduce makes the server say who it is. Every user may run HELLO. INFO may be refused,
// which is no error.
func (e *examination) introduce(ctx context.Context) error {
	hello, err := e.client.Do(ctx, "hello").Result()
	if hasHello := err == nil || !isServersAnswer(err) || !strings.HasPrefix(err.Error(), "ERR "); err != nil && hasHello {
		return err
	}
	e.about, e.info = make(map[string]string), make(map[string]string)
	switch hello := hello.(type) {
	case map[any]any: // RESP3
		for name, value := range hello {
			e.about[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any: // RESP2
		for pair := range slices.Chunk(hello, 2) {
			e.about[fmt.Sprint(pair[0])] = fmt.Sprint(pair[len(pair)-1])
		}
	}
	var info string
	info, e.noInfo = e.client.Info(ctx).Result()
	if e.noInfo != nil && !isServersAnswer(e.noInfo) {
		return e.noInfo
	}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			e.info[name] = value
		}
	}
	e.about["mode"] = cmp.Or(e.about["mode"], e.info["redis_mode"], e.info["server_mode"])
	e.about["role"] = cmp.Or(e.about["role"], e.info["role"])
	return nil
}

// isServersAnswer reports whether an error is an answer of the server, and no fault of the
// connection.
func isServersAnswer(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// The oldest version of Redis that has all commands of the scripts.
const oldestMajor, oldestMinor = 6, 2

func (e *examination) lookAtServer() {
	name, version := "Redis", cmp.Or(e.info["redis_version"], e.about["version"])
	if valkey := e.info["valkey_version"]; valkey != "" || e.about["server"] == "valkey" {
		name, version = "Valkey", cmp.Or(valkey, e.about["version"])
	}
	f := Finding{Name: "server", Severity: OK, Found: name + " " + version}
	if protocol := e.about["proto"]; protocol != "" {
		f.Found += ", RESP" + protocol
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errMajor := strconv.Atoi(major)
	y, errMinor := strconv.Atoi(minor)
	switch {
	case errMajor != nil || errMinor != nil:
		f.Severity = Notice
		f.Found = "a server that does not tell its version"
		f.Advice = "Make sure that it is Redis 6.2 or newer, or Valkey."
	case name == "Redis" && (x < oldestMajor || x == oldestMajor && y < oldestMinor):
		f.Severity = Problem
		f.Meaning = "It lacks commands that the scripts use."
		f.Advice = "Use Redis 6.2 or newer, or Valkey."
	}
	e.add(f)
}

// lookAtRole reports whether the server can be expected to decide checks.
func (e *examination) lookAtRole() (serves bool) {
	mode, role := e.about["mode"], e.about["role"]
	f := Finding{Name: "role", Severity: OK, Found: role}
	if mode != "" && mode != "standalone" {
		f.Found += " in " + mode + " mode"
	}
	if replicas := e.info["connected_slaves"]; replicas != "" && replicas != "0" {
		f.Found += ", replicas: " + replicas
	}
	_, alone := e.client.(*redis.Client)
	switch {
	case mode == "sentinel" || role == "sentinel":
		f.Severity, f.Found = Problem, "a sentinel"
		f.Meaning = "It watches servers, and keeps no limits itself."
		f.Advice = "Add ?master_name= to the URL, or use redis.NewFailoverClient."
	case role == "slave" || role == "replica":
		f.Severity, f.Found = Problem, "a replica"
		f.Meaning = "It takes no charges: every call is an error."
		f.Advice = "Connect to the master; with Sentinel, by master_name."
	case mode == "cluster" && alone && !e.ofCluster():
		f.Severity, f.Found = Problem, "a node of a cluster"
		f.Meaning = "The client is one for a lone server: it gets errors for the keys of other nodes."
		f.Advice = "Name a second node in the URL with ?addr=, or use redis.NewClusterClient."
	case role == "":
		f.Severity, f.Found = Notice, "the server does not tell"
		f.Advice = "Make sure that it is no replica."
	case e.server == sentinelsMaster && e.info["connected_slaves"] == "0":
		f.Severity = Notice
		f.Found += " without a replica"
		f.Meaning = "The sentinels have nothing to replace it by."
		f.Advice = "Add a replica, or look why it does not follow."
	}
	e.add(f)
	return f.Severity != Problem
}

const allSlots = 16384

func (e *examination) lookAtCluster(ctx context.Context) {
	f := Finding{Name: "cluster", Severity: OK}
	ranges, err := e.client.ClusterSlots(ctx).Result()
	if err != nil {
		f.Severity, f.Found = Problem, err.Error()
		f.Meaning, f.Advice = explainFailure(err)
		e.add(f)
		return
	}
	covered, masters := 0, make(map[string]bool)
	for _, r := range ranges {
		if len(r.Nodes) > 0 {
			covered += r.End - r.Start + 1
			masters[r.Nodes[0].ID+r.Nodes[0].Addr] = true
		}
	}
	f.Found = fmt.Sprintf("%d of %d slots on %d masters", covered, allSlots, len(masters))
	info, err := e.client.ClusterInfo(ctx).Result()
	state := "unknown"
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_state:"); ok {
			state = value
		}
	}
	switch {
	case covered < allSlots:
		f.Severity = Problem
		f.Meaning = "Calls about keys in the other slots are errors, or, by default, all calls."
		f.Advice = "redis-cli --cluster fix, or start the missing nodes."
	case err != nil:
		f.Severity = Notice
		f.Found += ", state not seen: " + refusal("CLUSTER INFO", err)
		f.Advice = "Let an administrator look, or allow +cluster|info."
	case state != "ok":
		f.Severity = Problem
		f.Found += ", state " + state
		f.Meaning = "The node misses others, and does not serve."
		f.Advice = "Look at CLUSTER NODES: start the nodes that fail, or promote their replicas."
	default:
		f.Found += ", state ok"
	}
	e.add(f)
}

// refusal says why a command gave no answer.
func refusal(command string, err error) string {
	switch {
	case err == nil:
		return command + " does not say"
	case redis.HasErrorPrefix(err, "NOPERM"):
		return "the user may not run " + command
	}
	return err.Error()
}

// lookAtMemory finds out whether limits may be evicted, and whether snapshots matter.
func (e *examination) lookAtMemory() {
	policy := e.info["maxmemory_policy"]
	if policy == "" {
		e.add(Finding{
			Name: "memory", Severity: Notice,
			Found:   "not seen: " + refusal("INFO", e.noInfo),
			Meaning: "Whether limits can be evicted, and whether a failed snapshot stops writes, remains unknown.",
			Advice:  "Let an administrator look that maxmemory-policy is noeviction, or allow +info.",
		})
		if e.balances {
			e.add(Finding{
				Name: "persistence", Severity: Notice, Found: "not seen: " + refusal("INFO", e.noInfo),
				Meaning: "Whether balances outlive a restart remains unknown.", Advice: "Let an administrator look that appendonly is yes, or allow +info.",
			})
		}
		return
	}
	used, _ := strconv.ParseInt(e.info["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(e.info["maxmemory"], 10, 64)
	f := Finding{Name: "memory", Severity: OK, Found: policy}
	if most == 0 {
		f.Found = fmt.Sprintf("%s, %s used, no maxmemory", policy, megabytes(used))
	} else {
		f.Found = fmt.Sprintf("%s, %s of %s used", policy, megabytes(used), megabytes(most))
	}
	if evicted := e.info["evicted_keys"]; evicted != "" && evicted != "0" {
		f.Found += ", keys evicted so far: " + evicted
	}
	switch {
	case most == 0:
		f.Severity = Notice
		f.Meaning = "Redis grows until the machine has no memory left and ends it, and with it every count."
		f.Advice = "Set maxmemory to a bound, such as CONFIG SET maxmemory 256mb, and keep maxmemory-policy noeviction."
	case strings.HasPrefix(policy, "allkeys-"):
		f.Severity = Problem
		f.Meaning = "When memory is short, Redis deletes limits like anything else: clients start over."
		f.Advice = "Give the limits a server of their own with maxmemory-policy noeviction."
	case strings.HasPrefix(policy, "volatile-"):
		f.Severity = Problem
		f.Meaning = "When memory is short, Redis deletes keys with a time to live, and every limit's key has one: clients start over."
		f.Advice = "Give the limits a server of their own with maxmemory-policy noeviction."
	case used >= most-most/10:
		f.Severity = Notice
		f.Meaning = "When it is full, Redis takes no charges, and the error policy decides."
		f.Advice = "Raise maxmemory, or find out which other keys fill it."
	}
	e.add(f)
	e.lookAtPersistence()
}

// lookAtFullness makes the finding about memory a problem if the server has refused to write for lack of it, even if INFO
// had said otherwise: INFO was asked before the first attempt.
func (e *examination) lookAtFullness() {
	i := slices.IndexFunc(e.found, func(f Finding) bool { return f.Name == "memory" })
	if !e.full || i < 0 {
		return
	}
	f := &e.found[i]
	f.Severity = Problem
	f.Found += "; writes are refused (OOM)"
	f.Meaning = "Redis takes no charges: every call is an error, and the error policy decides."
	f.Advice = "Raise maxmemory, or find out which other keys fill it."
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

func (e *examination) lookAtPersistence() {
	f := Finding{Name: "persistence", Severity: OK, Found: "limits need none: without it, counts start anew after a restart"}
	if e.info["rdb_last_bgsave_status"] == "err" || e.info["aof_last_write_status"] == "err" {
		f.Severity = Notice
		f.Found = "the last snapshot or append failed"
		f.Meaning = "By default Redis takes no writes then (MISCONF), and every call is an error."
		f.Advice = "Repair its disk, or set stop-writes-on-bgsave-error no: limits need no snapshots."
	}
	if e.balances {
		e.lookAtFile(&f)
	}
	e.add(f)
}

// lookAtFile finds out whether a server with balances writes an append-only file.
func (e *examination) lookAtFile(f *Finding) {
	switch {
	case e.info["aof_enabled"] != "1":
		f.Severity, f.Found = Problem, "no append-only file"
		f.Meaning = "A restart loses the top-ups since the last snapshot, though clients have paid for them, and gives back the units spent since."
		f.Advice = "CONFIG SET appendonly yes, and write it into the configuration. With appendfsync everysec a crash loses a second, with always none."
	case f.Severity == OK:
		f.Found = "an append-only file: with appendfsync everysec a crash loses a second, with always none"
	default: // it could not be written
		f.Severity = Problem
		f.Advice = "Repair its disk: top-ups are lost without it."
	}
}

// largestSkew is how far apart clocks may be before it is worth a word.
const largestSkew = time.Second

// lookAtClock compares the server's clock with this machine's, as far as the way there
// lets it.
func (e *examination) lookAtClock(ctx context.Context) {
	const tries = 3
	var ahead, doubt time.Duration
	for i := range tries {
		sent := time.Now()
		server, err := e.client.Time(ctx).Result()
		took := time.Since(sent)
		if err != nil {
			e.add(Finding{
				Name: "clock", Severity: Notice, Found: "not seen: " + refusal("TIME", err),
				Meaning: "The scripts read it, too.", Advice: "Allow +time.",
			})
			return
		}
		if i == 0 || took < 2*doubt { // the quickest says most
			ahead, doubt = server.Sub(sent.Add(took/2)), took/2
		}
	}
	f := Finding{Name: "clock", Severity: OK}
	f.Found = fmt.Sprintf("agrees with this machine's within %v", round(ahead.Abs()+doubt))
	if ahead.Abs() > largestSkew+doubt {
		f.Severity = Notice
		f.Found = fmt.Sprintf("%v %s this machine's, give or take %v", round(ahead.Abs()), aheadOrBehind(ahead), round(doubt))
		f.Meaning = "Limits run on the server's clock alone and are right; but when another server takes over, its clock decides."
		f.Advice = "Synchronise the clocks of all servers (NTP)."
	}
	e.add(f)
}

func aheadOrBehind(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}

// round rounds a duration for readers.
func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

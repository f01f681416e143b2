package core

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

// diagnosisPatience is how long a question may take that finds out how long questions
// take. It is longer than a budget, so that a slow server is found to be slow.
const diagnosisPatience = 5 * time.Second

// Diagnose is what [Limiter.Diagnose] does.
func (r *Redis) Diagnose(ctx context.Context) Diagnosis {
	if r.closed.Load() {
		return Diagnosis{{Name: "store", Severity: SeverityProblem, Found: errClosed.Error(), Meaning: "No question can be decided."}}
	}
	own := r.diagnoseClient()
	var (
		mu      sync.Mutex
		servers []Diagnosis
	)
	examine := func(ctx context.Context, client *redis.Client) error {
		found := r.examine(ctx, client, addressOf(client))
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, found)
		return nil
	}
	switch client := r.topology.Client.(type) {
	case *redis.ClusterClient:
		if err := client.ForEachMaster(ctx, examine); err != nil {
			own = append(own, connectionProblem(err))
		}
	case *redis.Ring:
		_ = client.ForEachShard(ctx, examine) // examine returns none
		own = append(own, diagnoseRing(client, servers))
	case *redis.Client:
		_ = examine(ctx, client)
	default:
		servers = append(servers, r.examine(ctx, client, "the server"))
	}
	slices.SortFunc(servers, func(a, b Diagnosis) int { return cmp.Compare(a[0].Server, b[0].Server) })
	return append(own, slices.Concat(servers...)...)
}

// addressOf returns what to call a client's server.
func addressOf(client *redis.Client) string {
	if address := client.Options().Addr; address != "FailoverClient" { // as go-redis calls it
		return address
	}
	return "the sentinels' master"
}

// diagnoseRing finds the shards that are down, to which nothing has been sent.
func diagnoseRing(ring *redis.Ring, up []Diagnosis) Finding {
	down := slices.Sorted(maps.Values(ring.Options().Addrs))
	for _, d := range up {
		if i := slices.Index(down, d[0].Server); i >= 0 {
			down = slices.Delete(down, i, i+1)
		}
	}
	all := len(ring.Options().Addrs)
	if len(down) == 0 {
		return Finding{Name: "ring", Severity: SeverityOK, Found: fmt.Sprintf("all of %d shards are up", all)}
	}
	return Finding{
		Name: "ring", Severity: SeverityProblem,
		Found:   fmt.Sprintf("%d of %d shards are down: %s", len(down), all, strings.Join(down, ", ")),
		Meaning: "Their keys are counted on other shards, from nothing, until they are back.",
		Advice:  "Look whether they run, and whether the user may run PING, by which a ring sees that.",
	}
}

// examination is the look at one server.
type examination struct {
	store   *Redis // what is examined
	client  redis.UniversalClient
	server  string
	probe   *Redis // asks this server alone, and patiently
	subject string // a key that nobody uses, on this server

	about  map[string]string // what HELLO says
	info   map[string]string // what INFO says
	noInfo error             // why it says nothing

	mayDelete bool
	full      bool // a write was refused for lack of memory
	found     Diagnosis
}

// examine finds out about one server.
func (r *Redis) examine(ctx context.Context, client redis.UniversalClient, server string) Diagnosis {
	e := &examination{store: r, client: client, server: server}
	e.probe = NewRedis(client, WithPrefix(r.prefix), WithBudget(diagnosisPatience), WithBreaker(0, 0), WithLogger(slog.New(slog.DiscardHandler)))
	e.probe.clock = r.clock
	defer func() { _ = e.probe.Close() }() // the client is not its own
	if err := e.introduce(ctx); err != nil {
		e.add(connectionProblem(err))
		return e.found
	}
	e.lookAtServer()
	serves := e.lookAtRole()
	if e.about["mode"] == "cluster" && r.isCluster() {
		e.lookAtCluster(ctx)
	}
	e.lookAtMemory()
	e.lookAtClock(ctx)
	if !serves {
		return e.found
	}
	subject, err := r.unusedSubject(ctx, client)
	if err != nil {
		e.add(connectionProblem(err))
		return e.found
	}
	e.subject = subject
	e.lookAtPermissions(ctx)
	e.lookAtScripts(ctx)
	e.lookAtFullness()
	e.lookAtLatency(ctx)
	return e.found
}

func (e *examination) add(f Finding) {
	f.Server = e.server
	e.found = append(e.found, f)
}

func (r *Redis) isCluster() bool {
	_, ok := r.topology.Client.(*redis.ClusterClient)
	return ok
}

// unusedSubject returns a key that nobody uses, and that is on a server where there
// are several.
func (r *Redis) unusedSubject(ctx context.Context, server redis.UniversalClient) (string, error) {
	const tries = 100_000 // enough for the smallest part of a large cluster
	for range tries {
		subject := "doctor:" + rand.Text()
		var on *redis.Client
		var err error
		switch client := r.topology.Client.(type) {
		case *redis.ClusterClient:
			on, err = client.MasterForKey(ctx, string(keyspace.AppendSubject(nil, subject)))
		case *redis.Ring:
			on, err = client.GetShardClientForKey(string(keyspace.AppendSubject(nil, subject)))
		default:
			return subject, nil
		}
		if err != nil {
			return "", err
		}
		if server == redis.UniversalClient(on) {
			return subject, nil
		}
	}
	return "", errors.New("no key is found that is on this server")
}

// connectionProblem says why there is no talking to a server.
func connectionProblem(err error) Finding {
	f := Finding{Name: "connection", Severity: SeverityProblem, Found: err.Error()}
	f.Meaning, f.Advice = explainFailure(err)
	return f
}

const (
	hungUp = "The server hung up. One that expects TLS does that to a client that does not speak it."
	tryTLS = "Try rediss:// instead of redis://."
)

// failures are what an error's text can say about its cause, in the order in which
// they are looked for.
var failures = [...]struct{ text, meaning, advice string }{
	{"NOAUTH", "The server wants a password.", "Put the user and the password into the URL, or into the client's options."},
	{"WRONGPASS", "The server does not know this user with this password.", "Correct them, or make the user: ACL SETUSER."},
	{"NOPERM", "The user may not do what a limiter needs.", "Give it the permissions that the documentation of package core lists."},
	{"READONLY", "The server is a replica, which takes no charges.", "Connect to the master; with Sentinel, by master_name."},
	{"NOREPLICAS", "The server takes no writes because too few replicas follow it.", "Bring the replicas back, or lower min-replicas-to-write."},
	{"OOM", "The server's memory is full, and it takes no writes.", "Give it more memory, or find out what else fills it."},
	{"MISCONF", "The server takes no writes since it could not save a snapshot.", "Repair its disk, or set stop-writes-on-bgsave-error no."},
	{"LOADING", "The server is reading its data set from disk.", "Wait. For a server of limits alone, persistence can be off."},
	{"MASTERDOWN", "The server is a replica that has lost its master.", "Connect to the master."},
	{"CLUSTERDOWN", "The cluster does not serve.", "Look at CLUSTER INFO and CLUSTER NODES on any node."},
	{"BUSY ", "Some script has been running for too long, and blocks the server.", "SCRIPT KILL, and find out whose it was: those of a limiter are short."},
	{"cluster support disabled", "The client is one for a cluster, but the server is none.", "Leave addr= out of the URL, or use redis.NewClient."},
	{"unknown command", "The server does not know a command that a limiter needs.", "Use Redis 6.2 or newer, or Valkey, with no command renamed or disabled."},
	{"x509:", "The server's certificate is not believed.", "If a private authority issued it, set RootCAs in the client's TLSConfig, or SSL_CERT_FILE."},
	{"tls:", "The server does not speak TLS as the client does.", "Use rediss:// with the server's TLS port, and redis:// with its plain one."},
	{"connection refused", "Nobody listens at that address.", "Start the server, or correct the address."},
	{"no such host", "The name of the server is not known.", "Correct the address, or the name service."},
	{"EOF", hungUp, tryTLS},
	{"connection reset", hungUp, tryTLS},
}

// explainFailure says in plain words what an error means, and what to do.
func explainFailure(err error) (meaning, advice string) {
	text := err.Error()
	for _, failure := range failures {
		if strings.Contains(text, failure.text) {
			return failure.meaning, failure.advice
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		return "The server does not answer in time.", "Look whether it runs, whether a firewall is in between, and whether both speak TLS or neither does."
	}
	return "No question can be decided there.", "Look into the server's log."
}

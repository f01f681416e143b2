package doctor_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// examined returns the report about a client whose user may touch certain keys only.
func examined(t *testing.T, client redis.UniversalClient) doctor.Report {
	t.Helper()
	prefix := core.WithPrefix("ratelimit:" + rand.Text())
	return doctor.Examine(t.Context(), core.New(core.NewRedis(client, prefix, core.WithBudget(patient))))
}

// wantPermitted fails unless the user of a client has all permissions that a limiter needs.
func wantPermitted(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	report := examined(t, client)
	wantFinding(t, report, "permissions", doctor.OK, "all of")
	wantFinding(t, report, "scripts", doctor.OK, "all of 10 algorithms")
	wantFinding(t, report, "memory", doctor.Notice, "may not run INFO")
}

// wantNoKeys fails if the doctor has left a key on a server.
func wantNoKeys(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		if keys := server.Client(t).Keys(t.Context(), "*doctor*").Val(); len(keys) > 0 {
			t.Errorf("%s has been left %q", server.Addr(), keys)
		}
	}
}

// The users that the documentation recommends have all permissions, and each command that one
// of them lacks is named.
func TestPermissions(t *testing.T) {
	server := redistest.Start(t)
	as := func(name string) *redis.Client {
		return server.Client(t, func(o *redis.Options) {
			o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = name, "secret", -1, true
		})
	}
	redistest.SetUser(t, server.Client(t), "limiter", redistest.AloneUser)
	wantPermitted(t, as("limiter"))
	for _, command := range redistest.CommandsOf(redistest.AloneUser) {
		t.Run("without "+command, func(t *testing.T) {
			redistest.SetUser(t, server.Client(t), command, redistest.Without(redistest.AloneUser, "+"+command))
			server.Client(t).ScriptFlush(t.Context())
			severity := doctor.Problem
			if command == "publish" || command == "subscribe" { // waiters poll
				severity = doctor.Notice
			}
			wantFinding(t, examined(t, as(command)), "permissions", severity, "+"+command)
		})
	}
	wantNoKeys(t, server)
}

// refusal is an error that a server answers.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// refusing answers scripts that have a key with a refusal.
type refusing struct{ says refusal }

func (r refusing) refuse(cmd redis.Cmder) error {
	if words := cmd.Args(); (cmd.Name() == "evalsha" || cmd.Name() == "eval") && len(words) > 3 {
		cmd.SetErr(r.says)
		return r.says
	}
	return nil
}

func (r refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := r.refuse(cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (r refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := r.refuse(cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}
}

// Of a script that the server refuses, the finding says what to write, in the words of every version.
func TestRefusedScripts(t *testing.T) {
	for says, want := range map[refusal]string{
		"ERR ACL failure in script: User limiter has no permissions to run the 'pttl' command script: f_1, on @user_script:1.":       "ACL SETUSER limiter +pttl",
		"NOPERM ACL failure in script: User limiter has no permissions to run the 'pttl' command":                                    "ACL SETUSER limiter +pttl",
		"ERR ACL failure in script: User limiter has no permissions to access the 'a' key script: f_1, on @user_script:1.":           "lacks a permission that a script needs",
		"ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1.":                     "may not run a command of the script, or touch",
		"ERR Error running script (call to f_1): @user_script:7: The user executing the script can't run this command or subcommand": "may not run a command of the script, or touch",
	} {
		client := redistest.Start(t).Client(t)
		client.AddHook(refusing{says})
		wantFinding(t, examined(t, client), "scripts", doctor.Problem, want)
	}
}

func TestPermissionsInCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	as := func(name string) *redis.ClusterClient {
		return cluster.Client(t, func(o *redis.ClusterOptions) {
			o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = name, "secret", -1, true
		})
	}
	for _, node := range cluster.Nodes() {
		redistest.SetUser(t, node.Client(t), "limiter", redistest.ClusterUser)
		for _, command := range []string{"command", "asking"} {
			redistest.SetUser(t, node.Client(t), command, redistest.Without(redistest.ClusterUser, "+"+command))
		}
	}
	wantPermitted(t, as("limiter"))
	wantFinding(t, examined(t, as("command")), "permissions", doctor.Notice, "+command")
	wantFinding(t, examined(t, as("asking")), "permissions", doctor.Problem, "+asking")
	wantNoKeys(t, cluster.Nodes()...)
}

func TestPermissionsInRing(t *testing.T) {
	servers := map[string]*redistest.Server{"a": redistest.Start(t), "b": redistest.Start(t)}
	addresses := map[string]string{}
	for name, server := range servers {
		addresses[name] = server.Addr()
		redistest.SetUser(t, server.Client(t), "limiter", redistest.RingUser)
		redistest.SetUser(t, server.Client(t), "ping", redistest.Without(redistest.RingUser, "+ping"))
	}
	as := func(name string) *redis.Ring {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: addresses, Username: name, Password: "secret", MaxRetries: -1, ContextTimeoutEnabled: true,
			HeartbeatFrequency: 10 * time.Millisecond,
		})
		t.Cleanup(func() { _ = ring.Close() })
		return ring
	}
	wantPermitted(t, as("limiter"))

	ring := as("ping")
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for ring.Len() > 0 { // three heartbeats
		select {
		case <-ctx.Done():
			t.Fatalf("%d shards of a ring that may not ping are up", ring.Len())
		case <-time.After(time.Millisecond):
		}
	}
	wantFinding(t, examined(t, ring), "ring", doctor.Problem, "PING")
	wantNoKeys(t, servers["a"], servers["b"])
}

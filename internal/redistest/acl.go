package redistest

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The users that the documentation of package core recommends, as ACL SETUSER takes them.
const (
	// AloneUser is a user of a server alone, or of the master that sentinels name.
	AloneUser = "reset on >secret ~ratelimit:* resetchannels &ratelimit:* +evalsha +eval +script|exists +script|load +time +get +set +unlink +hdel +hmget +hset +persist +pexpireat +pttl " +
		"+llen +lindex +lrange +ltrim +rpush +lrem " +
		"+zadd +zcard +zcount +zrange +zrem +zrevrank +zscore +publish +subscribe"
	// ClusterUser is a user of every node of a cluster.
	ClusterUser = AloneUser + " +cluster|slots +asking +command"
	// RingUser is a user of every shard of a ring.
	RingUser = AloneUser + " +ping"
	// SentinelUser is a user of the sentinels.
	SentinelUser = "reset on >secret resetchannels &+switch-master &+replica-reconf-done " +
		"+sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe"
)

// SetUser makes a user on a server, with rules as ACL SETUSER takes them.
func SetUser(tb testing.TB, client *redis.Client, name, rules string) {
	tb.Helper()
	call := []any{"acl", "setuser", name}
	for rule := range strings.FieldsSeq(rules) {
		call = append(call, rule)
	}
	if err := client.Do(tb.Context(), call...).Err(); err != nil {
		tb.Fatal(err)
	}
}

// CommandsOf returns the commands that a user may run.
func CommandsOf(user string) []string {
	var commands []string
	for rule := range strings.FieldsSeq(user) {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			commands = append(commands, command)
		}
	}
	return commands
}

// Without returns a user who lacks one of their rules, such as "+get".
func Without(user, rule string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(user), func(own string) bool { return own == rule }), " ")
}

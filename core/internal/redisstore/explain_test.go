package redisstore

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// An error reply to a script call has a kind, in the words of all versions. It is certain that nothing was written if
// Redis has refused the call itself, or refuses every write.
func TestKindsOfReplies(t *testing.T) {
	for reply, want := range map[string]struct {
		kind    call.Failure
		certain bool
	}{
		"LOADING Redis is loading the dataset in memory":                                                                                                    {call.Loading, true},
		"CLUSTERDOWN Hash slot not served":                                                                                                                  {call.ClusterDown, true},
		"MOVED 866 127.0.0.1:7001":                                                                                                                          {call.ClusterDown, true},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                                           {call.ClusterDown, true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale":                                                                                       {call.ClusterDown, true},
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                                                            {call.Busy, true},
		"ERR Protocol error: unauthenticated multibulk length":                                                                                              {call.NotPermitted, true},
		"NOAUTH Authentication required.":                                                                                                                   {call.NotPermitted, true},
		"WRONGPASS invalid username-password pair or user is disabled.":                                                                                     {call.NotPermitted, true},
		"ERR invalid password":                                                                                                                              {call.NotPermitted, true},
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                                                  {call.NotPermitted, true},
		"NOPERM this user has no permissions to run the 'eval' command or its subcommand":                                                                   {call.NotPermitted, true},
		"NOPERM User limiter has no permissions to run the 'evalsha' command":                                                                               {call.NotPermitted, true},
		"NOPERM No permissions to access a key":                                                                                                             {call.NotPermitted, true},
		"NOPERM this user has no permissions to access one of the keys used as arguments":                                                                   {call.NotPermitted, true},
		"ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1.":                                            {call.NotPermitted, false},
		"ERR ACL failure in script: User limiter has no permissions to run the 'pttl' command script: f_1, on @user_script":                                 {call.NotPermitted, false},
		"NOPERM ACL failure in script: User limiter has no permissions to run the 'pttl' command":                                                           {call.NotPermitted, false},
		"ERR Error running script (call to f_1): @user_script:7: @user_script: 7: The user executing the script can't run this command or subcommand":       {call.NotPermitted, false},
		"ERR Error running script (call to f_1): @user_script:7: -NOPERM User limiter has no permissions":                                                   {call.NotPermitted, false},
		"ERR Error running script (call to f_1): @user_script:7: @user_script: 7: The user executing the script is lacking the permissions for the command": {call.NotPermitted, false},
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: f_1, on @user_script:1.":        {call.NotPermitted, false},
		"ERR Error running script (call to f_1): @user_script:7: -READONLY You can't write against a read only replica.":                                    {call.ReadOnly, true},
		"READONLY You can't write against a read only replica. script: f_1, on @user_script:35.":                                                            {call.ReadOnly, true},
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. script: f_1, on @user_script:35.":                 {call.Misconfigured, true},
		"NOREPLICAS Not enough good replicas to write. script: f_1, on @user_script:35.":                                                                    {call.Misconfigured, true},
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                                           {call.OutOfMemory, true},
		"OOM command not allowed when used memory > 'maxmemory'. script: f_1, on @user_script:35.":                                                          {call.OutOfMemory, false},
		"ERR Error running script (call to f_1): @user_script:7: @user_script: 7: -OOM command not allowed when used memory > 'maxmemory'.":                 {call.OutOfMemory, false},
		"ERR user_script:1: Script attempted to access nonexistent global variable 'x'":                                                                     {call.Other, false},
		"ERR Error running script (call to f_1): @user_script:7: Script killed by user with SCRIPT KILL...":                                                 {call.Other, false},
		"ERR Script attempted to execute a write command while the cluster is down and readonly script: f_1, on @user_script:1.":                            {call.Other, false},
	} {
		if kind := kindOfReply(reply); kind != want.kind || nothingWritten(reply, kind) != want.certain {
			t.Errorf("%q is %q, certain %t, want %q, certain %t", reply, kind, nothingWritten(reply, kind), want.kind, want.certain)
		}
	}
	// What a script has caught says no more where it comes from.
	for reply, want := range map[string]bool{
		"NOPERM User limiter has no permissions to run the 'pttl' command":       false,
		"The user executing the script can't run this command or subcommand":     false,
		"OOM command not allowed when used memory > 'maxmemory'.":                false,
		"READONLY You can't write against a read only replica.":                  true,
		"@user_script: 7: -READONLY You can't write against a read only replica": true,
	} {
		if err := refusedBy(reply); errors.Is(err, call.ErrNotDone) != want {
			t.Errorf("%q within a script is certain: %t, want %t", reply, !want, want)
		}
	}
}

// The answer to a call that the client has repeated by itself is that to the last one: an earlier one may have been
// carried out, whatever the server says now.
func TestARepeatedCallIsNotCertainlyUndone(t *testing.T) {
	for name, c := range map[string]struct {
		breaks  int32 // so many calls are carried out, and not answered
		certain bool
	}{"answered at once": {0, true}, "answered the second time": {1, false}} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			var calls atomic.Int32
			go func() { // ends with the listener
				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}
					go serveRefusals(connection, func() bool { return calls.Add(1) > c.breaks })
				}
			}()
			client := redis.NewClient(&redis.Options{
				Addr: listener.Addr().String(), Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true,
				MaxRetries: int(c.breaks), MinRetryBackoff: -1, MaxRetryBackoff: -1,
			})
			if c.breaks == 0 {
				client.Options().MaxRetries = 0
			}
			t.Cleanup(func() { _ = client.Close() })
			store := newStore(client, func(config *Config) { config.Budget, config.Patience = time.Minute, time.Minute })
			_, err = store.Decide(t.Context(), []*call.Call{callOf(call.Check{Key: "key", Spec: hourly, Units: 1})})
			if call.FailureOf(err) != call.Loading || errors.Is(err, call.ErrNotDone) != c.certain || calls.Load() != c.breaks+1 {
				t.Errorf("%v after %d calls, certain %t, want loading, certain %t", err, calls.Load(), errors.Is(err, call.ErrNotDone), c.certain)
			}
		})
	}
}

// serveRefusals is a server that refuses all calls of scripts. One that it does not answer breaks the connection.
func serveRefusals(connection net.Conn, answers func() bool) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for {
		words, err := readCommand(reader)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n"
		if strings.EqualFold(words[0], "evalsha") {
			if !answers() {
				return
			}
			reply = "-LOADING Redis is loading the dataset in memory\r\n"
		}
		if _, err := io.WriteString(connection, reply); err != nil {
			return
		}
	}
}

// readCommand reads a command as clients send it.
func readCommand(reader *bufio.Reader) (words []string, err error) {
	number := func() (n int, err error) {
		line, err := reader.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	for range n {
		length, err := number()
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(reader, text); err != nil {
			return nil, err
		}
		words = append(words, string(text[:length]))
	}
	return words, err
}

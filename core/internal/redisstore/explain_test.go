package redisstore

import (
	"testing"

	"github.com/weir-go/ratelimit/core/internal/failure"
)

// An error reply has a kind, in the words of all versions.
func TestKindsOfReplies(t *testing.T) {
	for reply, want := range map[string]failure.Kind{
		"LOADING Redis is loading the dataset in memory":                                                                    failure.Loading,
		"ERR Error running script (call to f_1): @user_script:7: -READONLY You can't write against a read only replica.":    failure.ReadOnly,
		"ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1.":            failure.NotPermitted,
		"ERR ACL failure in script: User limiter has no permissions to run the 'pttl' command script: f_1, on @user_script": failure.NotPermitted,
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                  failure.NotPermitted,
		"ERR user_script:1: Script attempted to access nonexistent global variable 'x'":                                     failure.Other,
	} {
		if got := kindOfReply(reply); got != want {
			t.Errorf("%q is %q, want %q", reply, got, want)
		}
	}
}

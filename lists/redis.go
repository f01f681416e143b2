package lists

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errNoSet means that there is no SET: Redis has no empty ones.
var errNoSet = errors.New(`does not exist: add the member "#" to a list that is to be empty`)

// Redis is the source of the list in a SET of Redis: see "Redis" in the package
// documentation. It reads the whole SET at once (SMEMBERS), so that it sees it as it was at
// one moment. That holds Redis up for a millisecond or two for 10,000 entries: give a longer
// [WatchOptions].Every to a fleet of many processes.
//
// It needs the permission for SMEMBERS on the key, and nothing else. A SET that does not
// exist, a key of another type, and a member that is no entry are errors. Redis panics without a client and without a key.
func Redis(client redis.SetCmdable, key string) Source {
	switch {
	case client == nil:
		panic("lists: Redis: the client is nil")
	case key == "":
		panic("lists: Redis: the key is empty")
	}
	return func(ctx context.Context) (*List, error) {
		entries, err := client.SMembers(ctx, key).Result()
		if err == nil && len(entries) == 0 {
			err = errNoSet
		}
		if err != nil {
			return nil, fmt.Errorf("the set %q: %w", key, err)
		}
		entries = slices.DeleteFunc(entries, func(entry string) bool { return strings.HasPrefix(entry, "#") })
		l, err := listOf(entries)
		if err != nil {
			slices.Sort(entries) // else Redis would choose which of several is told
			_, err = listOf(entries)
			return nil, fmt.Errorf("the set %q: %w", key, err)
		}
		return l, nil
	}
}

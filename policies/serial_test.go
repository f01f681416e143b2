package policies

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// What was signed before does not come back, also in a process that starts anew. The user of the program needs no more permissions than the
// documentation says, and whoever may write the policies may not lower the number.
func TestOlderSignedTextIsRefusedAlsoAfterARestart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := redistest.Start(t)
	client := server.Client(t)
	const key = "api:policies"
	redistest.SetUser(t, client, "program", "reset on >secret ~api:policies ~api:policies:serial resetchannels +getrange +zscore +zadd")
	redistest.SetUser(t, client, "publisher", "reset on >secret ~api:policies resetchannels +set")
	as := func(user string) redis.UniversalClient {
		return server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = user, "secret", true })
	}
	public, private := newKey(t)
	publish := func(n int, serial int64) {
		t.Helper()
		if err := as("publisher").Set(ctx, key, sign(t, numbered(n), private, serial), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	watch := func(tell func(error)) (*Set, error) {
		return Watch(ctx, Signed(Redis(as("program"), key), public), Options{Every: often, OnError: tell})
	}
	publish(1, 1)
	var errs told
	s, err := watch(errs.tell)
	if err != nil {
		t.Fatal(err)
	}
	publish(2, 2)
	eventually(t, "the newer text is in force", func() bool { return capacity(s) == 2 })
	publish(1, 1)
	const refused = "its serial number 1 is smaller than 2, which has been in force: sign it again"
	eventually(t, "the older text is refused", func() bool { return strings.HasSuffix(errs.text(), refused) })
	if capacity(s) != 2 {
		t.Errorf("capacity %d by the older text", capacity(s))
	}
	if _, err := watch(nil); err == nil || !strings.HasSuffix(err.Error(), refused) {
		t.Errorf("after a restart: %v, want %s", err, refused)
	}
	if err := as("publisher").ZAdd(ctx, key+":serial", redis.Z{Score: 0, Member: member}).Err(); err == nil {
		t.Error("the publisher lowers the number")
	}
	if err := as("program").ZAddArgs(ctx, key+":serial", redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: 1, Member: member}}}).Err(); err != nil {
		t.Error(err)
	}
	publish(3, 2) // the same number is not smaller
	if s, err := watch(nil); err != nil || capacity(s) != 3 {
		t.Errorf("%v", err)
	}

	// One that makes no sense does not raise the number, so that the one before it can come back.
	publish(0, 9)
	eventually(t, "the text makes no sense", func() bool { return strings.Contains(errs.text(), "line 1, column ") })
	publish(4, 3)
	eventually(t, "the text before it comes back", func() bool { return capacity(s) == 4 })
}

// A number that cannot be read keeps a text from coming into force, and one that cannot be kept is told until it is. Neither is forgotten.
func TestSerialNumberThatCannotBeKept(t *testing.T) {
	client, key := redistest.Shared(t).Client(t), redistest.Prefix(t)+"policies"
	public, private := newKey(t)
	source, s := Signed(Redis(client, key), public), new(Set)
	s.options = Options{}.checked()
	publish := func(n int, serial int64) {
		t.Helper()
		if err := client.Set(t.Context(), key, sign(t, numbered(n), private, serial), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	publish(1, 1)
	if err := client.Set(t.Context(), key+":serial", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := source.read(t.Context(), s.swapText); err == nil || !strings.HasPrefix(err.Error(), "the greatest serial number cannot be read: WRONGTYPE") || s.Document() != nil {
			t.Errorf("%v, %v", err, s.Document())
		}
	}
	if err := client.Del(t.Context(), key+":serial").Err(); err != nil {
		t.Fatal(err)
	}
	broken := &cannotAdd{Cmdable: client, fails: true}
	source = Signed(Redis(broken, key), public)
	for range 2 {
		if err := source.read(t.Context(), s.swapText); err == nil || err.Error() != "it is in force, but its serial number cannot be kept: down" || capacity(s) != 1 {
			t.Errorf("%v", err)
		}
	}
	first := s.Document()
	broken.fails = false
	for range 2 {
		if err := source.read(t.Context(), s.swapText); err != nil || s.Document() != first {
			t.Errorf("%v, or it is put in force again", err)
		}
	}
	if score := client.ZScore(t.Context(), key+":serial", member).Val(); score != 1 {
		t.Errorf("%v is kept", score)
	}
}

// cannotAdd is a client whose ZADD fails.
type cannotAdd struct {
	redis.Cmdable

	fails bool
}

func (c *cannotAdd) ZAddArgs(ctx context.Context, key string, args redis.ZAddArgs) *redis.IntCmd {
	if c.fails {
		cmd := redis.NewIntCmd(ctx)
		cmd.SetErr(errors.New("down"))
		return cmd
	}
	return c.Cmdable.ZAddArgs(ctx, key, args)
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

const topUpHelp = `Adds prepaid units to the balance of a key, once for each -id: the name of a payment, or of another event. To say it again with the
same -id is safe, as long as it is among the latest 128 of the key. -balance is the name of the balance, unless it has none.

` + storeHelp + "\n\n" + storeExitCodes

const balancesHelp = `Lists the balances of the keys that start with a prefix, or all. -balance is the name of the balances, unless they have none. It reads the
names of all keys in the database.

With -json, it writes a list for weir restore: keep it as a copy of the units that clients have paid for. A list of more than 256 MiB is an
error, once it is written, since weir restore does not read it: make several, each of a prefix.

` + storeHelp + "\n\n" + storeExitCodes

const restoreHelp = `Writes balances that weir balances -json has listed into a Redis that has lost them, with the names of their top-ups. A balance that
is there is left as it is, so that to run it twice is safe. Run it before the first top-up: of a key that was topped up meanwhile, nothing is restored. It
reads the file, or standard input if that is "-": 256 MiB at most.

` + storeHelp + "\n\n" + storeExitCodes

// Balance is the balance of a key.
type Balance struct {
	Key    string  `json:"key,omitempty"`
	Bytes  []byte  `json:"key_base64,omitempty"` // a key that is no UTF-8, in place of Key
	Hashed bool    `json:"hashed,omitempty"`     // the key is known by its hash alone
	Left   *int    `json:"left"`
	Spent  *int    `json:"spent"`
	TopUps []TopUp `json:"topups"` // the latest 128, the oldest first
}

// key returns the key of a balance.
func (b *Balance) key() string { return cmp.Or(string(b.Bytes), b.Key) }

// TopUp is a top-up of a balance.
type TopUp struct {
	ID    string    `json:"id"`
	Units int       `json:"units"`
	At    time.Time `json:"at"`
}

func balanceFlag() cli.Flag {
	return &cli.StringFlag{Name: "balance", Usage: "the `NAME` of the balance, such as credits"}
}

// parseBalance reads the balance that -balance names.
func parseBalance(c *cli.Command) (core.Quota, error) {
	balance := core.Balance()
	if name := strings.TrimSpace(c.String("balance")); name != "" && name != balance.String() {
		balance = balance.Named(strings.TrimSpace(strings.TrimSuffix(name, ": "+balance.String())))
	}
	if err := balance.Validate(); err != nil {
		return core.Quota{}, usage("-balance: %w", err)
	}
	return balance, nil
}

func topUpCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "topup", Usage: "adds prepaid units to a balance", UsageText: "weir topup -balance NAME -units N -id ID [options] key", Description: topUpHelp,
		Flags: storeFlags(balanceFlag(),
			&cli.IntFlag{Name: "units", Usage: "how `MANY` units"},
			&cli.StringFlag{Name: "id", Usage: "the `NAME` of the payment: up to 128 printable ASCII characters without spaces"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			balance, err := parseBalance(c)
			if err != nil {
				return err
			}
			if c.Args().Len() != 1 || c.String("id") == "" || c.Int("units") < 1 {
				return usage("name one key, the -units and an -id: see weir help topup")
			}
			return eachKey(c, stdout, func(limiter *core.Limiter, key string) (string, error) {
				d, repeated, err := limiter.TopUp(ctx, key, balance, c.Int("units"), c.String("id"))
				switch {
				case err != nil:
					return "", err
				case repeated:
					return fmt.Sprintf("was topped up by that id before: %d left", d.Remaining), nil
				}
				return fmt.Sprintf("is topped up: %d left", d.Remaining), nil
			})
		},
	}
}

func balancesCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "balances", Usage: "lists the balances of keys", UsageText: "weir balances -balance NAME [options] [prefix]", Description: balancesHelp,
		Flags: storeFlags(balanceFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			balance, err := parseBalance(c)
			if err != nil {
				return err
			}
			if c.Args().Len() > 1 {
				return usage("name one prefix of keys, or none")
			}
			return withStore(c, func(limiter *core.Limiter) error {
				balances, err := allBalances(ctx, limiter, balance, c.Args().First())
				if err != nil {
					return err
				}
				if c.Bool("json") {
					return writeCopy(stdout, balances, mostOfCopy)
				}
				return writeBalances(stdout, balances)
			})
		},
	}
}

// allBalances returns the balances of all keys that start with a prefix, each once.
func allBalances(ctx context.Context, limiter *core.Limiter, balance core.Quota, prefix string) ([]Balance, error) {
	balances, seen := []Balance{}, make(map[string]bool)
	for cursor := ""; ; {
		page, next, err := admin.Balances(ctx, limiter, balance, prefix, cursor)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			if seen[b.Key] {
				continue
			}
			seen[b.Key] = true
			row := Balance{Key: b.Key, Hashed: b.Hashed, Left: &b.Left, Spent: &b.Spent, TopUps: []TopUp{}}
			if !utf8.ValidString(b.Key) {
				row.Key, row.Bytes = "", []byte(b.Key)
			}
			for _, one := range b.TopUps {
				row.TopUps = append(row.TopUps, TopUp(one))
			}
			balances = append(balances, row)
		}
		if cursor = next; cursor == "" {
			return balances, nil
		}
	}
}

func writeBalances(w io.Writer, balances []Balance) error {
	if len(balances) == 0 {
		_, err := fmt.Fprintln(w, "no key has a balance")
		return err
	}
	rows := make([][]string, len(balances))
	for i, b := range balances {
		rows[i] = []string{printable(b.key()), strconv.Itoa(*b.Left), strconv.Itoa(*b.Spent), "", ""}
		if len(b.TopUps) > 0 {
			last := b.TopUps[len(b.TopUps)-1]
			rows[i][3], rows[i][4] = last.At.Format(time.DateTime), fmt.Sprintf("%d by %s", last.Units, last.ID)
		}
	}
	return writeTable(w, []string{"KEY", "LEFT", "SPENT", "LAST TOP-UP", ""}, rows)
}

func restoreCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "writes balances that were listed before", UsageText: "weir restore -balance NAME [options] FILE", Description: restoreHelp,
		Flags: storeFlags(balanceFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			balance, err := parseBalance(c)
			if err != nil {
				return err
			}
			if c.Args().Len() != 1 {
				return usage("name one file: see weir help restore")
			}
			balances, err := readBalances(c.Args().First(), stdin)
			if err != nil {
				return err
			}
			return withStore(c, func(limiter *core.Limiter) error {
				done := []Done{}
				for _, b := range balances {
					restored := admin.Balance{Key: b.key(), Hashed: b.Hashed, Left: *b.Left, Spent: *b.Spent}
					for _, one := range b.TopUps {
						restored.TopUps = append(restored.TopUps, admin.TopUp(one))
					}
					written, err := admin.RestoreBalance(ctx, limiter, balance, restored)
					if err != nil {
						return err
					}
					what := "has a balance, which stays as it is"
					if written {
						what = fmt.Sprintf("has its balance again: %d left", *b.Left)
					}
					done = append(done, Done{Key: b.key(), Done: what})
					if !c.Bool("json") {
						_, _ = fmt.Fprintf(stdout, "%s %s\n", printable(b.key()), what)
					}
				}
				if c.Bool("json") {
					return writeJSON(stdout, done)
				}
				return nil
			})
		},
	}
}

// mostOfCopy is how many bytes a copy of balances may have: those of about a million balances with a top-up each.
const mostOfCopy = 256 << 20

// writeCopy writes balances as JSON. It returns an error if that has more than most bytes.
func writeCopy(w io.Writer, balances []Balance, most int64) error {
	counting := &countingWriter{w: w}
	err := writeJSON(counting, balances)
	if err == nil && counting.written > most {
		err = fmt.Errorf("the list has %d bytes, and weir restore reads %d at most: list the keys in parts, each of a prefix", counting.written, most)
	}
	return err
}

// countingWriter counts what is written.
type countingWriter struct {
	w       io.Writer
	written int64
}

// Write implements [io.Writer].
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.written += int64(n)
	return n, err
}

// readBalances reads the JSON of weir balances. An error has the name of the file.
func readBalances(name string, stdin io.Reader) (balances []Balance, err error) {
	text, err := readCopy(name, stdin, mostOfCopy)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &balances)
	if of, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		err = fmt.Errorf("it has a %s in the wrong place, at byte %d", of.Value, of.Offset)
	}
	if err == nil && balances == nil {
		err = errors.New("it is null")
	}
	for i := range balances { // the list of another command would be read as balances of 0
		if b := &balances[i]; err == nil && (b.key() == "" || b.Left == nil || b.Spent == nil || b.TopUps == nil) {
			err = fmt.Errorf("balance %d lacks its key, left, spent or topups", i)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no list of weir balances -json: %w", called(name), err)
	}
	return balances, nil
}

// readCopy reads a file, or standard input, of no more than most bytes.
func readCopy(name string, stdin io.Reader, most int64) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the user says which file
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // nothing was written
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() && info.Size() > most { // nothing of it need be read
			return nil, tooLong(name, most)
		}
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, tooLong(name, most)
	}
	return text, err
}

func tooLong(name string, most int64) error {
	return fmt.Errorf("%s has more than the %d bytes that a list of balances may have", called(name), most)
}

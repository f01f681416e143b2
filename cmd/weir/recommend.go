package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // -zone works everywhere

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
	"github.com/weir-go/ratelimit/cmd/weir/internal/replay"
	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
)

const recommendHelp = `Reads the access logs of nginx, Apache, an AWS load balancer, Caddy, Traefik, or JSON lines, compressed with gzip or zstd or
not, and writes a page that proposes limits: three of them, the clients that each would have denied, and the file of policies and the code to run one
as a shadow. -policies writes the file. "-" is standard input, which is copied into a temporary file, since a log may be read twice.

Another temporary file has 28 bytes for each request, and 1 GiB at most: with more requests, or without a place for the file, logs are read
twice, which takes longer.

` + exitCodes

func recommendCommand(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name: "recommend", Usage: "proposes limits, from access logs", UsageText: "weir recommend [options] access.log…",
		Description: recommendHelp,
		Flags: logFlags(stderr,
			&cli.StringFlag{Name: "key", Value: "ip", Usage: "the client of a request: ip, header:`NAME` or json:.path"},
			&cli.StringSliceFlag{Name: "route", Usage: "only requests that match a `PATTERN` of net/http, such as \"POST /orders/{id}\"; repeatable"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Value: "weir.html", Usage: "the `FILE` to write the page to"},
			&cli.StringFlag{Name: "policies", Usage: "write a proposal, as a shadow, to this `FILE` of policies, which must not exist yet"},
			&cli.StringFlag{Name: "proposal", Value: "invisible", Usage: "which `PROPOSAL` -policies writes: invisible, guard or tight"},
			&cli.BoolFlag{Name: "json", Usage: "write JSON to standard output, and no page unless -out is given"},
			&cli.DurationFlag{Name: "horizon", Value: 10 * time.Minute, Usage: "a proposal lets one key have as little as possible in this `TIME`"},
			&cli.DurationFlag{
				Name: "longest-wait", Value: 10 * time.Minute,
				Usage: "a client that has used a burst up may make the next request after this `TIME` at most",
			},
			&cli.IntFlag{Name: "keys", Value: demand.DefaultKeys, Usage: "follow this `NUMBER` of keys at a time, 0.8 KB each"},
		),
		ShellComplete: completeFlags,
		Action: func(ctx context.Context, c *cli.Command) error {
			r, err := newRecommendation(c)
			if err != nil {
				return err
			}
			return r.run(ctx, c, stdin, stdout, stderr)
		},
	}
}

// completeFlags completes the values of flags that have few, and leaves files to the shell.
func completeFlags(ctx context.Context, c *cli.Command) {
	values := map[string][]string{
		"key": {"ip", "header:", "json:."}, "format": {"nginx", "apache", "alb", "caddy", "traefik", "json"}, "names": {"hash", "plain"},
		"proposal": proposals,
	}
	args := os.Args
	if len(args) >= 2 { // the last one is --generate-shell-completion
		if found, ok := values[strings.TrimLeft(args[len(args)-2], "-")]; ok {
			for _, v := range found {
				_, _ = fmt.Fprintln(c.Root().Writer, v)
			}
			return
		}
	}
	cli.DefaultCompleteWithFlags(ctx, c)
}

// proposals are the names of the proposals.
var proposals = []string{"invisible", "guard", "tight"}

// recommendation is a run of weir recommend as the command line asks for it.
type recommendation struct {
	*logs

	key    accesslog.Key
	routes []string
}

func newRecommendation(c *cli.Command) (*recommendation, error) {
	r := &recommendation{routes: c.StringSlice("route")}
	var err error
	if r.logs, err = newLogs(c, c.Args().Slice()); err != nil {
		return nil, err
	}
	if r.key, err = accesslog.ParseKey(c.String("key")); err != nil {
		return nil, usage("%w", err)
	}
	r.options.Log.Key = r.key
	if c.Int("keys") < 2 || c.Duration("horizon") <= 0 {
		return nil, usage("-keys must be at least 2, and -horizon more than 0")
	}
	if c.Duration("longest-wait") < time.Second {
		return nil, usage("-longest-wait must be at least 1s")
	}
	if len(r.routes) > 0 {
		if r.options.Route, err = arrival.NewRoute(r.routes...); err != nil {
			return nil, usage("%w", err)
		}
	}
	if name := c.String("proposal"); !slices.Contains(proposals, name) {
		return nil, usage("-proposal %q: want %s", name, strings.Join(proposals, ", "))
	}
	return r, nil
}

// namer returns the function that names keys as the flags say.
func namer(c *cli.Command) (func(string) string, error) {
	switch c.String("names") {
	case "plain":
		return func(key string) string { return key }, nil
	case "hash":
		return hashed(c.String("salt")), nil
	}
	return nil, usage("-names %q: want hash or plain", c.String("names"))
}

// hashed returns a function that names keys by an HMAC, with a random key if there is no salt, so that a reader cannot try all addresses.
func hashed(salt string) func(string) string {
	secret := []byte(salt)
	if salt == "" {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	return func(key string) string {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(key))
		return "#" + hex.EncodeToString(mac.Sum(nil)[:5])
	}
}

// run reads the logs, goes through their requests a second time and writes the report.
func (r *recommendation) run(ctx context.Context, c *cli.Command, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(30)) // little is allocated that does not stay, so frequent collections cost little
	}
	forget, err := r.open(stdin)
	defer func() { err = errors.Join(err, forget()) }()
	if err != nil {
		return err
	}
	shown := newProgress(stderr, c.Bool("progress"), 2*r.total)
	defer shown.stop()

	tracker := demand.NewTracker(c.Int("keys"))
	days := arrival.NewDays(r.zone, tracker)
	recording := arrival.NewRecording(days, arrival.MostRecorded)
	defer func() { err = errors.Join(err, recording.Close()) }()
	r.options.Keep = demand.Keep
	summary, err := arrival.Read(ctx, r.files, r.options, shown.reading("how much keys need"), recording)
	if err = r.usable(summary, err); err != nil {
		return err
	}
	found := tracker.Demand()
	proposed := found.Propose(c.Duration("horizon"), summary.Span(), c.Duration("longest-wait"))
	replayed := replay.New(found, proposed, r.zone)
	if err = r.again(ctx, recording, replayed, shown.reading("which requests limits deny")); err != nil {
		return err
	}
	shown.stop()
	if summary.FirstBad != nil {
		_, _ = fmt.Fprintln(stderr, "weir:", r.firstBad(summary))
	}
	if note := summary.Disorder(); note != "" {
		_, _ = fmt.Fprintln(stderr, "weir:", note)
	}
	return write(c, stdout, stderr, report.New(report.Input{
		Files: r.inputs(summary), Key: r.key, Routes: r.routes, Horizon: c.Duration("horizon"), Zone: r.zone, Summary: summary, Days: days.All(),
		Demand: found, Proposals: proposed, Replay: replayed, Name: r.name,
	}))
}

// again has all requests replayed: those of the recording or, if it has not all, those of the logs.
func (r *recommendation) again(ctx context.Context, recording *arrival.Recording, replayed *replay.Replay, progress *arrival.Progress) error {
	if recording.Whole() {
		return recording.Play(ctx, progress, r.total, replayed.Parts()...)
	}
	r.options.Keep = replayed.Keep
	_, err := arrival.Read(ctx, r.files, r.options, progress, replayed)
	return err
}

// inputs returns the files as the command line names them.
func (r *recommendation) inputs(s arrival.Summary) []report.File {
	files := make([]report.File, len(r.named))
	for i, name := range r.named {
		files[i] = report.File{Name: called(name), Format: s.Formats[r.files[i]]}
	}
	return files
}

// write writes the report as the flags say.
func write(c *cli.Command, stdout, stderr io.Writer, r *report.Report) error {
	if !c.Bool("json") || c.IsSet("out") {
		if err := writePage(c, stderr, r.WriteHTML); err != nil {
			return err
		}
	}
	if c.String("policies") != "" {
		if err := writePolicies(c, stderr, r); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return r.WriteJSON(stdout)
	}
	return r.WriteText(stdout)
}

// writePolicies writes a proposal to the file that -policies names. It leaves an existing file alone: an operator may have changed it.
func writePolicies(c *cli.Command, stderr io.Writer, r *report.Report) error {
	i := slices.IndexFunc(r.Proposals, func(p report.Proposal) bool { return p.Name == c.String("proposal") })
	if i < 0 {
		return exitError{errors.New("there is no proposal: no key is without signs of abuse, or some need more than any limit here gives"), exitEmpty}
	}
	f, err := os.OpenFile(c.String("policies"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // servers read it
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, r.Proposals[i].File)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name())) // half a file is no file of policies
	}
	_, _ = fmt.Fprintf(stderr, "weir: wrote %s, with %q as a shadow\n", c.String("policies"), r.Proposals[i].Limit)
	return nil
}

// writePage writes a page to the file that -out names. Another page in that place stays whole until this one is.
func writePage(c *cli.Command, stderr io.Writer, write func(io.Writer) error) error {
	if err := replaceFile(c.String("out"), write); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "weir: wrote %s\n", c.String("out"))
	return nil
}

// replaceFile writes a file beside its place, and moves it there when it is whole. A file that is not regular, such as a device, is written to.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	mode := os.FileMode(0o644)
	switch info, err := os.Stat(name); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:gosec // the user says which file
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	case err == nil:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil { // a link goes on to point to the file
			return err
		}
	}
	f, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", name, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err = errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

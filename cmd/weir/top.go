package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/busiest"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

const topHelp = `Shows the keys that have used most of their limits, and what a request of theirs that costs one would get now, again and again. Below a
heading for each limit it counts its keys, and those that would be denied. It charges nothing. "q" ends it.

It lists the names of the keys in the database a part at a time, and looks again at those in view. The numbers of a limit with a name of its
own are not in Redis: give the file of policies that has them by -policies, or such a limit by -limit. Redis does not know which plan a key
has: a limit that depends on it has the numbers of the plan that -plan names, or else of "*". Where standard output is no
terminal, and with -json, it looks at all keys once.

` + storeHelp + "\n\n" + storeExitCodes

// Top is the output of weir top as JSON.
type Top struct {
	Limits []Sum      `json:"limits"`
	Keys   []Standing `json:"keys"`
}

// Sum is how all keys stand under a limit.
type Sum struct {
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	Shadow    bool   `json:"shadow,omitempty"`
	Keys      int    `json:"keys"`
	Denied    *int   `json:"denied"` // null if the limit's numbers are not known
}

func topCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "shows the keys that have used most, live", UsageText: "weir top [options] [prefix]", Description: topHelp,
		Flags: storeFlags(limitFlag(), policiesFlag(),
			&cli.StringFlag{Name: "plan", Value: "*", Usage: "show all keys under the numbers of this `PLAN`, where the file of policies has plans"},
			&cli.IntFlag{Name: "rows", Value: 30, Usage: "show this number of `KEYS`"},
			&cli.DurationFlag{Name: "every", Value: 2 * time.Second, Usage: "look so often: a `TIME` of at least 100ms"},
			&cli.IntFlag{Name: "pages", Value: 20, Usage: "list this number of `PAGES` of 500 keys each time"},
			&cli.BoolFlag{Name: "once", Usage: "look at all keys once; by default where standard output is no terminal", Value: !isTerminal(stdout)},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			limits, err := parseLimits(c.StringSlice("limit"))
			if err != nil {
				return err
			}
			named, err := readNamed(c, stdin)
			if err != nil {
				return err
			}
			if c.Args().Len() > 1 || c.Int("rows") < 1 || c.Int("pages") < 1 || c.Duration("every") < 100*time.Millisecond {
				return usage("top takes one prefix of keys at most, -rows and -pages of at least 1, and -every of at least 100ms")
			}
			return withStore(c, func(limiter *core.Limiter) error {
				sampler := busiest.New(limiter, busiest.Options{
					Prefix: c.Args().First(), Limits: append(named.of(c.String("plan")), limits...), Rows: c.Int("rows"), Pages: c.Int("pages"),
				})
				if !c.Bool("once") && !c.Bool("json") {
					return watch(ctx, sampler, c.Duration("every"), stdin, stdout)
				}
				page, err := wholePass(ctx, sampler)
				if err != nil {
					return err
				}
				if c.Bool("json") {
					return writeJSON(stdout, topOf(page))
				}
				_, err = io.WriteString(stdout, pageText(page))
				return err
			})
		},
	}
}

// wholePass samples until a pass over all keys has ended.
func wholePass(ctx context.Context, sampler *busiest.Sampler) (busiest.Page, error) {
	for {
		page, err := sampler.Sample(ctx)
		if err != nil || page.Passes > 0 {
			return page, err
		}
	}
}

func topOf(page busiest.Page) Top {
	top := Top{Limits: []Sum{}, Keys: []Standing{}}
	for _, s := range page.Sums {
		sum := Sum{Limit: s.Limit, Algorithm: s.Algorithm, Shadow: s.Shadow, Keys: s.Keys}
		if s.Known {
			sum.Denied = &s.Denied
		}
		top.Limits = append(top.Limits, sum)
	}
	for i := range page.Rows {
		row := &page.Rows[i]
		top.Keys = append(top.Keys, standingOf(row.Key, row.Shadow, row.Decision))
	}
	return top
}

// pageText is a page as people read it.
func pageText(page busiest.Page) string {
	var text strings.Builder
	limits := make([][]string, len(page.Sums))
	for i, s := range page.Sums {
		denied := "? " + howToKnow(s.Limit)
		if s.Known {
			denied = strconv.Itoa(s.Denied)
		}
		limits[i] = []string{printable(shadowed(s.Limit, s.Shadow)), strconv.Itoa(s.Keys), denied}
	}
	_ = writeTable(&text, []string{"LIMIT", "KEYS", "DENIED NOW"}, limits) // a Builder takes all
	text.WriteByte('\n')
	keys := make([][]string, len(page.Rows))
	for i := range page.Rows {
		row := &page.Rows[i]
		change := ""
		if row.Again {
			change = fmt.Sprintf("%+d", row.Change)
		}
		keys[i] = []string{
			printable(row.Key), printable(shadowed(row.Limit, row.Shadow)), admin.DescribeDecision(row.Decision), change, verdict(row.Decision),
		}
	}
	_ = writeTable(&text, []string{"KEY", "LIMIT", "USED", "CHANGE", "A REQUEST NOW"}, keys)
	return text.String()
}

// watch shows pages on a terminal until the user leaves.
func watch(ctx context.Context, sampler *busiest.Sampler, every time.Duration, stdin io.Reader, stdout io.Writer) error {
	screen := screen{sampler: sampler, every: every, ctx: ctx}
	_, err := tea.NewProgram(screen, tea.WithContext(ctx), tea.WithInput(stdin), tea.WithOutput(stdout), tea.WithoutSignalHandler()).Run()
	if ctx.Err() == nil {
		return err
	}
	return nil // the user has interrupted it
}

// screen is the page on a terminal.
type screen struct {
	ctx     context.Context //nolint:containedctx // Bubble Tea calls without one
	sampler *busiest.Sampler
	every   time.Duration

	page          busiest.Page
	err           error
	width, height int
}

// sampled is the result of a sample, and due says that the next one is to be taken.
type (
	sampled struct {
		page busiest.Page
		err  error
	}
	due struct{}
)

func (s screen) sample() tea.Msg {
	page, err := s.sampler.Sample(s.ctx)
	return sampled{page, err}
}

// Init takes the first sample.
func (s screen) Init() tea.Cmd { return s.sample }

// Update handles a message. At most one sample is in progress.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.KeyPressMsg:
		switch message.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case sampled:
		if s.err = message.err; s.err == nil {
			s.page = message.page
		}
		return s, tea.Tick(s.every, func(time.Time) tea.Msg { return due{} })
	case due:
		return s, s.sample
	}
	return s, nil
}

// View returns the page, cut to the size of the terminal.
func (s screen) View() tea.View {
	heading := fmt.Sprintf("weir top, every %v; q quits. ", s.every)
	switch {
	case s.err != nil:
		heading += "Not answered: " + plain(s.err)
	case s.page.Passes == 0:
		heading += fmt.Sprintf("%d keys so far", s.page.Listed)
	}
	lines := append([]string{heading, ""}, strings.Split(pageText(s.page), "\n")...)
	if s.height > 0 {
		lines = lines[:min(len(lines), s.height)]
	}
	for i, line := range lines {
		if runes := []rune(line); s.width > 0 && len(runes) > s.width {
			lines[i] = string(runes[:s.width])
		}
	}
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen = true
	return view
}

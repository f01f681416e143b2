// Package browsertest opens the demo's page in a real browser, and uses it as a
// visitor does. The demo is a program of its own here, built and started by the
// tests; the browser is Chromium, headless.
//
// It is a module of its own, so that what drives the browser is no dependency of
// the library.
package browsertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

// patience is how long anything may take that a test waits for.
const patience = 20 * time.Second

// The demo and the browser that all tests share.
var (
	program string          // the demo's executable
	address string          // of the demo
	browser context.Context // nil if there is none
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	path, err := chromium()
	if err != nil {
		if os.Getenv("CI") == "true" {
			return 1, err
		}
		return m.Run(), nil // the tests skip themselves
	}
	dir, err := os.MkdirTemp("", "demo")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "demo")
	build := exec.Command("go", "build", "-race", "-o", program, ".")
	build.Dir = ".."
	if output, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the demo: %w\n%s", err, output)
	}
	demo, err := start("memory:")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, demo.interrupt()) }()
	address = demo.address

	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, // a sandbox cannot be had as root, or in a container
		chromedp.Flag("hide-scrollbars", false), chromedp.Flag("disable-lcd-text", true))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		return 1, fmt.Errorf("starting %s: %w", path, err)
	}
	browser = ctx //nolint:fatcontext // once, before any test
	code = m.Run()
	closing, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return code, chromedp.Cancel(closing)
}

// chromium returns the path of the browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("browsertest: there is no Chromium on the PATH: make browser installs one")
}

// process is a demo that runs.
type process struct {
	address string
	command *exec.Cmd
}

// start starts a demo on a free port, with its counters in a store.
func start(store string) (*process, error) {
	p := &process{command: exec.Command(program, "-addr", "localhost:0", "-redis", store)}
	p.command.Stderr = os.Stderr
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the demo did not say where it is: %w", err), p.interrupt())
	}
	p.address = strings.TrimPrefix(strings.TrimSpace(line), "open ")
	return p, nil
}

// interrupt ends the demo as Ctrl-C does. That it ends well is part of the test.
func (p *process) interrupt() error {
	if err := p.command.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	overdue := time.AfterFunc(patience, func() { p.command.Process.Kill() })
	defer overdue.Stop()
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("the demo did not end well on SIGINT: %w", err)
	}
	return nil
}

// visitor is somebody with the page open, in a browser context of his own.
type visitor struct {
	testing.TB

	ctx context.Context //nolint:containedctx // it is what chromedp calls a tab
}

// screen is what a visitor looks at the page with.
type screen struct {
	width, height int64
	scheme        string // "light" or "dark"
	motion        string // "no-preference" or "reduce"
}

var desktop = screen{1280, 900, "light", "no-preference"}

// open opens the page of the demo that all tests share.
func open(tb testing.TB, s screen) *visitor {
	tb.Helper()
	return openAt(tb, address, s)
}

// openAt opens a demo's page, and waits until it is live. At the end of the test nothing
// may have gone wrong in it, and no request may have gone anywhere else.
func openAt(tb testing.TB, address string, s screen) *visitor {
	tb.Helper()
	if browser == nil {
		tb.Skip("there is no Chromium on the PATH: make browser installs one")
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	tb.Cleanup(cancel)
	v := &visitor{tb, ctx}
	messages := chromedp.Console(ctx)
	tb.Cleanup(func() {
		v.do(chromedp.Evaluate[chromedp.Void](`console.debug("the end")`))
		for message, err := range messages {
			switch {
			case err != nil:
				tb.Error(err)
				return
			case message.Text == "the end":
				return
			case strings.Contains(message.Text, "422"): // a refused configuration is told by the page
			default:
				tb.Errorf("the console says: %s", message)
			}
		}
	})
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		tb.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok && !strings.HasPrefix(sent.Request.URL, address+"/") {
			tb.Errorf("a request leaves the demo: %s", sent.Request.URL)
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	features := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: s.scheme}, {Name: "prefers-reduced-motion", Value: s.motion},
	}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, features); err != nil {
		tb.Fatal(err)
	}
	v.do(chromedp.EmulateViewport(s.width, s.height))
	v.do(chromedp.Navigate(address + "/"))
	v.until(`document.querySelector('[data-role="live"]').dataset.live === "yes"`)
	v.until(`document.querySelectorAll('article [data-verdict="passes"]').length >= 7`)
	return v
}

func (v *visitor) do(step chromedp.Action[chromedp.Void]) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, step); err != nil {
		v.Fatal(err)
	}
}

// click clicks on what a CSS selector finds.
func (v *visitor) click(selector string) {
	v.Helper()
	v.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill types a text into a field, in place of the one that is there.
func (v *visitor) fill(selector, text string) {
	v.Helper()
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const f = document.querySelector(%q); f.focus(); f.select(); })()`, selector)))
	v.do(chromedp.KeyEvent(text))
}

// text returns what an element says.
func (v *visitor) text(selector string) string {
	v.Helper()
	return ask[string](v, fmt.Sprintf(`document.querySelector(%q).textContent`, selector))
}

// until waits for a JavaScript expression to be true.
func (v *visitor) until(condition string) {
	v.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ask[bool](v, "!!("+condition+")") {
			return
		}
		if time.Now().After(deadline) {
			v.Fatalf("never came true: %s", condition)
		}
	}
}

// ask returns the value of a JavaScript expression.
func ask[T any](v *visitor, expression string) T {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		v.Fatalf("%s: %v", expression, err)
	}
	return value
}

package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/ratelimit/internal/redistest"
)

var (
	phone   = screen{390, 844, "light", "no-preference"}
	names   = []string{"fixed-window", "sliding-log", "sliding-window", "token-bucket", "leaky", "shaping", "gcra"}
	verdict = `document.querySelector('#%s [data-role="verdict"]').dataset.verdict === %q`
	logged  = `document.querySelectorAll('#%s [data-role="log"] li').length === %d`
)

// part returns the selector of a part of a card.
func part(card, role string) string { return fmt.Sprintf(`#%s [data-role="%s"]`, card, role) }

// button returns the selector of a card's button that sends so many requests.
func button(card string, count int) string {
	return fmt.Sprintf(`%s [data-role="send"][data-count="%d"]`, card, count)
}

// configure gives a card a limit, by the keyboard.
func (v *visitor) configure(card, capacity, pace string) {
	v.Helper()
	v.fill("#"+card+` [name="capacity"]`, capacity)
	v.fill("#"+card+` [name="pace"]`, pace)
	v.do(chromedp.KeyEvent(kb.Enter))
}

func TestABurstIsRefusedUntilTheMomentThatIsTold(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	for _, card := range []string{"fixed-window", "gcra"} {
		pace := "2s"
		if card == "gcra" {
			pace = "1/2s"
		}
		v.configure(card, "3", pace)
		v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "3 of 3"`, part(card, "remaining")))
		v.click(button("#"+card, 10))
		v.until(fmt.Sprintf(logged, card, 10))
		v.until(fmt.Sprintf(verdict, card, "refuses"))
		if n := ask[int](v, fmt.Sprintf(`document.querySelectorAll('#%s .log li[data-status="refused"]').length`, card)); n != 7 {
			t.Errorf("%s refused %d of 10 under a limit of 3", card, n)
		}
		if when := v.text(part(card, "when")); !strings.HasPrefix(when, "in ") {
			t.Errorf("%s refuses, and says that the next request passes %s", card, when)
		}
		if answer := v.text(part(card, "headers")); !strings.HasPrefix(answer, "HTTP/1.1 429 Too Many Requests\nRateLimit: ") ||
			!strings.Contains(answer, "\nRetry-After: ") || !strings.Contains(answer, "violated-policies") {
			t.Errorf("%s shows for an answer: %s", card, answer)
		}
		v.until(fmt.Sprintf(verdict, card, "passes"))
		v.click(button("#"+card, 1))
		v.until(fmt.Sprintf(logged, card, 11))
		if status, when := v.text(part(card, "status")), v.text(part(card, "retry")); status != "200" || when != "0" {
			t.Errorf("at the moment that it told, %s answers %s, retry after %s", card, status, when)
		}
	}
}

func TestOneClickAsksAllSeven(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	v.click(`input[value="echov5"] + span`)
	v.click(button(".lead", 10))
	for _, card := range names {
		if card == "shaping" {
			v.until(`document.querySelectorAll('#shaping .picture .dot.waiting[visibility="visible"]').length >= 2`)
			continue
		}
		v.until(fmt.Sprintf(logged, card, 10))
		v.until(fmt.Sprintf(`document.querySelector("#%s").dataset.verified === "true"`, card))
		if answers := ask[string](v, fmt.Sprintf(`[...document.querySelectorAll('#%s .log li')].map(li => li.textContent).join()`, card)); !strings.Contains(answers, "200") {
			t.Errorf("%s admitted none: %s", card, answers)
		}
	}
}

func TestResetMakesAllCardsNew(t *testing.T) {
	v := open(t, desktop)
	v.click(button(".lead", 10))
	v.until(fmt.Sprintf(logged, "leaky", 10))
	v.click(`.toolbar [data-role="reset"]`)
	for _, card := range names {
		v.until(fmt.Sprintf(logged, card, 0))
		v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "5 of 5"`, part(card, "remaining")))
		v.until(fmt.Sprintf(verdict, card, "passes"))
	}
}

func TestResetRestoresWhatWasChanged(t *testing.T) {
	v := open(t, desktop)
	v.configure("leaky", "8", "4/s")
	v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "8 of 8"`, part("leaky", "remaining")))
	v.fill(`.compare [name="capacity"]`, "7")
	v.click(`.toolbar [data-role="reset"]`)
	v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "5 of 5"`, part("leaky", "remaining")))
	v.until(`document.querySelector('.compare [name="capacity"]').value === "5"`)
	if fields := ask[[]string](v, `[...document.querySelectorAll("#leaky input")].map(field => field.value)`); fields[0] != "5" || fields[1] != "1/s" {
		t.Errorf("the fields of the card are %q", fields)
	}
	if code := v.text(part("leaky", "said")); code != "ratelimit.Leaky(limiter, 5, core.PerSecond(1))" {
		t.Errorf("the code is %s", code)
	}
}

// In whatever order the answers come, the newest decision is at the top.
func TestABurstIsListedAsItWasDecided(t *testing.T) {
	for _, s := range []screen{phone, desktop} {
		v := open(t, s)
		for _, card := range []string{"fixed-window", "gcra"} {
			pace := map[bool]string{true: "3/m", false: "60s"}[card == "gcra"]
			v.configure(card, "3", pace)
			v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "3 of 3"`, part(card, "remaining")))
			v.click(button("#"+card, 10))
			v.until(fmt.Sprintf(logged, card, 10))
			lines := ask[[]string](v, fmt.Sprintf(`[...document.querySelectorAll('#%s .log li')].map(li => [...li.children].slice(1, 3).map(cell => cell.textContent).join(" "))`, card))
			want := append(slices.Repeat([]string{"429 0 left"}, 7), "200 0 left", "200 1 left", "200 2 left")
			if !slices.Equal(lines, want) {
				t.Errorf("%d pixels wide, %s lists %q, want %q", s.width, card, lines, want)
			}
			marks := ask[string](v, fmt.Sprintf(`[...document.querySelectorAll('.overview tr[data-algorithm="%s"] .mark')].map(mark => mark.className[5]).join("")`, card))
			if marks != "aaarrrrrrr" {
				t.Errorf("%d pixels wide, the marks of %s are %s", s.width, card, marks)
			}
			if status := v.text(part(card, "status")); status != "429" {
				t.Errorf("the last answer of %s is %s", card, status)
			}
		}
	}
}

// exposed lets a test speak in the place of the page's stream.
const exposed = `
	const Stream = window.EventSource;
	window.EventSource = function (url) { return window.stream = new Stream(url); };`

func TestALateAnswerIsListedWhereItWasDecided(t *testing.T) {
	v := open(t, desktop)
	if _, err := chromedp.Call(v.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: exposed}); err != nil {
		t.Fatal(err)
	}
	v.do(chromedp.Navigate(address + "/"))
	v.until(`document.querySelectorAll('article [data-verdict="passes"]').length >= 7`)
	for i, told := range []string{
		`"at": 2000000, "rank": 6, "status": 429, "retryAfter": 3000000`,
		`"at": 2000000, "rank": 5, "status": 200, "remaining": 0`, // decided in the same call
		`"at": 1000000, "rank": 1, "status": 200, "remaining": 4`,
	} {
		frame := fmt.Sprintf(`{"clock": 3000000, "cards": [], "runId": 0, "answers": [
			{"number": %d, "algorithm": "gcra", "press": 1, "of": 3, "decided": true, "line": "", "headers": [], "body": "", %s}]}`, i+1, told)
		v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.stream.dispatchEvent(new MessageEvent("message", {data: %q}))`, frame)))
	}
	if log := ask[string](v, `[...document.querySelectorAll("#gcra .log li")].map(li => li.children[0].textContent + " " + li.children[1].textContent).join()`); log != "2.000 s 429,2.000 s 200,1.000 s 200" {
		t.Errorf("the log is %s", log)
	}
	if marks := ask[string](v, `[...document.querySelectorAll('.overview tr[data-algorithm="gcra"] .mark')].map(mark => mark.classList[1]).join(" then ")`); marks != "admitted then admitted then refused" {
		t.Errorf("the marks are %s", marks)
	}
	if status := v.text(part("gcra", "status")); status != "429" {
		t.Errorf("the last answer is %s", status)
	}
}

func TestWhatPassesUncheckedIsNotShownAsAdmitted(t *testing.T) {
	server := redistest.Start(t)
	if browser == nil {
		t.Skip("there is no Chromium on the PATH: make browser installs one")
	}
	demo, err := start(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := demo.interrupt(); err != nil {
			t.Error(err)
		}
	})
	const red = `(() => {
		const probe = document.createElement("i");
		probe.style.color = "var(--bad)";
		document.body.append(probe);
		const color = getComputedStyle(probe).color;
		probe.remove();
		return getComputedStyle(document.querySelector(".lamp")).backgroundColor === color;
	})()`
	for _, s := range []screen{phone, desktop} {
		v := openAt(t, demo.address, s)
		if ask[bool](v, red) {
			t.Error("the lamp is red while all is well")
		}
		server.Pause(t)
		v.click(button("#fixed-window", 10))
		v.until(fmt.Sprintf(logged, "fixed-window", 10))
		v.until(red)
		if text := v.text(`[data-role="live-text"]`); text != "no decisions" {
			t.Errorf("beside the lamp stands %q", text)
		}
		states := ask[[]string](v, `[...document.querySelectorAll("#fixed-window .log li")].map(li => li.dataset.status + ": " + li.lastElementChild.textContent)`)
		if !slices.Equal(states, slices.Repeat([]string{"unchecked: unchecked"}, 10)) {
			t.Errorf("%d pixels wide, the log shows %q", s.width, states)
		}
		if text := v.text(part("fixed-window", "burst")); text != "Last click: 0 passed, 10 unchecked" {
			t.Errorf("the card says %q", text)
		}
		for _, width := range []int64{320, s.width} {
			v.do(chromedp.EmulateViewport(width, s.height))
			if out := ask[[]string](v, wide); len(out) > 0 {
				t.Errorf("%d pixels wide: %v", width, out)
			}
		}
		if texts := ask[[]string](v, faint); len(texts) > 0 {
			t.Errorf("%v", texts)
		}
		server.Resume(t)
		v.until(`document.querySelector('[data-role="live"]').dataset.live === "yes"`)
		if ask[bool](v, red) {
			t.Error("the lamp stays red")
		}
	}
}

func TestConfigurationsThatMakeNoSenseAreExplained(t *testing.T) {
	v := open(t, desktop)
	code := v.text(part("leaky", "said"))
	v.configure("leaky", "0", "1/s")
	v.until(`document.querySelector('#leaky [name="capacity"]').getAttribute("aria-invalid") === "true"`)
	v.until(`document.activeElement === document.querySelector('#leaky [name="capacity"]')`)
	if said := v.text(part("leaky", "said")); !strings.Contains(said, "whole number from 1 to 50") {
		t.Errorf("a capacity of 0: %s", said)
	}
	v.configure("leaky", "5", "often")
	v.until(`document.querySelector('#leaky [name="pace"]').getAttribute("aria-invalid") === "true"`)
	if left := v.text(part("leaky", "remaining")); left != "5 of 5" {
		t.Errorf("a refused configuration has changed the limit: %s", left)
	}
	v.configure("leaky", "8", "4/s")
	v.until(`document.querySelector('#leaky [data-role="remaining"]').textContent === "8 of 8"`)
	if said := v.text(part("leaky", "said")); said == code || said != "ratelimit.Leaky(limiter, 8, core.PerSecond(4))" {
		t.Errorf("the code is %s", said)
	}
}

// Apply with the numbers that a card has leaves its usage, its log and its last answer.
func TestApplyWithoutAChangeLeavesTheCard(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	v.configure("leaky", "3", "3/m")
	v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "3 of 3"`, part("leaky", "remaining")))
	v.click(button("#leaky", 10))
	v.until(fmt.Sprintf(logged, "leaky", 10))
	v.click(`#leaky [type="submit"]`)
	v.configure("gcra", "6", "1/s") // which is answered later
	v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "6 of 6"`, part("gcra", "remaining")))
	if lines := ask[int](v, `document.querySelectorAll('#leaky [data-role="log"] li').length`); lines != 10 {
		t.Errorf("the log has %d lines, want 10", lines)
	}
	if left, status := v.text(part("leaky", "remaining")), v.text(part("leaky", "status")); left != "0 of 3" || status != "429" {
		t.Errorf("%s are left, and the last answer is %s", left, status)
	}
}

func TestTwoVisitorsHaveCountersOfTheirOwn(t *testing.T) {
	t.Parallel() // most of it is waiting
	one, other := open(t, desktop), open(t, desktop)
	one.click(button("#sliding-log", 10))
	one.until(fmt.Sprintf(verdict, "sliding-log", "refuses"))
	other.click(button("#sliding-log", 1))
	other.until(fmt.Sprintf(logged, "sliding-log", 1))
	if status, left := other.text(part("sliding-log", "status")), other.text(part("sliding-log", "answer-remaining")); status != "200" || left != "4" {
		t.Errorf("after somebody else's burst: %s, %s left", status, left)
	}
}

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

func TestHowManyOfABurstPassedCanBeSeenAtAnyWidth(t *testing.T) {
	const seen = `(() => {
		const e = document.querySelector(%q), box = e.getBoundingClientRect();
		return box.width > 0 && box.height > 0 && box.right <= document.documentElement.clientWidth ? e.textContent : "";
	})()`
	for _, s := range []screen{phone, desktop} {
		v := open(t, s)
		v.configure("leaky", "4", "4/m")
		v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "4 of 4"`, part("leaky", "remaining")))
		v.click(button("#leaky", 10))
		v.until(fmt.Sprintf(logged, "leaky", 10))
		if text := ask[string](v, fmt.Sprintf(seen, part("leaky", "burst"))); text != "Last click: 4 of 10 passed" {
			t.Errorf("%d pixels wide, the card shows %q", s.width, text)
		}
		if text := ask[string](v, fmt.Sprintf(seen, `.overview tr[data-algorithm="leaky"] [data-role="burst"]`)); text != "4 of 10" {
			t.Errorf("%d pixels wide, the overview shows %q", s.width, text)
		}
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

// Who goes from landmark to landmark hears which card each one belongs to.
func TestLandmarksHaveNamesOfTheirOwn(t *testing.T) {
	v := open(t, desktop)
	landmarks := ask[[]string](v, `[...document.querySelectorAll("main, body > header, body > footer, nav, aside, section, form, [role=region], [role=toolbar], [tabindex='0'][aria-label]")].map(e => {
		const by = e.getAttribute("aria-labelledby");
		return e.tagName.toLowerCase() + " " + (by ? document.getElementById(by).textContent : e.getAttribute("aria-label") ?? "");
	})`)
	if len(landmarks) < 4*len(names) {
		t.Fatalf("there are only %q", landmarks)
	}
	found := make(map[string]bool)
	for _, landmark := range landmarks {
		if kind, name, _ := strings.Cut(landmark, " "); name == "" && kind != "main" && kind != "header" && kind != "footer" {
			t.Errorf("a %s has no name", kind)
		}
		if found[landmark] {
			t.Errorf("two landmarks are %q", landmark)
		}
		found[landmark] = true
	}
}

func TestCompareShowsTheBoundaryBurst(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	v.fill(`.compare [name="capacity"]`, "4")
	v.fill(`.compare [name="window"]`, "1.5")
	v.click(`.compare [data-role="run"]`)
	v.until(`document.querySelector(".compare").dataset.running === "true"`)
	v.until(`document.querySelector(".compare").dataset.running === "false"`)
	lane := `.lane[data-algorithm="%s"] [data-role="%s"] b`
	for _, name := range names {
		admitted, refused := v.text(fmt.Sprintf(lane, name, "admitted")), v.text(fmt.Sprintf(lane, name, "refused"))
		if ask[int](v, admitted+"+"+refused) != 8 {
			t.Errorf("%s: %s admitted and %s refused are not the 8 that were sent", name, admitted, refused)
		}
	}
	exceeded := ask[[]string](v, `[...document.querySelectorAll('.lane:has([data-exceeded="true"])')].map(lane => lane.dataset.algorithm)`)
	if len(exceeded) == 0 || exceeded[0] != "fixed-window" {
		t.Errorf("more than the limit passed in a window's length with %v", exceeded)
	}
	if most := v.text(fmt.Sprintf(lane, "sliding-log", "most")); most != "4" {
		t.Errorf("the sliding log let %s of 4 pass in a window", most)
	}

	v.fill(`.compare [name="window"]`, "60")
	v.click(`.compare [data-role="run"]`)
	v.until(`document.activeElement.name === "window" && document.activeElement.getAttribute("aria-invalid") === "true"`)
	v.until(`document.querySelector('[data-role="compare-said"]').textContent.includes("not from 1s to 5s")`)
}

// reopen replaces the page's stream, where it is called, by one that is told all
// anew. How many events have come since is in reopened.
const reopen = `
	const Stream = window.EventSource;
	window.EventSource = function (url) {
		const page = new EventTarget();
		let stream;
		window.reopen = () => {
			stream?.close();
			stream = new Stream(url);
			window.reopened = 0;
			for (const type of ["open", "message"]) {
				stream.addEventListener(type, (event) => page.dispatchEvent(new MessageEvent(type, {data: event.data})));
			}
			stream.addEventListener("message", () => window.reopened++);
		};
		window.reopen();
		return page;
	};`

func TestAPageThatReconnectsDrawsTheComparisonOnce(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	if _, err := chromedp.Call(v.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: reopen}); err != nil {
		t.Fatal(err)
	}
	v.do(chromedp.Navigate(address + "/"))
	v.until(`window.reopened > 0`)
	v.fill(`.compare [name="capacity"]`, "2")
	v.fill(`.compare [name="window"]`, "1")
	v.click(`.compare [data-role="run"]`)
	v.until(`document.querySelector(".compare .up")`)
	for _, when := range []string{"during the run", "after it"} {
		v.do(chromedp.Evaluate[chromedp.Void](`window.reopen()`))
		v.until(`window.reopened > 0 && document.querySelector(".compare").dataset.running === "false"`)
		for _, name := range names {
			// Four points are too few for the bars to be drawn to a smaller scale.
			drawn := ask[int](v, fmt.Sprintf(`[...document.querySelectorAll('.lane[data-algorithm="%s"] :is(.up, .down)')]
				.reduce((sum, bar) => sum + Number(bar.getAttribute("height")), 0) / 7`, name))
			if drawn != 4 {
				t.Errorf("reconnected %s, %s shows %d of the 4 that were sent", when, name, drawn)
			}
		}
	}
}

func TestWhateverIsChosenIsDescribed(t *testing.T) {
	v := open(t, desktop)
	const described = `(() => {
		const form = document.querySelector('[data-role="compare"]');
		return [...form.querySelectorAll("[aria-describedby]")].map(e => document.getElementById(e.getAttribute("aria-describedby"))?.textContent.trim() ?? "");
	})()`
	check := func(when, says string) {
		t.Helper()
		texts := ask[[]string](v, described)
		if len(texts) != 3 || texts[0] != says || texts[1] != says || texts[2] != says {
			t.Errorf("%s the three fields are described by %q, want %q", when, texts, says)
		}
	}
	for i, about := range ask[[]string](v, `[...document.querySelectorAll('[name="pattern"] option')].map(option => option.dataset.about)`) {
		v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
			const pattern = document.querySelector('[name="pattern"]');
			pattern.selectedIndex = %d;
			pattern.dispatchEvent(new Event("change", {bubbles: true}));
		})()`, i)))
		check(fmt.Sprintf("with pattern %d", i), about)
	}
	v.click(`.compare [data-role="run"]`) // of nothing: the visitor has sent none of his own
	v.until(`document.querySelector('[name="pattern"]').getAttribute("aria-invalid") === "true"`)
	check("refused,", v.text(`.compare .problem`))
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

func TestAllCanBeDoneByTheKeyboard(t *testing.T) {
	v := open(t, desktop)
	reached := make(map[string]bool)
	for range 120 {
		v.do(chromedp.KeyEvent(kb.Tab))
		at := ask[string](v, `(() => {
			const e = document.activeElement, style = getComputedStyle(e.matches(".segments input") ? e.nextElementSibling : e);
			if (e === document.body) return "";
			const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
			return (seen ? "" : "unseen ") + (e.closest("[id]")?.id ?? "") + " " + (e.name || e.dataset.role || e.type || e.tagName) + " " + (e.dataset.count ?? "");
		})()`)
		if strings.HasPrefix(at, "unseen") {
			t.Errorf("the focus cannot be seen: %s", at)
		}
		reached[strings.TrimSpace(at)] = true
		if at == "" {
			break
		}
	}
	wanted := []string{"framework", "reset", "send 1", "send 10", "compare pattern", "compare capacity", "compare window", "compare run"}
	for _, name := range names {
		wanted = append(wanted, name+" send 1", name+" send 10", name+" capacity", name+" pace", name+" submit", name+" headers", name+" log")
	}
	for _, control := range wanted {
		if !reached[control] {
			t.Errorf("Tab never comes to %s, only to %v", control, reached)
		}
	}

	v.do(chromedp.Focus(chromedp.CSS(`input[value="nethttp"]`)))
	v.do(chromedp.KeyEvent(kb.ArrowRight)) // gin
	v.do(chromedp.Focus(chromedp.CSS(button("#token-bucket", 1))))
	v.do(chromedp.KeyEvent(" "))
	v.until(fmt.Sprintf(logged, "token-bucket", 1))
	if answer := v.text(part("token-bucket", "headers")); !strings.Contains(answer, "middleware for gin") {
		t.Errorf("what the keyboard has sent: %s", answer)
	}
}

// wide lists what stands out of the page on the right, out of its picture, or over what stands beside it.
const wide = `(() => {
	const name = (e) => e.tagName + "." + (e.className.baseVal ?? e.className) + " " + e.textContent.trim().replace(/\s+/g, " ").slice(0, 30);
	const right = document.documentElement.clientWidth + 0.5;
	const out = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > right);
	const clipped = [...document.querySelectorAll(".picture text")].filter(e => {
		const text = e.getBoundingClientRect(), picture = e.closest("svg").getBoundingClientRect();
		return text.width > 0 && (text.left < picture.left || text.right > picture.right || text.top < picture.top - 1 || text.bottom > picture.bottom + 1);
	});
	out.push(...[document.documentElement, ...document.querySelectorAll(".log ol, .log h3, .answer pre, .facts p, .overview :is(td, th)")].filter(e => e.scrollWidth > e.clientWidth));
	return [...out, ...clipped].map((e) => name(e) + " " + e.scrollWidth + "/" + e.clientWidth);
})()`

func TestNothingStandsOutOfThePageAtAnyWidth(t *testing.T) {
	v := open(t, phone)
	check := func(when string) {
		t.Helper()
		for _, width := range []int64{320, 390, 768, 1024, 1280, 1920} {
			v.do(chromedp.EmulateViewport(width, 900))
			if out := ask[[]string](v, wide); len(out) > 0 {
				t.Errorf("%s, %d pixels wide: %v", when, width, out)
			}
		}
	}
	check("idle")
	v.click(button(".lead", 10))
	v.until(fmt.Sprintf(logged, "gcra", 10))
	check("after a burst")
	for _, name := range names {
		pace := map[bool]string{true: "59999ms", false: "50/59999ms"}[strings.HasPrefix(name, "sliding") || name == "fixed-window"]
		v.configure(name, "50", pace)
		v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "50 of 50"`, part(name, "remaining")))
	}
	for range 3 {
		v.click(button(".lead", 10))
	}
	v.until(fmt.Sprintf(`document.querySelector('%s').textContent === "20 of 50"`, part("sliding-log", "remaining")))
	v.configure("gcra", "7000000000000", "nonsense that is longer than its field/s")
	v.until(`document.querySelector('#gcra [data-role="said"] .problem')`)
	check("with large limits")
}

func TestNothingJumps(t *testing.T) {
	for _, s := range []screen{desktop, phone, {800, 1000, "light", "no-preference"}} {
		v := open(t, s)
		// What is in a log, or a mark, makes room for what comes in beside it, and is meant to.
		v.do(chromedp.Evaluate[chromedp.Void](`
			window.shifts = [];
			const logged = (source) => !source.node || (source.node.closest ? source.node : source.node.parentElement)?.closest(".log ol, .strip");
			new PerformanceObserver((list) => window.shifts.push(...list.getEntries()
				.filter((entry) => !entry.sources.every(logged))
				.map((entry) => entry.value.toFixed(4) + " " + entry.sources.map((source) => source.node?.outerHTML?.slice(0, 80)).join())))
				.observe({type: "layout-shift"});`))
		v.click(`.compare [data-role="run"]`)
		v.until(`document.querySelector(".compare").dataset.running === "true"`)
		v.click(button(".lead", 1))
		v.click(button(".lead", 10))
		v.until(fmt.Sprintf(logged, "gcra", 11))
		v.configure("gcra", "0", "1/s")
		v.until(`document.querySelector('#gcra [data-role="said"] .problem')`)
		v.click(`.toolbar [data-role="reset"]`)
		v.until(fmt.Sprintf(logged, "gcra", 0))
		if shifts := ask[[]string](v, `window.shifts`); len(shifts) > 0 {
			t.Errorf("the layout of %d pixels shifts: %v", s.width, shifts)
		}
	}
}

// faint lists texts whose contrast is less than 4.5 to 1 (WCAG 2, level AA).
const faint = `(() => {
	const numbers = (color) => color.match(/[\d.]+/g).map(Number);
	const luminance = (color) => {
		const [r, g, b] = numbers(color).slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (numbers(color)[3] !== 0) return color;
		}
		return "rgb(255, 255, 255)";
	};
	const found = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("[disabled], [hidden], .sr, .skip, noscript, defs") || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
		const style = getComputedStyle(e);
		const [a, b] = [luminance(e.closest("svg") ? style.fill : style.color), luminance(behind(e.parentElement && style.backgroundColor === "rgba(0, 0, 0, 0)" ? e.parentElement : e))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) found.add(e.tagName + "." + (e.className.baseVal ?? e.className) + " " + e.textContent.trim().slice(0, 30) + " " + ratio.toFixed(2));
	}
	return [...found];
})()`

func TestTextIsLegibleInTheLightAndInTheDark(t *testing.T) {
	t.Parallel() // most of it is waiting
	backgrounds := make(map[string]bool)
	for _, scheme := range []string{"light", "dark"} {
		v := open(t, screen{1280, 900, scheme, "reduce"})
		v.click(button(".lead", 10))
		v.until(fmt.Sprintf(logged, "gcra", 10))
		if texts := ask[[]string](v, faint); len(texts) > 0 {
			t.Errorf("%s: %v", scheme, texts)
		}
		backgrounds[ask[string](v, `getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(backgrounds) != 2 {
		t.Errorf("light and dark have the same background: %v", backgrounds)
	}
}

func TestReducedMotionMovesInSteps(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, screen{1280, 900, "light", "reduce"})
	v.do(chromedp.Evaluate[chromedp.Void](`
		window.steps = [];
		new MutationObserver(() => window.steps.push(performance.now())).observe(document.querySelector("#leaky .water"), {attributes: true, attributeFilter: ["height"]});`))
	v.click(button("#leaky", 10))
	v.until(fmt.Sprintf(logged, "leaky", 10))
	if n := ask[int](v, `document.getAnimations().length`); n != 0 {
		t.Errorf("%d animations run", n)
	}
	v.do(chromedp.Evaluate[chromedp.Void](`window.steps.length = 0`)) // what has been answered is shown at once
	v.until(`window.steps.length === 4`)
	if gaps := ask[[]float64](v, `window.steps.slice(1).map((at, i) => at - window.steps[i])`); gaps[0] < 400 || gaps[1] < 400 || gaps[2] < 400 {
		t.Errorf("steps follow each other after %v ms", gaps)
	}
}

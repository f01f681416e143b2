package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

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

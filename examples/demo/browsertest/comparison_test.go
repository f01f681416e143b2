package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

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

package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var quotas = []string{"calendar", "places", "headroom", "credits", "share", "debt", "ban"}

// sending returns the selector of a quota's first button, or of its other one.
func sending(quota string, other bool) string {
	if other {
		return fmt.Sprintf(`#%s [data-role="send"]:last-child`, quota)
	}
	return fmt.Sprintf(`#%s [data-role="send"]:first-child`, quota)
}

const (
	// says waits for what stands in a part of a card.
	says = `document.querySelector('%s').textContent === %q`
	// marked waits for so many marks of a kind.
	marked = `document.querySelectorAll('#%s .strip .mark%s').length === %d`
)

func TestQuotasShowWhatIsLeftAndWhoWasCharged(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	v.click(`input[value="gin"] + span`)
	v.click(`#credits [data-role="send"]:nth-child(2)`)
	v.until(fmt.Sprintf(says, `#credits .row:last-child [data-role="count"]`, "10 left"))
	for _, quota := range quotas[:4] {
		v.click(sending(quota, true))
	}
	v.until(fmt.Sprintf(says, part("calendar", "count"), "10 of 20 left"))
	if when := v.text(part("calendar", "when")); !strings.HasPrefix(when, "a new window in ") {
		t.Errorf("the day ends: %s", when)
	}
	v.until(fmt.Sprintf(says, part("places", "count"), "3 of 3 taken"))
	v.until(fmt.Sprintf(marked, "places", ".refused", 2))
	v.until(`document.querySelectorAll("#headroom .strip .admitted").length >= 6 && document.querySelectorAll("#headroom .strip .refused").length >= 2`)
	if verdict := v.text(part("headroom", "verdict")); verdict != "batch stops" {
		t.Errorf("behind a batch: %s", verdict)
	}
	v.click(sending("headroom", false))
	v.until(`document.querySelector("#headroom .strip .mark:last-child").classList.contains("admitted") && document.querySelectorAll("#headroom .strip .mark").length === 11`)
	v.until(fmt.Sprintf(marked, "credits", ".admitted", 10))
	if n := ask[int](v, `document.querySelectorAll("#credits .strip .other").length`); n < 4 || n > 5 {
		t.Errorf("%d of 10 were charged to credits behind a plan of 5", n)
	}
	if answer := v.text(part("credits", "headers")); !strings.Contains(answer, `RateLimit: "credits"`) || !strings.Contains(answer, "middleware for gin") {
		t.Errorf("the answer does not say what was charged: %s", answer)
	}
	v.until(fmt.Sprintf(says, part("places", "count"), "0 of 3 taken")) // three seconds later
}

func TestABanIsShownUntilItEnds(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	for i := range 3 {
		v.click(sending("ban", true))
		v.until(fmt.Sprintf(marked, "ban", ".failed", i+1))
	}
	v.until(fmt.Sprintf(says, part("ban", "count"), "3 of 3 strikes"))
	v.until(fmt.Sprintf(says, `.summary tr[data-quota="ban"] [data-role="verdict"]`, "refuses"))
	if when := v.text(part("ban", "when")); !strings.HasPrefix(when, "banned for ") {
		t.Errorf("the card says: %s", when)
	}
	v.click(sending("ban", false))
	v.until(fmt.Sprintf(marked, "ban", ".refused", 1))
	if answer := v.text(part("ban", "headers")); !strings.HasPrefix(answer, "HTTP/1.1 403 Forbidden") || !strings.Contains(answer, "abnormal-usage-detected") {
		t.Errorf("the answer to a right password: %s", answer)
	}
	v.until(fmt.Sprintf(says, part("ban", "when"), "not banned"))
	v.click(sending("ban", false))
	v.until(fmt.Sprintf(marked, "ban", ".admitted", 1))
}

func TestADearAnswerShowsWhatItOwes(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	v.click(sending("debt", true))
	v.until(fmt.Sprintf(says, part("debt", "count"), "0 of 10 left"))
	if when := v.text(part("debt", "when")); !strings.HasPrefix(when, "a token in ") {
		t.Errorf("the card says: %s", when)
	}
	v.click(sending("debt", false))
	v.until(fmt.Sprintf(marked, "debt", ".refused", 1))
	if answer := v.text(part("debt", "headers")); !strings.Contains(answer, "Retry-After: ") {
		t.Errorf("the answer does not say when it is paid: %s", answer)
	}
}

func TestTeamsShareABucket(t *testing.T) {
	t.Parallel() // most of it is waiting
	v := open(t, desktop)
	v.click(`#share [data-role="send"]:nth-child(2)`)
	v.until(`document.querySelectorAll("#share .strip .mark").length === 10`)
	v.click(sending("share", true))
	v.until(`document.querySelectorAll("#share .strip .mark").length === 20`)
	if first, all := ask[int](v, `[...document.querySelectorAll("#share .strip .mark")].slice(0, 10).filter((mark) => mark.classList.contains("admitted")).length`),
		ask[int](v, `document.querySelectorAll("#share .strip .admitted").length`); first < 6 || first > 9 || all < first+3 {
		t.Errorf("the first team got %d, and both got %d", first, all)
	}
}

func TestResetMakesQuotasNew(t *testing.T) {
	v := open(t, phone)
	for _, quota := range quotas {
		v.click(sending(quota, true))
		v.until(fmt.Sprintf(`document.querySelector('#%s .strip .mark')`, quota))
	}
	v.click(`.toolbar [data-role="reset"]`)
	for _, quota := range quotas {
		v.until(fmt.Sprintf(marked, quota, "", 0))
	}
	v.until(fmt.Sprintf(says, part("calendar", "count"), "20 of 20 left"))
	v.until(fmt.Sprintf(says, part("places", "count"), "0 of 3 taken"))
}

// What quotas show after requests stays within its card, can be read, and pushes nothing away.
func TestQuotasKeepTheirPlace(t *testing.T) {
	for _, s := range []screen{desktop, {390, 844, "dark", "reduce"}} {
		v := open(t, s)
		for _, quota := range quotas {
			v.click(sending(quota, true))
			v.until(fmt.Sprintf(`document.querySelector('#%s .strip .mark')`, quota))
		}
		if texts := ask[[]string](v, faint); len(texts) > 0 {
			t.Errorf("%s: %v", s.scheme, texts)
		}
		for _, width := range []int64{320, 390, 768, 1024, 1280, 1920} {
			v.do(chromedp.EmulateViewport(width, 900))
			if out := ask[[]string](v, wide); len(out) > 0 {
				t.Errorf("%d pixels wide: %v", width, out)
			}
		}
	}
}

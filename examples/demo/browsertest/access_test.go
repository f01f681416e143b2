package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

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
	for _, name := range quotas {
		wanted = append(wanted, name+" send 1", name+" headers")
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

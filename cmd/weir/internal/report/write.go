package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html.tmpl
var pageText string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":     func() template.CSS { return template.CSS(pageStyle) }, //nolint:gosec // our own
	"percent":   percent,
	"count":     func(n any) string { return count(fmt.Sprint(n)) },
	"duration":  duration,
	"moment":    func(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") },
	"title":     func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"join":      strings.Join,
	"keyChart":  keyChart,
	"denyChart": denyChart,
	"needChart": needChart,
	"dayChart":  dayChart,
	"hourChart": hourChart,
	"number":    func(f float64) string { return count(strconv.FormatFloat(f, 'f', 0, 64)) },
	"errors":    func(s Subject) string { return percent(share(s.Statuses[4], s.Requests)) },
	"deref":     func(n *uint64) uint64 { return *n },
	"span":      func(l Log) string { return duration(l.Last.Sub(l.First)) },
	"agents":    agents,
	"plural":    plural,
}).Parse(pageText))

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	if err := page.Execute(w, r); err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	return nil
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	return nil
}

// WriteText writes the proposals in a few lines, for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s (%s) in %s\n", plural(int(r.Log.Requests), "request"), plural(int(r.Keys.Distinct), "key"),
		r.Log.Key, duration(r.Log.Last.Sub(r.Log.First)))
	for _, p := range r.Proposals {
		fmt.Fprintf(&b, "%-28s denies %s, %d of them without signs of abuse, and %s of the requests\n",
			p.Limit, plural(p.Keys, "key"), p.Normal, percent(p.DeniedShare))
	}
	for _, note := range []string{r.Log.Hidden, r.Log.Outlier} {
		if note != "" {
			b.WriteString(note + "\n")
		}
	}
	if len(r.Proposals) == 0 {
		b.WriteString("no proposal: no key is without signs of abuse, or some need more than any limit here gives\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	return nil
}

// percent writes a share with as many digits as it needs.
func percent(f float64) string {
	switch p := 100 * f; {
	case p == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 1:
		return strconv.FormatFloat(p, 'f', 2, 64) + " %"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	case p < 100 && p > 99:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
}

// count puts commas between thousands.
func count(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(strconv.Itoa(n)) + " " + noun + "s"
}

// duration writes a time in the two largest units that it has.
func duration(d time.Duration) string {
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units)-1 {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// agents names a key's user agents.
func agents(s Subject) string {
	names := make([]string, 0, len(s.Agents))
	for _, a := range s.Agents {
		if a == "" {
			a = "(none)"
		}
		if runes := []rune(a); len(runes) > 60 {
			a = string(runes[:59]) + "…"
		}
		names = append(names, a)
	}
	text := strings.Join(names[:min(len(names), 2)], ", ")
	switch more := len(names) - 2; {
	case s.MoreAgents:
		text += fmt.Sprintf(" and more than %d others", more)
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

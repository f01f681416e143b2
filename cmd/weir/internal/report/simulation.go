package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
)

//go:embed simulation.html.tmpl
var simulationText string

var simulationPage = template.Must(template.New("simulation").Funcs(template.FuncMap{
	"style":    func() template.CSS { return template.CSS(pageStyle) }, //nolint:gosec // our own
	"percent":  func(part, whole uint64) string { return percent(share(part, whole)) },
	"count":    func(n any) string { return count(fmt.Sprint(n)) },
	"moment":   func(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") },
	"duration": duration,
	"chart":    seriesChart,
}).Parse(simulationText))

// Simulation is the page about the requests of a log that policies would have denied.
type Simulation struct {
	// Policies is the name of the file of policies.
	Policies string
	Result   *simulate.Result
}

// WriteHTML writes the simulation as one page that needs nothing else.
func (s *Simulation) WriteHTML(w io.Writer) error {
	if err := simulationPage.Execute(w, s); err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	return nil
}

// seriesChart shows requests over time: denied ones stand on admitted ones.
func seriesChart(of simulate.Series) template.HTML {
	const height, left, bottom, top, inner = 150, 60, 26, 12, 720
	const width = left + inner + 8
	var most uint64 = 1
	for _, p := range of.Points {
		most = max(most, p.Admitted+p.Denied)
	}
	n := max(1, len(of.Points))
	bar := float64(inner) / float64(n)
	var s svg
	s.addf(`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Requests admitted and denied over time">`, width, height, width, height)
	s.addf(`<text x="%d" y="%d" class="tick" text-anchor="end">%s</text><text x="%d" y="%d" class="tick" text-anchor="end">0</text>`,
		left-6, top+4, count(strconv.FormatUint(most, 10)), left-6, height-bottom)
	s.addf(`<line x1="%d" x2="%d" y1="%d" y2="%d" class="grid"/>`, left, width, height-bottom, height-bottom)
	tall := func(n uint64) float64 { return float64(n) / float64(most) * (height - bottom - top) }
	for i, p := range of.Points {
		if p == (simulate.Point{}) {
			continue
		}
		x, base := left+float64(i)*bar, float64(height-bottom)
		at := of.From.Add(time.Duration(i) * of.Width)
		s.addf(`<g><title>%s: %s admitted, %s denied</title>`,
			at.Format("2006-01-02 15:04:05"), count(strconv.FormatUint(p.Admitted, 10)), count(strconv.FormatUint(p.Denied, 10)))
		s.addf(`<rect x="%.1f" y="%.1f" width="%.2f" height="%.1f" class="bar p1"/>`, x, base-tall(p.Admitted), bar, tall(p.Admitted))
		s.addf(`<rect x="%.1f" y="%.1f" width="%.2f" height="%.1f" class="h5"/></g>`, x, base-tall(p.Admitted+p.Denied), bar, tall(p.Denied))
	}
	for i := range 5 {
		at := of.From.Add(time.Duration(float64(i) / 4 * float64(n) * float64(of.Width)))
		anchor := [...]string{"start", "middle", "middle", "middle", "end"}[i]
		s.addf(`<text x="%d" y="%d" class="tick" text-anchor="%s">%s</text>`, left+i*inner/4, height-8, anchor, at.Format("01-02 15:04"))
	}
	s.addf(`</svg>`)
	return s.html()
}

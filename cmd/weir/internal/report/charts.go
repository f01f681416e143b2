package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// svg collects a picture.
type svg struct{ strings.Builder }

func (s *svg) addf(format string, args ...any) { _, _ = fmt.Fprintf(s, format, args...) }

func (s *svg) html() template.HTML { return template.HTML(s.String()) } //nolint:gosec // numbers, and our own words

// The size of a cell of the heat maps.
const (
	cellWidth  = 28
	cellHeight = 15
	leftMargin = 58
	topMargin  = 34
)

// keyChart shows which share of the keys that do not look like abuse each limit denies.
func keyChart(r *Report) template.HTML {
	return heatMap(r, "Share of keys ever denied", func(c Cell) (float64, bool, string) {
		s := share(uint64(c.Normal), uint64(r.Keys.Normal))
		return s, true, fmt.Sprintf("%s denied, %d of them without signs of abuse", plural(c.Keys, "key"), c.Normal)
	})
}

// denyChart shows which share of the requests each limit denies.
func denyChart(r *Report) template.HTML {
	return heatMap(r, "Share of requests denied", func(c Cell) (float64, bool, string) {
		if c.Denied == nil {
			return 0, false, "not counted: it denies " + plural(c.Keys, "key")
		}
		s := share(*c.Denied, uint64(r.Log.Requests))
		return s, true, percent(s) + " of the requests denied"
	})
}

// shade is the class of a share's colour: from h0 for none to h6.
func shade(s float64) string {
	for i, most := range []float64{0, 0.0001, 0.001, 0.01, 0.05, 0.2} {
		if s <= most {
			return fmt.Sprintf("h%d", i)
		}
	}
	return "h6"
}

func heatMap(r *Report, name string, of func(Cell) (share float64, known bool, text string)) template.HTML {
	// Bursts that are more than any key needs at any fast rate would be empty columns.
	columns := len(demand.Bursts)
	for columns > 8 && r.emptyFrom(demand.Bursts[columns-2]) {
		columns--
	}
	var s svg
	width, height := leftMargin+columns*cellWidth+8, topMargin+demand.RateCount*cellHeight+8
	s.addf(`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s, by rate and burst">`, width, height, width, height, name)
	s.addf(`<text x="%d" y="12" class="axis">burst →</text><text x="4" y="28" class="axis">rate ↓</text>`, leftMargin)
	for i, b := range demand.Bursts[:columns] {
		s.addf(`<text x="%d" y="28" class="tick" text-anchor="middle">%s</text>`, leftMargin+i*cellWidth+cellWidth/2, short(b))
	}
	for _, c := range r.Frontier {
		column := indexOf(c.Burst)
		if column >= columns {
			continue
		}
		x, y := leftMargin+column*cellWidth, topMargin+c.cell.Rate*cellHeight
		if column == 0 {
			s.addf(`<text x="%d" y="%d" class="tick" text-anchor="end">%s</text>`, leftMargin-6, y+11, c.Rate)
		}
		value, known, text := of(c)
		class := shade(value)
		if !known {
			class = "unknown"
		}
		s.addf(`<rect x="%d" y="%d" width="%d" height="%d" class="%s"><title>%s at once, then %s: %s</title></rect>`,
			x, y, cellWidth-1, cellHeight-1, class, short(c.Burst), c.Rate, text)
	}
	// The tighter proposals are drawn first, so that the letter of the loosest is on top where they coincide.
	for i, p := range slices.Backward(r.Proposals) {
		column := indexOf(p.Burst)
		if column >= columns {
			continue
		}
		x, y := leftMargin+column*cellWidth, topMargin+p.cell.Rate*cellHeight
		s.addf(`<rect x="%d" y="%d" width="%d" height="%d" class="pick p%d"/><text x="%d" y="%d" class="letter" text-anchor="middle">%s</text>`,
			x-1, y-1, cellWidth+1, cellHeight+1, i, x+cellWidth/2, y+11, letters(r.Proposals, p.cell))
	}
	s.addf(`</svg>`)
	return s.html()
}

// letters are the initials of the proposals that are this limit.
func letters(all []Proposal, c demand.Cell) string {
	var b strings.Builder
	for _, p := range all {
		if p.cell == c {
			b.WriteString(strings.ToUpper(p.Name[:1]))
		}
	}
	return b.String()
}

func indexOf(burst int) int {
	for i, b := range demand.Bursts {
		if b == burst {
			return i
		}
	}
	return len(demand.Bursts)
}

// emptyFrom reports whether no limit with at least that burst denies more than one key in a hundred.
func (r *Report) emptyFrom(burst int) bool {
	for _, p := range r.Proposals {
		if p.Burst >= burst {
			return false
		}
	}
	for _, c := range r.Frontier {
		if c.Burst >= burst && c.Keys*100 > r.Keys.Normal+r.Keys.Suspects {
			return false
		}
	}
	return true
}

func short(n int) string {
	switch {
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%dk", n/1000)
	case n >= 1000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return strconv.Itoa(n)
}

// needChart shows the burst that keys need at each rate.
func needChart(r *Report) template.HTML {
	const width, height, left, bottom, top = 640, 300, 52, 40, 12
	most := 10
	for _, b := range r.Bursts {
		most = max(most, b.MaxAll)
	}
	decades := math.Ceil(math.Log10(float64(most)))
	x := func(rate int) float64 { // from the slowest to the fastest
		return left + float64(demand.RateCount-1-rate)*(width-left-90)/(demand.RateCount-1)
	}
	y := func(n int) float64 {
		return height - bottom - math.Log10(float64(max(n, 1)))/decades*(height-bottom-top)
	}
	var s svg
	s.addf(`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Needed burst by rate">`, width, height, width, height)
	for d := range int(decades) + 1 {
		n := int(math.Pow10(d))
		s.addf(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="grid"/><text x="%d" y="%.1f" class="tick" text-anchor="end">%s</text>`,
			left, width-90, y(n), y(n), left-6, y(n)+4, short(n))
	}
	for rate := demand.RateCount - 1; rate >= 0; rate -= 4 {
		s.addf(`<text x="%.1f" y="%d" class="tick" text-anchor="middle">%s</text>`, x(rate), height-bottom+16, demand.Rates[rate])
	}
	s.addf(`<text x="%d" y="%d" class="axis" text-anchor="middle">rate</text>`, (left+width-90)/2, height-6)
	for _, line := range []struct {
		name, class string
		of          func(Bursts) int
	}{
		{"all keys", "all", func(b Bursts) int { return b.MaxAll }},
		{"most", "max", func(b Bursts) int { return b.Max }},
		{"99.9 %", "p999", func(b Bursts) int { return b.P999 }},
		{"99 %", "p99", func(b Bursts) int { return b.P99 }},
		{"half", "p50", func(b Bursts) int { return b.P50 }},
	} {
		s.addf(`<polyline class="line %s" points="`, line.class)
		for rate, b := range r.Bursts {
			s.addf(`%.1f,%.1f `, x(rate), y(line.of(b)))
		}
		s.addf(`"/>`)
	}
	s.addf(`</svg>`)
	return s.html()
}

// dayChart shows the share of the requests that the proposals deny on each day.
func dayChart(r *Report) template.HTML {
	const height, left, bottom, top = 180, 60, 26, 14
	slot := max(14, min(60, 600/max(1, len(r.Days))))
	width := left + slot*len(r.Days) + 8
	most := 0.0
	for _, d := range r.Days {
		for _, n := range d.Denied {
			most = max(most, share(n, d.Requests))
		}
	}
	var s svg
	s.addf(`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Share of requests denied on each day">`, width, height, width, height)
	s.addf(`<text x="%d" y="%d" class="tick" text-anchor="end">%s</text><text x="%d" y="%d" class="tick" text-anchor="end">0</text>`,
		left-6, top+4, percent(most), left-6, height-bottom)
	s.addf(`<line x1="%d" x2="%d" y1="%d" y2="%d" class="grid"/>`, left, width, height-bottom, height-bottom)
	for i, d := range r.Days {
		x := float64(left + i*slot)
		bar := float64(slot-4) / float64(max(1, len(d.Denied)))
		for p, n := range d.Denied {
			h := 0.0
			if most > 0 {
				h = share(n, d.Requests) / most * (height - bottom - top)
			}
			s.addf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="bar p%d"><title>%s, %s: %s of %s requests, %s</title></rect>`,
				x+float64(p)*bar, float64(height-bottom)-h, bar, h, p, d.Day, r.Proposals[p].Name, percent(share(n, d.Requests)),
				count(strconv.FormatUint(d.Requests, 10)), plural(d.Keys[p], "key"))
		}
		if slot >= 40 || i%5 == 0 {
			s.addf(`<text x="%.1f" y="%d" class="tick" text-anchor="middle">%s</text>`, x+float64(slot-4)/2, height-8, d.Day[5:])
		}
	}
	s.addf(`</svg>`)
	return s.html()
}

// hourChart shows a key's requests over the hours of the day.
func hourChart(hours [24]uint64) template.HTML {
	var most uint64 = 1
	for _, n := range hours {
		most = max(most, n)
	}
	var s svg
	s.addf(`<svg viewBox="0 0 96 22" width="96" height="22" role="img" aria-label="Requests by the hour of the day">`)
	for h, n := range hours {
		tall := float64(n) / float64(most) * 20
		s.addf(`<rect x="%d" y="%.1f" width="3" height="%.1f" class="hour"><title>%d:00: %d</title></rect>`, h*4, 21-tall, tall+0.5, h, n)
	}
	s.addf(`</svg>`)
	return s.html()
}

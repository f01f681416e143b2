package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The measures of a plot.
const (
	plotWidth  = 22 * vg.Centimeter
	barHeight  = 0.45 * vg.Centimeter
	plotMargin = 2.6 * vg.Centimeter // the title, the axis and its label
)

var (
	ownColor   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	otherColor = color.RGBA{R: 0xb0, G: 0xb7, B: 0xbf, A: 0xff}
)

// bar is one contender in a plot: a median, and how far the rounds went.
type bar struct {
	label string
	own   bool
	spread
}

// draw writes the comparison's plot as SVG: a bar for each contender and figure,
// relative to the baseline, with a line from the lowest round to the highest.
func (c comparison) draw(w io.Writer) error {
	bars := c.bars()
	p := plot.New()
	p.Title.Text = c.title
	p.X.Label.Text = "× " + c.plots[0].baseline
	p.X.Min = 0
	p.X.Tick.Marker = plot.DefaultTicks{}
	labels := make([]string, len(bars))
	var ranges intervals
	for i, b := range bars {
		labels[i] = b.label
		shape, err := plotter.NewBarChart(plotter.Values{b.median}, barHeight*0.75)
		if err != nil {
			return fmt.Errorf("bench: plotting %s: %w", c.slug, err)
		}
		shape.Horizontal, shape.XMin, shape.LineStyle.Width, shape.Color = true, float64(i), 0, otherColor
		if b.own {
			shape.Color = ownColor
		}
		p.Add(shape)
		ranges.XYs = append(ranges.XYs, plotter.XY{X: b.median, Y: float64(i)})
		ranges.XErrors = append(ranges.XErrors, struct{ Low, High float64 }{b.median - b.lowest, b.highest - b.median})
	}
	whiskers, err := plotter.NewXErrorBars(ranges)
	if err != nil {
		return fmt.Errorf("bench: plotting %s: %w", c.slug, err)
	}
	p.Add(whiskers)
	p.NominalY(labels...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(bars))-0.4

	canvas := vgsvg.New(plotWidth, barHeight*vg.Length(len(bars))+plotMargin)
	p.Draw(draw.New(canvas))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("bench: plotting %s: %w", c.slug, err)
	}
	return nil
}

// intervals are the rounds' extremes around the medians.
type intervals struct {
	plotter.XYs
	plotter.XErrors
}

// bars returns the comparison's bars from the bottom of the plot to its top, which
// is the order of the table from its end.
func (c comparison) bars() []bar {
	var bars []bar
	for _, p := range c.plots {
		for _, e := range c.entries {
			s := ratio(p.of, e.samples, samplesOf(c.entries, p.baseline))
			if math.IsNaN(s.median) || math.IsInf(s.median, 0) {
				continue
			}
			label := e.name
			if len(c.plots) > 1 {
				label += ", " + p.label
			}
			bars = append(bars, bar{label, e.own, s})
		}
	}
	slices.Reverse(bars)
	return bars
}

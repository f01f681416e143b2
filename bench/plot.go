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

	"github.com/weir-go/ratelimit/bench/internal/picture"
)

// The measures of a plot.
const (
	plotWidth  = 22 * vg.Centimeter
	barHeight  = 0.45 * vg.Centimeter
	plotMargin = 2.8 * vg.Centimeter // the title, the axis and its label
	plotEdge   = 0.6 * vg.Centimeter
)

var (
	ownColor   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	otherColor = color.RGBA{R: 0xb0, G: 0xb7, B: 0xbf, A: 0xff}
)

// plotted is a figure that is drawn relative to a baseline.
type plotted struct {
	name     string // of the file
	label    string
	of       metric
	baseline string
}

// bar is one contender in a plot: a median, and how far the rounds went.
type bar struct {
	spread

	label string
	own   bool
}

// draw writes a plot of the comparison as SVG: a bar for each contender, relative to
// the baseline, with a line from the lowest round to the highest.
func (c comparison) draw(figure plotted, w io.Writer) error {
	bars := c.bars(figure)
	p := plot.New()
	p.Title.Text = c.title
	p.X.Label.Text = figure.label + " × " + figure.baseline
	p.X.Min = 0
	labels := make([]string, len(bars))
	var ranges intervals
	for i, b := range bars {
		labels[i] = b.label
		shape, err := plotter.NewBarChart(plotter.Values{b.median}, barHeight*0.75)
		if err != nil {
			return fmt.Errorf("bench: plotting %s: %w", figure.name, err)
		}
		shape.Horizontal, shape.XMin, shape.LineStyle.Width, shape.Color = true, float64(i), 0, otherColor
		if b.own {
			shape.Color = ownColor
		}
		p.Add(shape)
		ranges.XYs = append(ranges.XYs, plotter.XY{X: b.median, Y: float64(i)})
		ranges.XErrors = append(ranges.XErrors, struct{ Low, High float64 }{b.median - b.low, b.high - b.median})
	}
	whiskers, err := plotter.NewXErrorBars(ranges)
	if err != nil {
		return fmt.Errorf("bench: plotting %s: %w", figure.name, err)
	}
	p.Add(whiskers)
	p.NominalY(labels...)
	p.Y.Padding = plotEdge // for viewers with wider letters
	p.Y.Min, p.Y.Max = -0.6, float64(len(bars))-0.4
	if err := picture.Write(w, p, plotWidth, barHeight*vg.Length(len(bars))+plotMargin); err != nil {
		return fmt.Errorf("bench: plotting %s: %w", figure.name, err)
	}
	return nil
}

// intervals are the rounds' extremes around the medians.
type intervals struct {
	plotter.XYs
	plotter.XErrors
}

// bars returns the bars of a plot from its bottom to its top, which is the order of
// the table from its end.
func (c comparison) bars(figure plotted) []bar {
	var bars []bar
	for _, e := range c.entries {
		if e.idle {
			continue
		}
		s := ratio(figure.of, e.samples, samplesOf(c.entries, figure.baseline))
		if !math.IsNaN(s.median) && !math.IsInf(s.median, 0) && s.steady(0) {
			bars = append(bars, bar{s, e.name, e.own})
		}
	}
	slices.Reverse(bars)
	return bars
}

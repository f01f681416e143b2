// Package picture writes plots as SVG, for pages that are shown with the fonts of any machine.
package picture

import (
	"bytes"
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// edge is the space around a plot.
const edge = 0.3 * vg.Centimeter

// Write writes a plot of a size as SVG, in a sans-serif font.
func Write(w io.Writer, p *plot.Plot, width, height vg.Length) error {
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), edge, -edge, edge, -edge))
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return fmt.Errorf("picture: drawing %q: %w", p.Title.Text, err)
	}
	// Where that font is not installed, these have the same widths.
	text := bytes.ReplaceAll(drawn.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("picture: writing %q: %w", p.Title.Text, err)
	}
	return nil
}

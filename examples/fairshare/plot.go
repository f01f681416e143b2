package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// plot simulates four tenants that share 100 units a second for a minute, and draws the units that each gets in a second.
func plot(shared bool) (svg string, err error) {
	const end = time.Minute
	tenants := []*tenant{
		{name: "600/s, all the time", perSecond: 600, weight: 1, to: end},
		{name: "300/s, from 10 s on", perSecond: 300, weight: 1, from: 10 * time.Second, to: end},
		{name: "15/s, from 20 s on", perSecond: 15, weight: 1, from: 20 * time.Second, to: end},
		{name: "300/s with a weight of 2, from 30 s to 50 s", perSecond: 300, weight: 2, from: 30 * time.Second, to: 50 * time.Second},
	}
	for _, t := range tenants {
		t.series = make([]int, 2*end/time.Second)
	}
	if err := newWorld(core.TokenBucket(200, core.PerSecond(100)), shared, len(tenants)).run(tenants, end, 0); err != nil {
		return "", err
	}
	return draw(tenants), nil
}

// draw draws the series of tenants, from 0 to 110 units a second, as a line each.
func draw(tenants []*tenant) string {
	const width, height, left, right, top, high = 720, 300, 44, 18, 14, 110
	x := func(second float64) float64 { return left + second*(width-left-right)/60 }
	y := func(units float64) float64 { return top + (high-units)*(height-top-26)/high }
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		width, height+20*len(tenants))
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n")
	for units := 0; units <= 100; units += 25 {
		fmt.Fprintf(&b, "<path d=\"M%d %.1fH%d\" stroke=\"#d8dee4\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#57606a\">%d/s</text>\n",
			left, y(float64(units)), width-right, left-6, y(float64(units))+4, units)
	}
	for second := 0; second <= 60; second += 10 {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#57606a\">%d s</text>\n", x(float64(second)), height-8, second)
	}
	for i, t := range tenants {
		color := [...]string{"#0969da", "#cf222e", "#1a7f37", "#8250df"}[i%4]
		var path strings.Builder
		for slot := 0; slot+1 < len(t.series); slot += 2 { // by the second
			command := "L"
			if slot == 0 {
				command = "M"
			}
			units := min(high, t.series[slot]+t.series[slot+1])
			fmt.Fprintf(&path, "%s%.1f %.1f", command, x(float64(slot)/2+0.5), y(float64(units)))
		}
		fmt.Fprintf(&b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path.String(), color)
		fmt.Fprintf(&b, "<path d=\"M%d %dh20\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\" fill=\"#24292f\">%s</text>\n",
			left, height+20*i+8, color, left+28, height+20*i+12, t.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

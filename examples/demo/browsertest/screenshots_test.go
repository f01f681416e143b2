package browsertest

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "directory to write the pictures of the documentation to; none if empty")

// TestScreenshots takes the pictures of the documentation, small enough to be kept.
// They are for people to look at, and compared with nothing.
func TestScreenshots(t *testing.T) {
	const largest = 150 << 10
	for _, shot := range []struct {
		name   string
		screen screen
		top    string // what to scroll to
		clicks string // what to click on besides, or ""
	}{
		{"demo", screen{1240, 1330, "light", "no-preference"}, "body", ""},
		{"demo-cards", screen{1240, 860, "dark", "no-preference"}, "#leaky", ""},
		{"demo-phone", screen{390, 844, "light", "no-preference"}, "#token-bucket", ""},
		{"demo-quotas", screen{1240, 1790, "light", "no-preference"}, "#quotas", `[data-quota] [data-role="send"]:last-child, #credits [data-way="buying"]`},
	} {
		v := open(t, shot.screen)
		v.click(`.compare [data-role="run"]`)
		v.until(`document.querySelector(".compare").dataset.running === "true"`)
		if *screenshots != "" {
			v.until(`document.querySelector(".compare").dataset.running === "false"`)
		}
		v.click(button(".lead", 1))
		v.until(fmt.Sprintf(logged, "gcra", 1))
		v.click(button(".lead", 10))
		v.until(fmt.Sprintf(logged, "gcra", 11))
		if shot.clicks != "" {
			v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelectorAll(%q).forEach((button) => button.click())`, shot.clicks)))
			v.until(`document.querySelectorAll('[data-quota] .strip .mark:first-child').length === 7`)
		}
		if *screenshots != "" { // a little later there is more to see
			v.until(`parseFloat(document.querySelector('#leaky [data-role="fresh"]').textContent.slice(3)) < 3.7`)
		}
		v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.activeElement.blur(); document.querySelector(%q).scrollIntoView()`, shot.top)))
		taken, err := chromedp.Call(v.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(bytes.NewReader(taken.Data))
		if err != nil {
			t.Fatal(err)
		}
		if size := picture.Bounds().Size(); int64(size.X) != shot.screen.width || int64(size.Y) != shot.screen.height {
			t.Errorf("%s is %v", shot.name, size)
		}
		if *screenshots == "" {
			return // one shows that it can be done
		}
		encoded := small(t, picture)
		if len(encoded) > largest {
			t.Errorf("%s has %d bytes", shot.name, len(encoded))
		}
		if err := os.WriteFile(filepath.Join(*screenshots, shot.name+".png"), encoded, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// small returns a picture in few bytes: with 256 colors, which are those that it has most of, and
// the first that look like none of them.
func small(t *testing.T, picture image.Image) []byte {
	t.Helper()
	bounds := picture.Bounds()
	counts := make(map[color.Color]int)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[picture.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	const frequent, most, alike = 200, 256, 1 << 26
	palette := color.Palette(slices.Clone(colors[:min(frequent, len(colors))]))
	for _, c := range colors[len(palette):] {
		if len(palette) < most && distance(c, palette.Convert(c)) > alike {
			palette = append(palette, c)
		}
	}
	few := image.NewPaletted(bounds, palette)
	draw.Draw(few, bounds, picture, bounds.Min, draw.Src)
	var encoded bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&encoded, few); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

// distance returns the square of how far apart two colors are.
func distance(a, b color.Color) (sum int64) {
	r, g, l, _ := a.RGBA()
	x, y, z, _ := b.RGBA()
	for _, pair := range [...][2]uint32{{r, x}, {g, y}, {l, z}} {
		difference := int64(pair[0]) - int64(pair[1])
		sum += difference * difference
	}
	return sum
}

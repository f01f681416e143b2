package option_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core/internal/option"
)

type (
	cup   struct{ full bool }
	plate struct{ full bool }
	spoon struct{}
)

var takers = []option.Taker{option.TakerOf[cup]("NewCup"), option.TakerOf[plate]("NewPlate"), option.TakerOf[spoon]("NewSpoon")}

// An option changes what it has a change for, and the zero Option changes nothing.
func TestOptionsChangeWhatTheySuit(t *testing.T) {
	full := option.New("WithFood", func(c *cup) { c.full = true }, func(p *plate) { p.full = true })
	var c cup
	var p plate
	option.Apply(&full, "NewCup", takers, &c)
	option.Apply(&full, "NewPlate", takers, &p)
	option.Apply(new(option.Option), "NewSpoon", takers, new(spoon))
	if !c.full || !p.full {
		t.Errorf("changed are %v and %v, want both", c, p)
	}
	if full.Name() != "WithFood" || !option.Suits[cup](&full) || option.Suits[spoon](&full) || option.Changes[spoon](&full) {
		t.Error("it does not suit what it changes alone")
	}
	if none := new(option.Option); !option.Suits[spoon](none) || option.Changes[spoon](none) {
		t.Error("the zero Option changes something, or does not suit it")
	}
}

// An option that does not suit panics, and names what it suits.
func TestOptionsThatDoNotSuitPanic(t *testing.T) {
	for want, o := range map[string]option.Option{
		"core: WithTea is no option of NewSpoon: it suits NewCup": option.New("WithTea", func(*cup) {}),
		"core: WithFood is no option of NewSpoon: it suits NewCup and NewPlate": option.New("WithFood", func(*plate) {},
			func(*cup) {}),
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %q", got, want)
				}
			}()
			option.Apply(&o, "NewSpoon", takers, new(spoon))
		}()
	}
}

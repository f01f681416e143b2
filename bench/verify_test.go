package main

import (
	"errors"
	"strings"
	"testing"
)

func TestAContenderHasToAdmitAndThenDeny(t *testing.T) {
	for name, c := range map[string]struct {
		admits int
		err    error
		want   string
	}{
		"exact":     {admits: 5},
		"a window":  {admits: 10},
		"too soon":  {admits: 4, want: "denied call 5 of a quota of 5"},
		"never":     {admits: 100, want: "admitted 11 of a quota of 5"},
		"no answer": {err: errors.New("gone"), want: "call 1: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := admitsThenDenies("it", func() (bool, error) {
				asked++
				return asked <= c.admits, c.err
			})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

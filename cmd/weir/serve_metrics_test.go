package main

import (
	"context"
	"io"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/serving"
)

// The flag for metrics goes before the variables, and adds no names of the reference.
func TestServeMetricsFlag(t *testing.T) {
	for _, c := range []struct {
		environ []string
		args    []string
		want    serving.Metrics
	}{
		{nil, nil, serving.Metrics{Path: "/metrics", NearRatio: 0.8}},
		{nil, []string{"-metrics", ":1"}, serving.Metrics{Address: ":1", Path: "/metrics", NearRatio: 0.8}},
		{
			[]string{"USE_PROMETHEUS=true", "DISABLE_STATS=true"},
			[]string{"-metrics", ":1"},
			serving.Metrics{Address: ":1", Path: "/metrics", Reference: true, NearRatio: 0.8},
		},
	} {
		var got serving.Settings
		command := serveCommand(io.Discard)
		command.Action = func(_ context.Context, parsed *cli.Command) (err error) {
			got, err = serveSettings(parsed, c.environ)
			return err
		}
		if err := command.Run(t.Context(), append([]string{"serve"}, c.args...)); err != nil || got.Metrics != c.want {
			t.Errorf("%v %v: %+v (%v), want %+v", c.environ, c.args, got.Metrics, err, c.want)
		}
	}
}

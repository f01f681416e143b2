package main

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/xds/xdstest"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// TestServeAsEnvoyGatewayStartsIt runs the program under the name and with the variables that Envoy Gateway gives to the container of the reference. It is
// healthy before there are limits, and serves them when they come. TLS is left out here.
func TestServeAsEnvoyGatewayStartsIt(t *testing.T) {
	plane, redis := xdstest.New(t), redistest.Start(t)
	plane.Start()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	web := servertest.FreePort(t)
	weir := &served{http: "127.0.0.1:" + web, command: exec.Command(program)}
	weir.command.Args = []string{"/bin/ratelimit"}
	weir.command.Stderr = t.Output()
	weir.command.Env = append(
		os.Environ(), asProgram+"=1", "PORT="+web, "GRPC_PORT=0", "DEBUG_PORT=0", "REDIS_TIMEOUT=1m",
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info",
		"USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "CONFIG_GRPC_XDS_NODE_ID="+xdstest.Node,
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr(),
	)
	if err := weir.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weir.kill)
	weir.await(t, http.StatusOK)
	plane.Set("1", xdstest.Limit("default/eg/http", "k", 2))
	const question = `{"domain": "default/eg/http", "descriptors": [{"entries": [{"key": "k"}]}]}`
	for deadline := time.Now().Add(envoyPatience); ; time.Sleep(10 * time.Millisecond) {
		response, err := http.Post("http://"+weir.http+"/json", "application/json", strings.NewReader(question))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the limits do not count: %d", response.StatusCode)
		}
	}
}

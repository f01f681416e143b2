// Package xds receives the limits of a control plane: it is a client of Envoy's aggregated discovery service, in the variant of it that sends the state
// of the world.
//
// The client accepts a response, or refuses it with the reason. It connects again whenever a connection has ended, and forgets nothing that it has
// received: the limits that were accepted last stay in use.
package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Type is the type of the resources.
const Type = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

const (
	// mostMessage is how many bytes a response may have.
	mostMessage = 64 << 20
	// mostReason is how many bytes of a reason are sent and logged.
	mostReason = 4 << 10
	// pingEvery is how often a server that sends nothing is asked whether it is there. Servers end connections that ask more often than each 5 minutes.
	pingEvery, pingFor = 6 * time.Minute, 20 * time.Second
	// mostRefusals is how long the refusal of a response waits at most that was refused before. Servers answer a refusal with the same response at once.
	mostRefusals = 5 * time.Second
)

// Settings are about the server, and about the name of the client.
type Settings struct {
	// Server is the address of the control plane, as gRPC has it: HOST:PORT.
	Server string
	// Node is the name of this client, by which the server chooses the limits. Metadata says more about it.
	Node     string
	Metadata map[string]string
	// Headers are sent with each connection.
	Headers map[string]string
	// TLS returns the settings of a new connection. Without it there is no encryption.
	TLS func() (*tls.Config, error)
	// Wait is how long the client waits before it connects anew, and MostWait how long after many failures. The defaults are 1 and 30 seconds.
	Wait, MostWait time.Duration
	// Refused is called when a response is refused, once for all responses of one version that are refused for one reason. The default is none.
	Refused func()
	// Logger is told when the server does not answer, and when a response is refused. The default is slog.Default.
	Logger *slog.Logger
}

// Use takes the resources of a response. They are all that there are. It returns an error if they make no sense: the server is told, and the response
// changes nothing.
type Use func(version string, resources []*config.RateLimitConfig) error

// Run receives resources until the context ends.
func Run(ctx context.Context, settings Settings, use Use) {
	newClient(settings, use, pause).run(ctx)
}

// pause waits. It returns early if the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

type client struct {
	settings Settings
	use      Use
	pause    func(context.Context, time.Duration)
	told     string // the error that was logged last
}

func newClient(settings Settings, use Use, pause func(context.Context, time.Duration)) *client {
	if settings.Wait <= 0 {
		settings.Wait = time.Second
	}
	if settings.MostWait <= 0 {
		settings.MostWait = 30 * time.Second
	}
	if settings.Logger == nil {
		settings.Logger = slog.Default()
	}
	return &client{settings: settings, use: use, pause: pause}
}

func (c *client) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		received, err := c.connection(ctx)
		if ctx.Err() != nil {
			return
		}
		if received {
			failures = 0
		}
		if text := shorten(err.Error()); text != c.told {
			c.told = text
			c.settings.Logger.ErrorContext(ctx, "the control plane does not answer, and the former limits stay", "server", c.settings.Server, "error", text)
		}
		c.pause(ctx, backoff(c.settings.Wait, c.settings.MostWait, failures))
	}
}

// backoff returns how long to wait after some failures: twice as long each time, and by chance up to a half shorter.
func backoff(wait, most time.Duration, failures int) time.Duration {
	for range failures {
		if wait *= 2; wait >= most {
			break
		}
	}
	wait = min(wait, most)
	return wait - rand.N(wait/2+1)
}

// connection receives by one connection until it ends, and reports whether there was a response.
func (c *client) connection(ctx context.Context) (received bool, err error) {
	transport := insecure.NewCredentials()
	if c.settings.TLS != nil {
		config, err := c.settings.TLS()
		if err != nil {
			return false, err
		}
		transport = credentials.NewTLS(config)
	}
	connection, err := grpc.NewClient(
		c.settings.Server, grpc.WithTransportCredentials(transport), grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingFor}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostMessage)),
	)
	if err != nil {
		return false, err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(c.settings.Headers)))
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	return c.stream(ctx, stream)
}

// stream asks for the resources, and answers each response.
//
// The first request names no version: a server that was started anew may count its versions from the beginning, and would send nothing if
// the client named one that happens to be the same.
func (c *client) stream(ctx context.Context, stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient) (received bool, err error) {
	node, err := c.node()
	if err != nil {
		return false, err
	}
	var accepted, refused string
	refusals := 0
	request := &discovery.DiscoveryRequest{Node: node, TypeUrl: Type}
	for {
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) { // Recv has the reason of io.EOF
			return received, err
		}
		response, err := stream.Recv()
		for err == nil && response.GetTypeUrl() != Type {
			c.settings.Logger.WarnContext(ctx, "the control plane has sent resources that were not asked for", "type", shorten(response.GetTypeUrl()))
			response, err = stream.Recv()
		}
		if err != nil {
			return received, err
		}
		received = true
		version := response.GetVersionInfo()
		request = &discovery.DiscoveryRequest{Node: node, TypeUrl: Type, ResponseNonce: response.GetNonce()}
		if err := c.accept(response); err != nil {
			reason := shorten(err.Error())
			c.tell(ctx, version, reason)
			if refusals++; version != refused {
				refused, refusals = version, 0
			}
			if refusals > 0 {
				c.pause(ctx, backoff(c.settings.Wait, mostRefusals, refusals-1))
			}
			request.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason}
		} else {
			accepted, refused, c.told = version, "", ""
		}
		request.VersionInfo = accepted
	}
}

// tell counts and logs the refusal of a version, unless it was the last one told.
func (c *client) tell(ctx context.Context, version, reason string) {
	text := version + " " + reason
	if text == c.told {
		return
	}
	c.told = text
	if c.settings.Refused != nil {
		c.settings.Refused()
	}
	const message = "the limits of the control plane make no sense, and the former ones stay"
	c.settings.Logger.ErrorContext(ctx, message, "version", version, "error", reason)
}

// node returns the name of the client.
func (c *client) node() (*core.Node, error) {
	fields := make(map[string]any, len(c.settings.Metadata))
	for key, value := range c.settings.Metadata {
		fields[key] = value
	}
	more, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, err
	}
	return &core.Node{Id: c.settings.Node, Metadata: more, UserAgentName: "weir"}, nil
}

// accept uses the resources of a response. A panic is an error.
func (c *client) accept(response *discovery.DiscoveryResponse) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.settings.Logger.Error("the limits of the control plane have caused a panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("the resources have caused a panic")
		}
	}()
	resources := make([]*config.RateLimitConfig, len(response.GetResources()))
	for i, one := range response.GetResources() {
		if resources[i], err = unpack(one); err != nil {
			return fmt.Errorf("resource %d: %w", i, err)
		}
	}
	return c.use(response.GetVersionInfo(), resources)
}

// unpack returns a resource. It may stand in an envelope that tells its name.
func unpack(packed *anypb.Any) (*config.RateLimitConfig, error) {
	envelope := &discovery.Resource{}
	if packed.MessageIs(envelope) {
		if err := packed.UnmarshalTo(envelope); err != nil {
			return nil, err
		}
		if packed = envelope.GetResource(); packed == nil {
			return nil, errors.New("the envelope is empty")
		}
	}
	resource := &config.RateLimitConfig{}
	if !packed.MessageIs(resource) {
		return nil, fmt.Errorf("it has the type %q", packed.GetTypeUrl())
	}
	return resource, proto.Unmarshal(packed.GetValue(), resource)
}

// shorten bounds a text that others have written.
func shorten(text string) string {
	if len(text) > mostReason {
		text = text[:mostReason] + " …"
	}
	return strings.ToValidUTF8(text, "�")
}

//go:build integration

// This file is one more of the integration tests of github.com/envoyproxy/ratelimit, when they are run against weir serve.

package integration_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/envoyproxy/ratelimit/test/common"
)

// Test_mTLSAnswers asks with the certificate of a client, with one of another name, and without. Test_mTLS asks nothing, and passes without a server.
func Test_mTLSAnswers(t *testing.T) {
	common.WithMultiRedis(t, []common.RedisConfig{{Port: 6383}}, func() {
		serverCA, serverCert, serverKey, err := mTLSSetup(utils.ServerCA)
		require.NoError(t, err)
		clientCA, clientCert, clientKey, err := mTLSSetup(utils.ClientCA)
		require.NoError(t, err)
		for _, c := range []struct {
			name, cert, key string
			answered        bool
		}{
			{"localhost", clientCert, clientKey, true},
			{"elsewhere", clientCert, clientKey, false},
			{"localhost", "", "", false},
		} {
			s := makeSimpleRedisSettings(6383, 6380, false, 0)
			s.GrpcServerUseTLS, s.GrpcServerTlsCert, s.GrpcServerTlsKey = true, serverCert, serverKey
			s.GrpcClientTlsCACert, s.GrpcClientTlsSAN = clientCA, c.name
			runner := startTestRunner(t, s)
			config := &tls.Config{RootCAs: utils.TlsConfigFromFiles(clientCert, clientKey, serverCA, utils.ServerCA, false).RootCAs}
			if c.cert != "" {
				certificate, err := tls.LoadX509KeyPair(c.cert, c.key)
				require.NoError(t, err)
				config.Certificates = []tls.Certificate{certificate}
			}
			conn, err := grpc.NewClient(fmt.Sprintf("localhost:%d", s.GrpcPort), grpc.WithTransportCredentials(credentials.NewTLS(config)))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			response, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(
				ctx, common.NewRateLimitRequest("basic", [][][2]string{{{"one_per_minute", t.Name()}}}, 1), grpc.WaitForReady(c.answered))
			cancel()
			require.Equal(t, c.answered, err == nil, "%q: %v, %v", c, response, err)
			if c.answered {
				require.Len(t, response.GetStatuses(), 1)
				require.EqualValues(t, 1, response.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())
			}
			require.NoError(t, conn.Close())
			runner.Stop()
		}
	})
}

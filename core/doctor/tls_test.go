package doctor_test

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestExamineWithTLS(t *testing.T) {
	server := redistest.StartTLS(t)
	examine := func(config *tls.Config) doctor.Report {
		client := redis.NewClient(&redis.Options{
			Addr: server.TLSAddr(), TLSConfig: config, MaxRetries: -1, ContextTimeoutEnabled: true,
		})
		defer client.Close()
		return doctor.Examine(t.Context(), core.New(core.NewRedis(client, core.WithBudget(patient))))
	}
	t.Run("with the authority that issued the certificate", func(t *testing.T) {
		report := examine(server.Trusted(t))
		if err := report.Err(); err != nil {
			t.Error(err)
		}
		wantFinding(t, report, "encryption", doctor.OK, "TLS")
	})
	t.Run("with an authority that is not known", func(t *testing.T) {
		wantFinding(t, doctor.Examine(t.Context(), opened(t, server.TLSURL())), "connection", doctor.Problem, "SSL_CERT_FILE")
	})
	t.Run("with a client that believes any server", func(t *testing.T) {
		wantFinding(t, examine(&tls.Config{InsecureSkipVerify: true}), "encryption", doctor.Notice, "not verified")
	})
	t.Run("with a client that does not speak TLS", func(t *testing.T) {
		wantFinding(t, doctor.Examine(t.Context(), opened(t, "redis://"+server.TLSAddr())), "connection", doctor.Problem, "rediss://")
	})
}

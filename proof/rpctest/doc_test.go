// Package rpctest calls procedures through the middleware by the clients that people use,
// grpc-go and connect-go, to see that they understand what a denied call is answered.
package rpctest

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

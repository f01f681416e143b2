package forward_test

import (
	"os"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

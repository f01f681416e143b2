package given_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	echolimit4 "github.com/weir-go/ratelimit/echo"
	echolimit "github.com/weir-go/ratelimit/echo/v5"
	ginlimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

type program struct{}

func (program) key(*http.Request) (string, error) { return "", keyfuncs.ErrNoKey }

func key(*http.Request) (string, error) { return "", keyfuncs.ErrNoKey }

func TestFunctionsOfAProgramAreTold(t *testing.T) {
	closure := func(*http.Request) (string, error) { return "a", nil }
	for name, f := range map[string]any{"a function": key, "a closure": closure, "a method": program{}.key, "a method of nothing": program.key} {
		if !given.Is(f) {
			t.Errorf("%s of the program is taken for one of this module", name)
		}
	}
	user := func(*http.Request) string { return "" }
	for name, f := range map[string]any{
		"RemoteIP": keyfuncs.RemoteIP, "Anonymous": keyfuncs.Anonymous, "Host": keyfuncs.Host, "Method": keyfuncs.Method, "Global": keyfuncs.Global,
		"Route": keyfuncs.Route, "PathValue": keyfuncs.PathValue("id"), "Header": keyfuncs.Header("A"), "Authorization": keyfuncs.Header("Authorization"),
		"Bearer": keyfuncs.Bearer(), "Cookie": keyfuncs.Cookie("a"), "User": keyfuncs.User(user), "IP": keyfuncs.IP(keyfuncs.TrustedHops(1)),
		"User of any type": keyfuncs.User(func(*http.Request) any { return nil }), "Join": keyfuncs.Join(key), "Or": keyfuncs.Or(key, key),
		"a prepared one": keyfuncs.Or(key), "gin.User": ginlimit.User("a"), "gin.ClientIP": ginlimit.ClientIP(), "echo.User": echolimit4.User("a"),
		"echo.ClientIP": echolimit4.ClientIP(), "echo/v5.User": echolimit.User("a"), "echo/v5.ClientIP": echolimit.ClientIP(),
		"gin.With":     ginlimit.With(func(*gin.Context) bool { return true }),
		"echo.With":    echolimit4.With(func(echo4.Context) bool { return true }),
		"echo/v5.With": echolimit.With(func(*echo.Context) core.Limit { return core.Unlimited }),
		"Layers":       guard.Layers(guard.Policy{}, guard.Policy{By: key})[1].By,
	} {
		if given.Is(f) {
			t.Errorf("%s is taken for a function of the program", name)
		}
	}
}

// told is a limiter that remembers what it is told.
type told struct {
	prepared int
	keyless  []given.Function
}

func (l *told) SetPathValues(*http.Request) { l.prepared++ }

func (l *told) FoundNoKey(_ context.Context, function given.Function, _ int) {
	l.keyless = append(l.keyless, function)
}

func TestKeyFunctionsThatFindNothing(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		nth     int // request of which the result is
		key     string
		err     error
		keyless int
	}{
		"none":                         {-1, "", nil, 1},
		"the first":                    {0, "a", nil, 0},
		"the hundredth":                {99, "a", nil, 0},
		"the hundred and first":        {100, "a", nil, 1},
		"another error counts as none": {50, "", broken, 0},
	} {
		n := 0
		l := new(told)
		f := given.KeyFunc(func(*http.Request) (string, error) {
			defer func() { n++ }()
			if n == c.nth {
				return c.key, c.err
			}
			return "", nil
		}, func(key string, err error) bool { return err == nil && key == "" })
		outside := httptest.NewRequest(http.MethodGet, "/", nil)
		r := outside.WithContext(context.WithValue(t.Context(), given.LimiterKey{}, l))
		for range 500 {
			f(r) //nolint:errcheck // the result does not matter
		}
		if len(l.keyless) != c.keyless || l.prepared != 500 {
			t.Errorf("%s: told of %v, prepared %d, want %d and 500", name, l.keyless, l.prepared, c.keyless)
		}
		if len(l.keyless) > 0 && (!strings.Contains(l.keyless[0].Name, "TestKeyFunctionsThatFindNothing") || !strings.Contains(l.keyless[0].Line, "given_test.go:")) {
			t.Errorf("%s: told of %+v, want the function and its line", name, l.keyless[0])
		}
		if given.Prepare(outside) != nil {
			t.Error("a limiter decides about a request that none has seen")
		}
	}
}

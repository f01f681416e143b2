package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/klauspost/cpuid/v2"
	"github.com/redis/go-redis/v9"
)

// machine is the machine of a run, and its software.
type machine struct {
	CPU     string
	Cores   int
	OS      string
	Go      string
	Redis   string
	Modules []module
}

// module is a library that takes part.
type module struct{ Path, Version string }

// libraries are the modules that a report names with their versions.
func libraries() []string {
	return []string{
		"github.com/redis/go-redis/v9",
		"github.com/go-redis/redis_rate/v10",
		"github.com/ulule/limiter/v3",
		"github.com/throttled/throttled/v2",
		"github.com/go-chi/httprate",
		"github.com/go-chi/httprate-redis",
		"github.com/zeromicro/go-zero",
		"github.com/gin-gonic/gin",
		"github.com/labstack/echo/v4",
	}
}

// describe returns the machine that this process and the redis-server share.
func describe(ctx context.Context, client *redis.Client) (machine, error) {
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return machine{}, fmt.Errorf("bench: asking redis-server who it is: %w", err)
	}
	version, err := infoField(info, "redis_version")
	if err != nil {
		return machine{}, err
	}
	server := "Redis " + version
	if valkey, err := infoField(info, "valkey_version"); err == nil {
		server = "Valkey " + valkey
	}
	system, err := infoField(info, "os")
	if err != nil {
		return machine{}, err
	}
	return machine{
		CPU:     cmp.Or(cpuid.CPU.BrandName, "unknown, "+runtime.GOARCH),
		Cores:   runtime.NumCPU(),
		OS:      system,
		Go:      runtime.Version(),
		Redis:   server,
		Modules: versions(),
	}, nil
}

// versions returns the versions of the libraries that this program was built with.
func versions() []module {
	build, known := debug.ReadBuildInfo()
	if !known {
		return nil
	}
	built := map[string]string{}
	for _, dependency := range build.Deps {
		built[dependency.Path] = dependency.Version
	}
	var modules []module
	for _, path := range libraries() {
		if version, used := built[path]; used {
			modules = append(modules, module{path, version})
		}
	}
	return modules
}

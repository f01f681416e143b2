# Everything a change needs. The tests start real Redis servers of their own on
# free ports, a real browser, a real Prometheus and real web servers; those
# are all that there is to install, and make test does it.

GO = go
FUZZTIME = 30s
DURATION = 10m
CHECKS = 1000
PATHS = 1000000
# Test binaries built with -race sleep for a second before they exit, in case a goroutine goes on. Tests wait for theirs.
GORACE ?= atexit_sleep_ms=0
export GORACE
# Of a number the order of the tests follows, each time the same.
SHUFFLE ?= on
# go test vets what it tests. The gate has vetted everything before, and sets this to -vet=off.
VET ?=
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
# The dependencies that users bring in versions of their own.
FRAMEWORKS = github.com/gin-gonic/gin github.com/labstack/echo/v4 github.com/labstack/echo/v5 github.com/redis/go-redis/v9 \
	go.opentelemetry.io/otel go.opentelemetry.io/otel/metric go.opentelemetry.io/otel/trace \
	go.opentelemetry.io/otel/sdk go.opentelemetry.io/otel/sdk/metric github.com/gaissmai/bart
# The packages with tests that use one of them, or start a Redis. All others know nothing of a version.
packages_with_frameworks = $$($(GO) list -modfile=latest.mod -f \
	'{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... | \
	grep -E " ($$(echo $(FRAMEWORKS) | tr ' ' '|')|github.com/weir-go/ratelimit/internal/redistest)" | cut -d ' ' -f 1)
# Modules of their own, so that what they need is no dependency of the root module.
# Those whose tests take long come first, so that no processor is idle at the end.
MODULES = proof cmd/weir examples/demo/browsertest internal/conformance asynq river examples/observability caddy bench examples/fiber examples/sqlstore examples/adaptive examples/river connect grpc examples/mcp examples/chi examples/connect examples/websocket internal/routertest
BROWSERTEST = examples/demo/browsertest
# Packages whose tests depend on the server, and start neither a browser nor Prometheus.
SERVER_PACKAGES = ./core/... ./guard/... ./nethttp/... ./gin/... ./echo/... ./outbound/... ./telemetry/... \
	./lists ./policies ./internal/redistest
# The packages of a module with random examples, without those at which make search looks by themselves.
packages_that_draw = $$($(GO) list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}} .' ./... | \
	grep ' pgregory.net/rapid ' | cut -d ' ' -f 1 | grep -vE '/(core|redisstore|simulation)$$')
# Runs a command in each of these modules, in some of them at once, and says at the end in which of them it has failed.
in_modules = @failed="$$(mktemp)"; printf '%s\n' $(MODULES) | \
	xargs -n 1 -P $(2) sh -c 'echo "$$1: $(1)"; cd "$$1" && $(1) || echo "$$1" >>"$$0"' "$$failed" || echo interrupted >>"$$failed"; \
	names="$$(paste -s -d ' ' "$$failed")"; rm "$$failed"; if [ -n "$$names" ]; then echo "failed: $$names"; exit 1; fi

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: test
test: redis lua browser prometheus webservers postgres sdks clients ## the whole suite, installing the servers and the browser it needs where they are missing
	@$(MAKE) --no-print-directory -k -j 2 test-root test-modules test-unraced

# Three parts of the suite. The first two run at the same time, since some tests compute, and others wait for what they have broken. The
# third follows the shorter one. On two processors, each tests two packages at once.
.PHONY: test-root test-modules test-unraced
test-root:
	$(GO) test $(VET) -race -shuffle=$(SHUFFLE) -count=1 -timeout 30m ./...
test-modules:
	$(call in_modules,$(GO) test $(VET) -race -shuffle=$(SHUFFLE) -count=1 -timeout 30m -p 1 ./...,2)
# The tests that the race detector would slow down for nothing: they compute in one goroutine, measure memory, ask what other programs do, or
# test a store around another one that is tested under the detector.
test-unraced:
	@sh .ci/unraced $(GO) test $(VET) -shuffle=$(SHUFFLE) -count=1 -timeout 30m

.PHONY: reference
reference: redis ## the integration tests of github.com/envoyproxy/ratelimit against weir serve, on the fixed ports that they name
	cd cmd/weir && $(GO) test $(VET) -count=1 -timeout 30m -run '^TestReferenceIntegration$$' . -reference

.PHONY: test-latest
test-latest: redis lua ## what uses gin, echo, go-redis or OpenTelemetry, against the newest of them
	$(GO) build -modfile=latest.mod ./...
	$(GO) test -modfile=latest.mod $(VET) -count=1 -timeout 30m $(packages_with_frameworks)
	cd proof && $(GO) test -modfile=latest.mod $(VET) -count=1 -timeout 30m $(packages_with_frameworks)

.PHONY: test-latest-doors
test-latest-doors: redis postgres ## the doors, such as river and caddy, against the newest of all that each requires
	@sh .ci/test-latest-doors

.PHONY: test-servers
test-servers: redis lua webservers clients ## the packages that talk to Redis, on the server program that RATELIMIT_TEST_SERVER names
	$(GO) test -race -shuffle=$(SHUFFLE) -count=1 $(SERVER_PACKAGES)
	$(GO) test -count=1 -run '^TestTheLawsHoldUnderLua54$$' ./core # which the race detector does not build
	cd cmd/weir && $(GO) test -race -shuffle=$(SHUFFLE) -count=1 .
	cd proof && $(GO) test -race -shuffle=$(SHUFFLE) -count=1 ./faults

.PHONY: latest
latest: ## move latest.mod to the newest gin, echo, go-redis and OpenTelemetry
	cp go.mod latest.mod
	cp go.sum latest.sum
	$(GO) get -modfile=latest.mod $(FRAMEWORKS:=@latest)
	$(GO) mod tidy -modfile=latest.mod
	cp proof/go.mod proof/latest.mod
	cp proof/go.sum proof/latest.sum
	cd proof && $(GO) get -modfile=latest.mod github.com/redis/go-redis/v9@latest && $(GO) mod tidy -modfile=latest.mod

.PHONY: redis
redis: ## install redis-server where it is missing
	@[ -n "$$RATELIMIT_TEST_SERVER" ] || sh .ci/install redis-server 'macOS: brew install redis' redis-server valkey-server

.PHONY: lua
lua: ## install Lua 5.4 where it is missing
	@sh .ci/install lua5.4 'macOS: brew install lua@5.4' lua5.4

.PHONY: browser
browser: ## install Chromium where it is missing
	@sh .ci/install chromium 'macOS: brew install --cask chromium' chromium chromium-browser google-chrome google-chrome-stable

.PHONY: prometheus
prometheus: ## install Prometheus where it is missing
	@sh .ci/install prometheus 'macOS: brew install prometheus' prometheus

.PHONY: webservers
webservers: ## install nginx, Apache, HAProxy, Caddy, Envoy and Traefik where they are missing
	@sh .ci/install nginx 'macOS: brew install nginx' nginx
	@sh .ci/install apache2-bin 'macOS has it' apache2 httpd
	@sh .ci/install haproxy 'macOS: brew install haproxy' haproxy
	@sh .ci/install caddy 'macOS: brew install caddy' caddy
	@sh .ci/proxies

.PHONY: postgres
postgres: ## install PostgreSQL where it is missing
	@sh .ci/install postgresql 'macOS: brew install postgresql' postgres pg_ctlcluster

.PHONY: sdks
sdks: ## install the SDKs of OpenAI and Anthropic where they are missing
	@sh .ci/llm-sdks/install

.PHONY: clients
clients: ## install clients of gRPC where they are missing
	@sh .ci/grpc-clients/install

.PHONY: fmt
fmt: ## check the formatting
	@files="$$(gofmt -l .)"; if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

.PHONY: tidy
tidy: ## check go.mod, latest.mod and those of the other modules
	$(GO) mod tidy -diff
	$(GO) mod tidy -modfile=latest.mod -diff
	$(call in_modules,$(GO) mod tidy -diff,1)
	cd proof && $(GO) mod tidy -modfile=latest.mod -diff
	@sh .ci/same-requirements go.mod latest.mod
	@sh .ci/same-requirements proof/go.mod proof/latest.mod

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...
	$(call in_modules,$(GO) vet ./...,1)

.PHONY: lint
lint: ## golangci-lint, built from source at a fixed version
	$(GO) run $(GOLANGCI_LINT) run --allow-parallel-runners ./...
	$(call in_modules,$(GO) run $(GOLANGCI_LINT) run --allow-parallel-runners ./...,1)

.PHONY: vuln
vuln: ## known vulnerabilities in what is called, in all modules and with latest.mod
	@set -e; tools="$$(mktemp -d)"; trap 'rm -rf "$$tools"' EXIT; \
	GOBIN="$$tools" $(GO) install $(GOVULNCHECK); \
	for module in . $(MODULES); do echo "$$module: govulncheck ./..."; (cd $$module && "$$tools/govulncheck" ./...); done; \
	echo "latest.mod: govulncheck ./..."; GOFLAGS="$$GOFLAGS -modfile=$(CURDIR)/latest.mod" "$$tools/govulncheck" ./...

.PHONY: bench
bench: redis ## compare with other limiters: docs/benchmarks.md and the figures of README.md
	cd bench && $(GO) run .

.PHONY: bench-quick
bench-quick: redis ## the same in shorter rounds: bench/quick/benchmarks.md
	cd bench && $(GO) run . -quick

.PHONY: redis-held
redis-held: redis ## keep a Redis busy for ten minutes, and tell of all that holds it for over a millisecond
	cd bench && $(GO) run ./soak

.PHONY: bench-go
bench-go: redis ## all Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-once
bench-once: redis ## each Go benchmark once, to see that it still runs
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

.PHONY: screenshots
screenshots: browser ## take the pictures of the demo: docs/demo*.png
	cd $(BROWSERTEST) && $(GO) test -count=1 -run '^TestScreenshots$$' -screenshots ../../../docs

.PHONY: fuzz
fuzz: redis ## every fuzz target for FUZZTIME (30s)
	@set -e; for module in . cmd/weir proof; do for package in $$($(GO) -C $$module list ./...); do \
		list="$$($(GO) -C $$module test -list '^Fuzz' "$$package")"; \
		for target in $$(echo "$$list" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) -C $$module test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done; done

.PHONY: search
search: export RAPID_SEED = 0
search: redis webservers ## look longer for random examples that break a law, and for ways around policies
	$(GO) test -count=1 -timeout 60m $(packages_that_draw) -rapid.checks=$(CHECKS)
	cd cmd/weir && $(GO) test -count=1 -timeout 60m $(packages_that_draw) -rapid.checks=$(CHECKS)
	$(GO) test -count=1 -timeout 60m ./core -run 'KeepsTheLaws|TheModelAgree' -skip '^TestRedisKeepsTheLaws$$' -rapid.checks=$(CHECKS)
	$(GO) test -count=1 -timeout 60m ./core -run '^TestRedisKeepsTheLaws$$' -rapid.checks=$$((2 * $(CHECKS))) # it draws half as many
	$(GO) test -count=1 -timeout 60m ./core/internal/redisstore -rapid.checks=$(CHECKS)
	cd proof && $(GO) test -count=1 -timeout 60m ./simulation -rapid.checks=$$((10 * $(CHECKS)))
	cd internal/routertest && $(GO) test -count=1 -timeout 24h . -paths $(PATHS)

.PHONY: conformance
conformance: ## Connect's whole conformance suite against a server with the interceptor
	cd internal/conformance && $(GO) test -count=1 -v -run '^TestServersConform$$' . -all

.PHONY: mutants
mutants: redis ## plant the faults of each testdata/mutants, one at a time, and see that the tests notice
	cd proof && $(GO) run ./mutants

.PHONY: soak
soak: redis ## everything at once, with faults, for DURATION (10m), on a server and then on a cluster
	cd proof && $(GO) test -race -count=1 -timeout 0 -v -run '^TestSoak' ./faults -soak $(DURATION)

.PHONY: cover
cover: redis ## coverage of all packages together, in cover.out and cover.html
	$(GO) test -count=1 -coverpkg=./... -coverprofile=cover.out ./...
	$(GO) tool cover -html=cover.out -o cover.html
	@$(GO) tool cover -func=cover.out | tail -n 1

module github.com/weir-go/ratelimit/cmd/weir

go 1.26.0

replace github.com/weir-go/ratelimit => ../..

require (
	github.com/axiomhq/hyperloglog v0.3.0
	github.com/klauspost/compress v1.20.3
	github.com/urfave/cli/v3 v3.14.0
	github.com/valyala/fastjson v1.6.10
	github.com/weir-go/ratelimit v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-metro v0.0.0-20250106013310-edb8663e5e33 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/kamstrup/intmap v0.5.2 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	github.com/redis/go-redis/v9 v9.9.0 // indirect
)

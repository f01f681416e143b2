module github.com/weir-go/ratelimit/examples/connect

go 1.26.0

replace (
	github.com/weir-go/ratelimit => ../..
	github.com/weir-go/ratelimit/connect => ../../connect
)

require (
	connectrpc.com/connect v1.21.1
	github.com/weir-go/ratelimit v0.0.0-00010101000000-000000000000
	github.com/weir-go/ratelimit/connect v0.0.0-00010101000000-000000000000
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/redis/go-redis/v9 v9.9.0 // indirect
)

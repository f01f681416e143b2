module github.com/weir-go/ratelimit/examples/websocket

go 1.26

replace github.com/weir-go/ratelimit => ../..

require (
	github.com/coder/websocket v1.8.15
	github.com/weir-go/ratelimit v0.0.0-00010101000000-000000000000
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/redis/go-redis/v9 v9.9.0 // indirect
)

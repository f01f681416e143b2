module github.com/weir-go/ratelimit/connect

go 1.26.0

replace github.com/weir-go/ratelimit => ..

require (
	connectrpc.com/connect v1.19.2
	github.com/weir-go/ratelimit v0.0.0-00010101000000-000000000000
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/gaissmai/bart v0.26.1 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/redis/go-redis/v9 v9.9.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

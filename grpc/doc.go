// Package grpcratelimit limits the calls of google.golang.org/grpc, for a whole fleet of servers at once.
//
//	g := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{Limit: core.Leaky(10, core.PerSecond(1))}))
//	server := grpc.NewServer(grpc.UnaryInterceptor(grpcratelimit.Unary(g)), grpc.StreamInterceptor(grpcratelimit.Stream(g, nil)))
//
// A call meets the policies of a [guard.Guard] as the request that it is: a POST of /package.Service/Method, with its metadata as the header and the
// address of its peer. So the key functions of package keyfuncs work: RemoteIP and IP, Header and Bearer for metadata, Host for the authority, and Route,
// which is the full method. So do the policies of a file, with patterns such as "POST /shop.Orders/Create" and "/shop.Orders/". Functions of the
// program's own find the message of a call by [Message], and the identity of a client in the TLS of the request.
//
// A call that is denied ends with RESOURCE_EXHAUSTED, or UNAVAILABLE where the store does not answer and the policy fails closed. The status has the
// details google.rpc.ErrorInfo (RATE_LIMITED), RetryInfo and QuotaFailure. The trailer grpc-retry-pushback-ms tells grpc's own retry when to try again.
// The limits' fields, such as ratelimit, are in the trailer of each call.
//
// A server with grpc.UnknownServiceHandler, such as a proxy, serves methods of any name, and a client may make up as many as it likes. All of them have the
// Route of requests without one, so they share a limit by route. The policies of a file still match their names. Count them by the caller, too.
//
// [UnaryClient] and [StreamClient] keep the calls of a program within the limit of another service.
package grpcratelimit

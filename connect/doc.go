// Package connectratelimit limits the calls of connect-go, for a whole fleet of servers at once, in each of its protocols: Connect, gRPC and gRPC-Web.
//
//	g := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{Limit: core.Leaky(10, core.PerSecond(1))}))
//	path, handler := ordersconnect.NewOrdersHandler(orders{}, connect.WithInterceptors(connectratelimit.New(g, nil)))
//
// A call meets the policies of a [guard.Guard] as the request that it is: a POST of /package.Service/Method, also where a client has sent a GET, with its
// header and the address of its peer. So the key functions of package keyfuncs work: RemoteIP and IP, Header and Bearer, Host, and Route, the procedure.
// So do the policies of a file, with patterns such as "POST /shop.Orders/Create" and "/shop.Orders/". Functions of the program's own find the message of a call
// by guardrpc.Message. Header fields of the program's own with a name that ends in "-Bin" have their bytes as the value, however a client has encoded them.
// connect-go tells interceptors nothing about TLS: put the identity of a client into the context in front of the handler, and read it there.
//
// A call that is denied ends with resource_exhausted, or unavailable where the store does not answer and the policy fails closed. The error has the details
// google.rpc.ErrorInfo (RATE_LIMITED), RetryInfo and QuotaFailure, and the limits' fields in its metadata, such as ratelimit, with Retry-After in the protocol
// of Connect. The limits' fields are in the header of all other answers.
//
// A unary message is read and decoded before an interceptor sees the call, and grpc's own retry does not try a call again that connect-go has answered. Put
// the middleware of package nethttp around the handler where either matters: it denies calls in their own protocol, too.
//
// [Client] keeps the calls of a program within the limit of another service.
package connectratelimit

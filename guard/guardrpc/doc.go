// Package guardrpc has a [guard.Guard] decide about remote procedure calls. It is for adapters: those of grpc-go and connect-go are made of it, and one
// for another framework takes as few lines.
//
//	verdict, fields := guardrpc.Decide(ctx, g, guardrpc.Call{Procedure: "/shop.Orders/Create", Header: metadata, Peer: address, Message: message})
//	if verdict.Denial != nil {
//		denied := guardrpc.ErrorOf(verdict.Denial) // its code, its words, and details for programs
//		...
//	}
//	guardrpc.Serve(verdict, func(ctx context.Context) (code uint32) { ... })
//
// Codes are those of google.rpc.Code, which gRPC and Connect share.
package guardrpc

// Package clients compares the calls that package outbound makes with those of the clients of others: the throttle with that of
// failsafe-go, and the budget of retries with that of grpc-go.
package clients

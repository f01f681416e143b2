// Package routertest holds that no way to write a request runs the handler of a limited route without meeting its policy, in
// routers with every option that changes how they read paths. It is a module of its own, for the sake of those routers.
//
//	go test . -paths 1000000    # requests for each site, instead of 1,000
package routertest

// Package routertest holds that no way to write a request runs the handler of a limited route without meeting its policy, in
// routers with every option that changes how they read paths, with their groups, mounts and hosts, and in file servers and a reverse proxy. Requests come
// in this process, over HTTP/1.1 and over HTTP/2, some with a target in the absolute form. It is a module of its own, for the sake of those routers.
//
//	go test . -paths 1000000    # requests for each site and each way, instead of 100
package routertest

// Package redistest starts real Redis servers for tests: one alone ([Start],
// [Shared]), one that also speaks TLS ([StartTLS]), a cluster ([StartCluster],
// [SharedCluster], [StartReplicatedCluster]), and one watched by a sentinel ([StartSentinel]). [StartLua54]
// has one run scripts in another Lua. [Launch]
// starts one for a program that is no test.
//
// Every server listens on a free port of 127.0.0.1, keeps nothing on disk that
// outlives it, and ends with the test that started it. On Linux it ends even
// when the test binary is killed.
//
// It needs redis-server, or valkey-server, on the PATH, or the program that the environment variable
// RATELIMIT_TEST_SERVER names. Without one a test is skipped, or fails where the environment says
// CI=true: a run that proves nothing must not look like one that does.
package redistest

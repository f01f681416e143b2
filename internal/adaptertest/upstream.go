package adaptertest

var upstreamCases []testCase

package adaptertest

var grpcCases []testCase

package adaptertest

var wireCases []testCase

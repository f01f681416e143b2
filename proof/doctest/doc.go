// Package doctest holds the tests of README.md and the pages in docs: every Go snippet
// compiles, every link leads somewhere, and the tests that the pages show pass.
//
// # Snippets
//
// A block that begins with "package" is a file, and is checked as it stands. Any other block
// is a fragment: declarations, or statements of a function that returns an error. A fragment
// need not import what it uses: the packages are looked up in a table, in which ratelimit is
// the one for net/http. The variables limiter and ctx are always there. What else a fragment
// takes for granted stands above it in a comment that no reader sees:
//
//	<!-- go: import ratelimit "github.com/weir-go/ratelimit/gin"; var router *gin.Engine -->
//
// Variables and imports that are not used are no mistake in a fragment.
package doctest

package routertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// methods are those of the requests. Some routers read the path of a CONNECT in another way.
var methods = []string{"GET", "POST", "HEAD", "OPTIONS", "CONNECT"}

// values stand for wildcards of routes.
var values = []string{"7", "me", "special", "x.y", "a%2Fb", "%2F", "%73pecial", "..", "%2e%2e", ".", "", "login", "private", "%25", "a%20b"}

// inserted are put in front of a segment.
var inserted = []string{"/", "/.", "/..", "/x/..", "/%2e", "/%2E%2e", "/x/%2e%2e", "//", "/%2F", "/private/..", "/x%2F..", "%2F"}

// appended are put behind a path.
var appended = []string{"/", "//", "%2F", ".x", "/.", "/..", "/x", "/x/..", "?a=/login", ";x", "%20", "/%2e", "%2f.", ".html", "/x/y"}

// target returns the target of a request: the path of a route, mostly written in some unusual way.
func target(random *rand.Rand, routes []string) string {
	segments := strings.Split(routes[random.IntN(len(routes))], "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = pick(random, values)
		}
	}
	path := strings.Join(segments, "/")
	for range random.IntN(5) {
		path = written(random, path)
	}
	if random.IntN(8) == 0 {
		return "http://a.test" + path
	}
	return path
}

// written returns a path with one change.
func written(random *rand.Rand, path string) string {
	at := 0
	if len(path) > 0 {
		at = random.IntN(len(path))
	}
	slash := strings.IndexByte(path[at:], '/')
	switch random.IntN(7) {
	case 0, 1:
		if slash >= 0 {
			return path[:at+slash] + pick(random, inserted) + path[at+slash:]
		}
	case 2:
		if slash >= 0 && at+slash > 0 {
			return path[:at+slash] + "%2F" + path[at+slash+1:]
		}
	case 3:
		if at > 0 && path[at] != '%' && path[at] != '/' {
			return path[:at] + fmt.Sprintf("%%%02x", path[at]) + path[at+1:]
		}
	case 4, 5:
		return path + pick(random, appended)
	case 6:
		if at > 0 {
			return path[:at] + path[at+1:]
		}
	}
	return path
}

func pick(random *rand.Rand, texts []string) string { return texts[random.IntN(len(texts))] }

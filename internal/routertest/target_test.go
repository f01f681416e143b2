package routertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// methods are those of the requests. Some routers read the path of a CONNECT in another way.
var methods = []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "CONNECT"}

// values stand for wildcards of routes.
var values = []string{
	"7", "42", "1", "me", "special", "acme", "x.y", "a%2Fb", "%2F", "%73pecial", "%61cme", "..", "%2e%2e", ".", "", "login", "private", "%25", "a%20b", "a-b",
	"special%2F..%2Fspecial", "acme%2Fx", "%2561cme", "reset", "status",
}

// inserted are put in front of a segment.
var inserted = []string{"/", "/.", "/..", "/x/..", "/%2e", "/%2E%2e", "/x/%2e%2e", "//", "/%2F", "/private/..", "/x%2F..", "%2F", "/acme/.."}

// appended are put behind a path.
var appended = []string{"/", "//", "%2F", ".x", "/.", "/..", "/x", "/x/..", "?a=/login", ";x", "%20", "/%2e", "%2f.", ".html", "/x/y", ".json", ".txt"}

// target returns the path of a request: that of a route, mostly written in some unusual way.
func target(random *rand.Rand, paths []string) string {
	path := paths[random.IntN(len(paths))]
	for {
		start := strings.IndexByte(path, '{')
		if start < 0 {
			break
		}
		end := start + strings.IndexByte(path[start:], '}')
		path = path[:start] + pick(random, values) + path[end+1:]
	}
	for range random.IntN(5) {
		path = written(random, path)
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
	switch random.IntN(9) {
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
	case 7: // what is in front of the rest of a path may be without a slash behind it
		if slash >= 0 && at+slash > 0 {
			return path[:at+slash] + path[at+slash+1:]
		}
	case 8:
		if at > 0 && 'a' <= path[at] && path[at] <= 'z' {
			return path[:at] + string(path[at]-'a'+'A') + path[at+1:]
		}
	}
	return path
}

func pick(random *rand.Rand, texts []string) string { return texts[random.IntN(len(texts))] }

// request returns a request of a site.
func (s *site) request(random *rand.Rand) (method, path, host string) {
	return pick(random, s.methods), target(random, s.targets), pick(random, s.hosts)
}

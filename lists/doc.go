// Package lists holds sets of addresses and keys, to allow or to deny requests before any
// limit is checked: the Lists of the middleware's Options.
//
// A [List] never changes. It is written in the program ([Of]), or read from a file ([ParseFile]). A [Live] list is
// replaced while requests are served, as a whole: by the program ([Live.Swap]), or by [Watch], from a file or from Redis.
//
//	office := lists.Of("198.51.100.0/24", "2001:db8:7::/48")
//	abusers, err := lists.Watch(ctx, lists.File("/etc/api/deny.txt"), lists.WatchOptions{})
//
// # Entries
//
// An entry is one of
//
//	203.0.113.0/24    a prefix, of IPv4 or IPv6
//	203.0.113.9       an address
//	key:user:42       a key, exactly as a function of package keyfuncs returns it
//
// A prefix with bits set behind its length is an error, not a shorter way to write
// another one: in 10.0.0.1/8 either the address or the length is wrong. An address with a
// zone is an error, too, since zones are never compared. An IPv4-mapped IPv6 address is the
// IPv4 address, and ::ffff:203.0.113.0/120 is 203.0.113.0/24. All of IPv4 is 0.0.0.0/0, and
// all of IPv6 is ::/0, which contains no address of IPv4. An entry may stand there twice.
//
// # Files
//
// A file has one entry a line. Empty lines are skipped, and so is a comment: a # that begins a line or stands behind
// white space, and the text after it. A key with white space at an end, or with such a #, is written in quotes, as in Go:
// key:"user:a #1". A file without a single line is an error when it is watched, since a file looks like that while it is
// being written: write a comment into a list that is to be empty.
//
// Replace a file in one step, so that no process reads the first half of it: write another file beside it, and rename
// that.
//
//	weir-denylist > deny.txt.new && mv deny.txt.new deny.txt
//
// # Redis
//
// A list in Redis is a SET. Its members are entries, without quotes:
//
//	SADD api:deny 203.0.113.0/24 key:user:42
//
// A member that begins with # is a comment. A SET that does not exist is an error, since a misspelled name finds none,
// and neither does a server that has lost its data: put a comment into a list that is to be empty.
//
//	SADD api:deny "# no entry yet"
package lists

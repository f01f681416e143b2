package dialect

import "strconv"

// DistinctName returns a name that is not taken: the name itself, or else the name with
// the first number after it that is free, as in "burst-2". Header fields compare names
// without regard to case, so taken should, too.
func DistinctName(name string, taken func(name string) bool) string {
	candidate := name
	for n := 2; taken(candidate); n++ {
		candidate = name + "-" + strconv.Itoa(n)
	}
	return candidate
}

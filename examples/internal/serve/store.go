package serve

import (
	"cmp"
	"flag"
	"os"
)

// StoreFlag defines the flag -redis. The function that it returns says, once the flags are parsed,
// which store is meant: the flag's, that of the environment's REDIS_URL, or the last resort. A URL
// with a password belongs in REDIS_URL, as everybody on the machine can read the flags of a process;
// so the help does not tell its value.
func StoreFlag(flags *flag.FlagSet, lastResort string) func() string {
	given := flags.String("redis", "", "`URL` of the store (default REDIS_URL, or else "+lastResort+")")
	return func() string { return cmp.Or(*given, os.Getenv("REDIS_URL"), lastResort) }
}

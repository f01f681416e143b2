package headers

import "net/http"

// None writes nothing. A denial still carries Retry-After, which no Writer writes.
var None Writer = none{}

type none struct{}

func (none) Write(http.Header, []Outcome) {}

package headers

import "net/http"

// None writes nothing. A refusal still carries Retry-After, which is not a
// Writer's business.
var None Writer = none{}

type none struct{}

func (none) Write(http.Header, []Policy) {}

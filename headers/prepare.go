package headers

// Prepare returns a Writer that writes what w does, and has worked out already
// what stays the same in every response that is about just these policies, in
// this order: RateLimit-Policy, in [Draft11]. Of each policy, its Name, its Unit and the
// Limit of its Decision count. A response about other policies is written as by w.
//
// It is for those who call a Writer themselves, once, at start-up; the middleware
// does. A Writer that has nothing to prepare is returned as it is.
func Prepare(w Writer, policies []Policy) Writer {
	if p, ok := w.(preparer); ok {
		return p.prepare(policies)
	}
	return w
}

type preparer interface {
	prepare(policies []Policy) Writer
}

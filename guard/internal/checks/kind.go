package checks

import (
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// Kind has the properties of a limit that its requests depend on.
type Kind struct {
	unexported.Traits // of a limit that counts over time

	// Places says that requests hold places until they are served, and Bans that strikes keep their key out.
	Places, Bans bool
}

// KindOf returns the kind of a limit.
func KindOf(limit core.Limit) Kind {
	switch limit.(type) {
	case core.Places:
		return Kind{Places: true}
	case core.Bans:
		return Kind{Bans: true}
	}
	return Kind{Traits: unexported.TraitsOf(limit)}
}

package guard

import (
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// limitKind has the properties of a limit that its requests depend on.
type limitKind struct {
	unexported.Traits // of a limit that counts over time

	// Places says that requests hold places until they are served, and Bans that strikes keep their key out.
	Places, Bans bool
}

// kindOf returns the kind of a limit.
func kindOf(limit core.Limit) limitKind {
	switch limit.(type) {
	case core.Places:
		return limitKind{Places: true}
	case core.Bans:
		return limitKind{Bans: true}
	}
	return limitKind{Traits: unexported.TraitsOf(limit)}
}

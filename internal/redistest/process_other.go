//go:build !linux

package redistest

import "os/exec"

// endWithParent does nothing: only Linux ends a child with its parent. A test
// binary that is killed, or times out, leaves its servers behind here.
func endWithParent(*exec.Cmd) {}

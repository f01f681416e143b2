package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent asks the system to end the command when this process ends,
// however it ends: no Cleanup runs when a test times out.
func endWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

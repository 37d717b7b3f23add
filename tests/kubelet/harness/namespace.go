package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// enterNamespace binds root over the kubelet directory where nobody else sees
// it, then executes this program again in the new namespace.
func enterNamespace(root string) error {
	if root == "" {
		return fmt.Errorf("-root is required")
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	fd, err := syscall.Open(root, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := os.Stat(kubeletDir); err != nil { // leave no trace on the host
		if err := syscall.Mount("tmpfs", filepath.Dir(kubeletDir), "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
		if err := os.Mkdir(kubeletDir, 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), kubeletDir, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), nsEnv+"=1"))
}

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// savedState is what a restart hands to the next manager. The kubelet would
// learn the same from the API server and the container runtime.
type savedState struct {
	Command command
	Config  config
	Pods    []podRecord
	Known   []string // resources the Node object carries
	Readmit bool
	Unread  []byte // input read ahead
}

// restartProcess replaces the process image: every socket and stream breaks as
// when a kubelet dies, while stdin, stdout and the pid stay.
func (s *server) restartProcess(c command, began time.Time) {
	st := s.n.state(c)
	st.Config = s.cfg
	st.Unread, _ = s.in.Peek(s.in.Buffered())
	path, err := st.write()
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), stateEnv+"="+path))
	}
	s.send(c, began, failed(err))
}

// write keeps the state for the process to come.
func (st *savedState) write() (string, error) {
	f, err := os.CreateTemp("", "dmharness-*.json")
	if err != nil {
		return "", err
	}
	if err := json.NewEncoder(f).Encode(st); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// restartSoftly keeps the process: the manager stops in order, and a new one takes over.
func (s *server) restartSoftly(c command, n *node) reply {
	st := n.state(c)
	n.stop()
	time.Sleep(time.Duration(c.DownMS) * time.Millisecond)
	return s.start(s.cfg, &st)
}

func (s *server) resume(path string) {
	began := time.Now()
	b, err := os.ReadFile(path)
	if err != nil {
		fatal("state", err)
	}
	os.Remove(path)
	os.Unsetenv(stateEnv)
	var st savedState
	if err := json.Unmarshal(b, &st); err != nil {
		fatal("state", err)
	}
	s.in = bufio.NewReader(io.MultiReader(strings.NewReader(string(st.Unread)), os.Stdin))
	time.Sleep(time.Duration(st.Command.DownMS) * time.Millisecond)
	s.send(st.Command, began, s.start(st.Config, &st))
}

// state freezes the node for a restart.
func (n *node) state(c command) savedState {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := savedState{Command: c, Readmit: c.Readmit != "manual", Known: sets.List(n.known)}
	for _, p := range n.pods {
		q := *p
		if q.Phase != "active" || slices.Contains(c.Gone, string(q.Pod.UID)) {
			continue
		}
		if c.Reboot {
			q.Running = nil
		}
		if r, ok := c.Running[string(q.Pod.UID)]; ok {
			q.Running = r
		}
		st.Pods = append(st.Pods, q)
	}
	return st
}

// readmit is what the kubelet does with its pods after a restart, before the
// configuration sources count as ready.
func (n *node) readmit() []reply {
	results := []reply{}
	for _, pod := range n.activePods() {
		results = append(results, n.admit(n.find(string(pod.UID))))
	}
	n.ready.Store(true)
	return results
}

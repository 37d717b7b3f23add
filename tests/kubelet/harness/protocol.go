package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// command is one request line. Fields are used by the commands that name them.
type command struct {
	Cmd   string          `json:"cmd"`
	ID    json.RawMessage `json:"id,omitempty"`    // echoed in the reply
	Async bool            `json:"async,omitempty"` // run beside later commands

	config // start

	Pod       json.RawMessage `json:"pod,omitempty"` // object for admit, uid otherwise
	Container string          `json:"container,omitempty"`

	Resource  string `json:"resource,omitempty"` // wait
	Healthy   *int64 `json:"healthy,omitempty"`
	Total     *int64 `json:"total,omitempty"`
	TimeoutMS int    `json:"timeout_ms,omitempty"`
	PollUS    int    `json:"poll_us,omitempty"`

	Mode     string              `json:"mode,omitempty"` // restart: exec, soft
	DownMS   int                 `json:"down_ms,omitempty"`
	Readmit  string              `json:"readmit,omitempty"` // now, manual
	Reboot   bool                `json:"reboot,omitempty"`  // no container runs afterwards
	Gone     []string            `json:"gone,omitempty"`    // uids deleted meanwhile
	Running  map[string][]string `json:"running,omitempty"`
	Ready    *bool               `json:"ready,omitempty"` // sources
	Contains string              `json:"contains,omitempty"`
}

// config is the node set-up; it survives a restart.
type config struct {
	Policy        string            `json:"policy,omitempty"`
	Scope         string            `json:"scope,omitempty"`
	PolicyOptions map[string]string `json:"policy_options,omitempty"`
	NUMA          []int             `json:"numa,omitempty"`
	Distances     [][]uint64        `json:"distances,omitempty"`
	FeatureGates  map[string]bool   `json:"feature_gates,omitempty"`
	PodResources  string            `json:"podresources,omitempty"`
	NoPredicates  bool              `json:"no_predicates,omitempty"`
}

type reply map[string]any

type server struct {
	in  *bufio.Reader
	out sync.Mutex
	cfg config
	mu  sync.Mutex
	n   *node
}

func (s *server) loop() {
	for {
		line, err := s.in.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			began := time.Now()
			var c command
			if e := json.Unmarshal(line, &c); e != nil {
				s.send(c, began, reply{"ok": false, "error": e.Error()})
			} else if c.Async {
				go s.run(c, began)
			} else {
				s.run(c, began)
			}
		}
		if err == io.EOF {
			return
		} else if err != nil {
			fatal("stdin", err)
		}
	}
}

func (s *server) send(c command, began time.Time, r reply) {
	r["cmd"] = c.Cmd
	if c.ID != nil {
		r["id"] = c.ID
	}
	if _, ok := r["ok"]; !ok {
		r["ok"] = true
	}
	r["us"] = time.Since(began).Microseconds()
	r["t_ns"] = time.Now().UnixNano()
	b, err := json.Marshal(r)
	if err != nil {
		fatal("reply", err)
	}
	s.out.Lock()
	defer s.out.Unlock()
	os.Stdout.Write(append(b, '\n'))
}

func failed(err error) reply { return reply{"ok": false, "error": err.Error()} }

func (s *server) run(c command, began time.Time) {
	if c.Cmd == "restart" && c.Mode != "soft" && s.node() != nil {
		s.restartProcess(c, began) // returns on failure only
		return
	}
	s.send(c, began, s.answer(c, s.node()))
}

func (s *server) answer(c command, n *node) reply {
	switch {
	case c.Cmd == "start" && n != nil:
		return failed(errors.New("already started"))
	case c.Cmd == "start":
		return s.start(c.config, nil)
	case n == nil:
		return failed(errors.New("not started"))
	case c.Cmd == "restart":
		return s.restartSoftly(c, n)
	case c.Cmd == "stop":
		n.stop()
		s.put(nil, s.cfg)
		return reply{}
	}
	return n.run(c)
}

func (s *server) node() *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *server) put(n *node, cfg config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.cfg = n, cfg
}

// start brings up a node; st carries the pods over a restart.
func (s *server) start(cfg config, st *savedState) reply {
	if s.cfg.FeatureGates == nil { // the gates are process wide
		if err := setFeatureGates(cfg.FeatureGates); err != nil {
			return failed(err)
		}
	}
	began := time.Now()
	n, err := newNode(cfg, st)
	if err != nil {
		return failed(err)
	}
	served := time.Since(began).Microseconds()
	s.put(n, cfg)
	r := reply{"version": kubernetesVersion(), "serving_us": served,
		"socket": pluginapi.KubeletSocket}
	if st != nil && st.Readmit {
		r["readmit"] = n.readmit()
	}
	return r
}

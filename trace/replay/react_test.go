package replay_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/trace"
	"gleaner/trace/mine"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/replay"
)

// keptBlocks is a program of workers that put blocks into a store and report them, as data
// nodes do to a NameNode.
const keptBlocks = `version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    calls:
      - {call: register#1, method: register, args: {id: '{unknown uuid}'}}
      - {call: put#1, method: put, wait: 10, args: {session: '{reply "register#1" "session"}', block: 'b-{node}-{i}'}}
      - {call: report#1, method: report, args: {block: '{request "put#1" "block"}'}}
      - {call: beat#1, method: beat, args: {session: '{reply "register#1" "session"}'}}
    steps:
      - call: register#1
      - repeat: "30"
        steps: [{call: put#1}, {call: report#1}]
    beats:
      - {call: beat#1, every: 50}
    reactions:
      - {to: [beat], reply: "orders[*].do", is: register, calls: [{call: register#1}, {call: report#1, all: true}]}
      - {to: [put], status: Unauthenticated, calls: [{call: register#1}, {call: report#1, all: true}], again: true}
      - {to: [put], status: Unavailable, wait: 20, again: true}
`

// A store keeps the names of blocks on its disk, and in memory who is registered and which
// blocks were reported. Until it has heard of all blocks it takes no others.
type store struct {
	mu       sync.Mutex
	disk     map[string]bool
	life     int               // how often it was started
	sessions map[string]string // by id
	ids      map[string]string // by worker
	reported map[string]bool
	owed     map[string]bool // blocks on its disk of which it has not heard since it was started
	strange  []string        // what may not happen
}

// start forgets all but the disk.
func (s *store) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	s.sessions, s.reported, s.owed = map[string]string{}, map[string]bool{}, maps.Clone(s.disk)
}

func (s *store) answer(c *trace.Call) replay.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	get := func(path string) string { v, _ := trace.Get(c.Request, path); return v }
	tell := func(path, text string) replay.Reply {
		return replay.Reply{Status: "OK", Leaves: []trace.Leaf{{Path: path, Kind: trace.String, Value: text}}}
	}
	known := s.sessions[c.Sender] != "" && s.sessions[c.Sender] == get("session")
	switch c.Method {
	case "register":
		if id := s.ids[c.Sender]; id != "" && id != get("id") {
			s.strange = append(s.strange, c.Sender+" came back as another")
		}
		s.ids[c.Sender] = get("id")
		s.sessions[c.Sender] = rand.Text()
		return tell("session", s.sessions[c.Sender])
	case "beat":
		if !known {
			return tell("orders[0].do", "register")
		}
	case "report":
		s.reported[get("block")] = true
		delete(s.owed, get("block"))
	case "put":
		switch block := get("block"); {
		case !known:
			return replay.Reply{Status: "Unauthenticated"}
		case s.disk[block]: // the answer was lost
		case len(s.owed) > 0:
			return replay.Reply{Status: "Unavailable"}
		default:
			s.disk[block] = true
		}
	}
	return replay.Reply{Status: "OK"}
}

// TestNodesComeBack: workers whose store is killed and started again register again, as
// themselves, and report all their blocks again. So the store takes new blocks, and in the end
// has each of them once. The report tells how long it was away and how often they reacted.
func TestNodesComeBack(t *testing.T) {
	const workers, blocks = 8, 30
	s := &store{disk: map[string]bool{}, ids: map[string]string{}}
	s.start()
	at, kill := serve(t, "127.0.0.1:0", s.answer)
	o := options(t, keptBlocks, workers, open(t, at))
	o.For, o.Stay = 6*time.Second, true // so that every worker beats after the restart
	var puts atomic.Int64
	o.Record = func(c *trace.Call) {
		if c.Method == "put" && puts.Add(1) == workers*blocks/3 {
			go func() {
				kill()
				time.Sleep(1200 * time.Millisecond)
				s.start()
				serve(t, at, s.answer)
			}()
		}
	}
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != 2 || len(s.sessions) != workers || len(s.owed) > 0 || len(s.disk) != workers*blocks || len(s.strange) > 0 {
		t.Errorf("in its life %d the store knows %d workers, has heard of all but %d of %d blocks; %v", s.life, len(s.sessions), len(s.owed), len(s.disk), s.strange)
	}
	if len(s.reported) != len(s.disk) {
		t.Errorf("%d of %d blocks were reported", len(s.reported), len(s.disk))
	}
	if reg, put := made(r, "register"), made(r, "put"); reg.Sent != workers || reg.Redone < workers || put.Sent != workers*blocks || r.Refused > 0 || r.Unexpected > 0 {
		t.Errorf("%d registrations and %d again, %d blocks, %d refused: %+v", reg.Sent, reg.Redone, put.Sent, r.Refused, r.Fault)
	}
	begun := 0
	for _, a := range r.Reactions {
		begun += a.Begun
	}
	if begun < workers || begun > 3*workers { // at once by a beat and by a refusal
		t.Errorf("%d workers reacted %d times: %+v", workers, begun, r.Reactions)
	}
	if len(r.Gaps) != 1 || r.Gaps[0].Seconds < 1.2 || r.Gaps[0].Seconds > 5 {
		t.Errorf("gaps %+v", r.Gaps)
	}
}

// sessions is a program of workers that a master must know.
const sessions = `version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    calls:
      - {call: register#1, target: master, method: register, args: {id: '{unknown uuid}'}}
      - {call: put#1, target: master, method: put, wait: 40, args: {block: 'b-{node}-{i}'}}
      - {call: beat#1, target: master, method: beat, args: {session: '{reply "register#1" "session"}'}}
    steps: [{call: register#1}, {call: put#1, repeat: "40"}]
    beats:
      - {call: beat#1, every: 100}
    reactions:
      - {to: [beat], reply: "orders[*].do", is: register, calls: [{call: register#1}]}
      - {to: [put], status: Unavailable, wait: 30, again: true}
`

// TestLearnedFromARestart: of recorded runs, two have a restart of the master. The program that
// is learned from all of them reacts to another restart, at another scale, as the nodes did.
func TestLearnedFromARestart(t *testing.T) {
	c := corpus.New()
	for _, n := range []int{3, 4, 6, 8} {
		run := c.Begin(fmt.Sprintf("n%03d", n))
		var mu sync.Mutex
		playMaster(t, sessions, n, n == 4 || n == 8, func(call *trace.Call) {
			mu.Lock()
			defer mu.Unlock()
			run.Add(call)
		})
		c.Learn(run)
	}
	m, err := mine.Learn(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.Program.Write()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range m.Program.Types[0].Reactions {
		line := strings.Join(r.To, " ") + ", " + r.When() + ":"
		for _, redo := range r.Calls {
			line += " " + redo.Call
		}
		if r.Again {
			line += " again"
		}
		got = append(got, line)
	}
	if !slices.Contains(got, "beat, orders[*].do is register: register#1") {
		t.Fatalf("reactions %q in\n%s", got, text)
	}
	const nodes = 5
	r, s := playMaster(t, string(text), nodes, true, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if reg := made(r, "register"); reg.Sent != nodes || reg.Redone < nodes || reg.Redone > 2*nodes {
		t.Errorf("%d registrations, %d again: %+v in\n%s", reg.Sent, reg.Redone, r.Reactions, text)
	}
	if s.life != 2 || len(s.sessions) != nodes || len(s.strange) > 0 {
		t.Errorf("in its life %d the master knows %d workers; %v", s.life, len(s.sessions), s.strange)
	}
}

// playMaster plays a program to a master that is killed and restarted in the middle, or not.
func playMaster(t *testing.T, text string, n int, restart bool, record func(*trace.Call)) (*replay.Result, *store) {
	t.Helper()
	s := &store{disk: map[string]bool{}, ids: map[string]string{}}
	s.start()
	answer := func(call *trace.Call) replay.Reply {
		reply := s.answer(call)
		if call.Method == "put" {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.sessions[call.Sender] == "" {
				return replay.Reply{Status: "Unavailable"}
			}
			block, _ := trace.Get(call.Request, "block")
			s.disk[block] = true
			return replay.Reply{Status: "OK"}
		}
		return reply
	}
	at, kill := serve(t, "127.0.0.1:0", answer)
	o := options(t, text, n, open(t, at))
	o.For, o.Stay = 3*time.Second, true
	o.Seed = uint64(n) // other ids in each run
	o.Setting.Run = fmt.Sprintf("n%03d", n)
	var puts atomic.Int64
	o.Record = func(call *trace.Call) {
		if record != nil {
			record(call)
		}
		if call.Method == "put" && puts.Add(1) == int64(15*n) && restart {
			go func() {
				kill()
				time.Sleep(300 * time.Millisecond)
				s.start()
				serve(t, at, answer)
			}()
		}
	}
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}

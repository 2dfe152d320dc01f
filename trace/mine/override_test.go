package mine

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/program"
)

const twoPuts = `version: 1
scales: [3]
types:
  - type: client
    nodes: "1"
    sender: client
    calls:
      - {call: put#1, target: store, method: put, args: {key: a}}
      - {call: put#2, target: store, method: put, args: {key: b}}
      - {call: get#1, target: store, method: get}
`

// TestForeignOverrides: a rule for a single call is refused by a program that has other
// calls of its method, because there its number means another call.
func TestForeignOverrides(t *testing.T) {
	const single = "arguments: [{call: put#2, argument: key, value: c}]\n"
	const owner = "for: [91e3ff66a6e5]\n"
	third := twoPuts + "      - {call: put#3, target: store, method: put, args: {key: b}}\n"
	unrelated := twoPuts + "      - {call: get#2, target: store, method: get}\n"
	for _, tc := range []struct{ name, program, overrides, want string }{
		{"its own program", twoPuts, owner + single, ""},
		{"calls of other methods do not matter", unrelated, owner + single, ""},
		{"another program", third, owner + single, `o.yaml: it is for another program (for: [91e3ff66a6e5]): the one learned here (085b5a269ad0) makes other calls of the methods that it names`},
		{"another program, by methods", third, owner + "arguments: [{method: put, argument: key, value: c}]", `o.yaml: it is for another program (for: [91e3ff66a6e5]): the one learned here (085b5a269ad0) makes other calls of the methods that it names`},
		{"one of several", third, "for: [91e3ff66a6e5, 085b5a269ad0]\n" + single, ""},
		{"of no program", twoPuts, single, `o.yaml: it names the call "put#2", so it must say of which program; of the one learned here it would be "for: [91e3ff66a6e5]"`},
		{"of all calls of a method", third, "arguments: [{method: put, argument: key, value: c}]", ""},
		{"a join names calls too", twoPuts, "calls: [{call: put#2, join: {after: put#1}}]", `o.yaml: it names the call "put#2", so it must say of which program; of the one learned here it would be "for: [91e3ff66a6e5]"`},
	} {
		p, err := program.Read("p.yaml", []byte(tc.program))
		if err != nil {
			t.Fatal(err)
		}
		o, err := ReadOverrides("o.yaml", []byte(tc.overrides))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := o.Apply("o.yaml", p); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s:\n%s\n%s", tc.name, got, tc.want)
		}
	}
}

// TestSignatures: rules find their calls by type, method, number and what was learned.
func TestSignatures(t *testing.T) {
	const worker = `  - type: worker
    nodes: n
    sender: worker-{node}
    calls:
      - {call: put#3, target: store, method: put, args: {key: a, host: "node-{node}", port: 7}}
      - {call: get#2, target: store, method: get, args: {key: a, host: "node-{node}", port: "7", "tags[0].name": b}}
`
	for _, tc := range []struct{ name, overrides, want string }{
		{"of a method", "arguments: [{method: put, argument: key, value: x}]", "put#1.key put#2.key put#3.key"},
		{"of a type", "arguments: [{type: worker, argument: key, value: x}]", "put#3.key get#2.key"},
		{"of a type and a method", "arguments: [{type: client, method: put, argument: key, value: x}]", "put#1.key put#2.key"},
		{"one of them", "arguments: [{type: client, method: put, nth: 2, argument: key, value: x}]", "put#2.key"},
		{"everywhere", "arguments: [{argument: key, value: x}]", "put#1.key put#2.key put#3.key get#2.key"},
		{"by what was learned", `arguments: [{was: "node-{node}", value: x}]`, "put#3.host get#2.host"},
		{"a number is no text", "arguments: [{was: 7, value: x}]", "put#3.port"},
		{"a name and what was learned", "arguments: [{argument: key, was: a, value: x}]", "put#1.key put#3.key get#2.key"},
		{"of a list that is none in the program", `arguments: [{argument: "tags[*].name", value: x}]`, "get#2.tags[0].name"},
		{"of another element", `arguments: [{argument: "tags[1].name", value: x}]`, `o.yaml: no call has an argument "tags[1].name"`},
		{"not what was learned", "arguments: [{argument: key, was: z, value: x}]", `o.yaml: no call has an argument that was "z"`},
		{"no such type", "arguments: [{type: clerk, argument: key, value: x}]", `o.yaml: no call by "clerk" has an argument "key"`},
		{"no such call", "arguments: [{type: client, method: put, nth: 3, argument: key, value: x}]", `o.yaml: no call of "put" by "client" with the number 3 has an argument "key"`},
		{"the number of nothing", "arguments: [{method: put, nth: 3, argument: key, value: x}]", "o.yaml: nth: 3 counts the calls of a type and a method from 1, so both must be named"},
		{"of nothing", "arguments: [{method: put, value: x}]", `o.yaml: a rule for a call of "put" names no argument`},
		{"a wait", "calls: [{type: worker, method: put, join: []}]", ""},
		{"a wait of nobody", "calls: [{type: worker, method: puts, join: []}]", `o.yaml: there is no call of "puts" by "worker" that could join others`},
	} {
		p, got := overridden(t, worker, tc.overrides)
		for c := range p.EachCall() {
			for _, a := range c.Args {
				if a.Value.String() == "x" {
					got = append(got, c.Name+"."+a.Path)
				}
			}
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s:\n%s\n%s", tc.name, text, tc.want)
		}
	}
}

// overridden is a program with two puts and another type, corrected; and what is wrong with the corrections, if something is.
func overridden(t *testing.T, worker, overrides string) (p *program.Program, wrong []string) {
	t.Helper()
	p, err := program.Read("p.yaml", []byte(twoPuts+worker))
	if err != nil {
		t.Fatal(err)
	}
	o, err := ReadOverrides("o.yaml", []byte(overrides))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Apply("o.yaml", p); err != nil {
		wrong = []string{err.Error()}
	}
	return p, wrong
}

// TestReactionsOfOverrides: a reaction is added to the types that call one of its methods.
func TestReactionsOfOverrides(t *testing.T) {
	const worker = `  - type: worker
    nodes: n
    sender: worker-{node}
    calls:
      - {call: join#1, target: store, method: join}
      - {call: put#3, target: store, method: put}
      - {call: beat#1, target: store, method: beat}
`
	for _, tc := range []struct{ name, overrides, want string }{
		{"of all types", `reactions: [{to: "put|get", status: "503", wait: 100, again: true}]`, "client: put get refused with 503, again; worker: put refused with 503, again"},
		{"of one", `reactions: [{type: worker, to: "put|get", status: "503", reason: late, again: true}]`, "worker: put refused with 503 late, again"},
		{"with calls", `reactions: [{to: beat, reply: "do[*]", is: join, calls: [{call: join}, {call: put, all: true}]}]`, "worker: beat do[*] is join, join#1, put#3 all"},
		{"by number", `{for: [7adf5ddb9caa], reactions: [{to: beat, reply: do, is: join, calls: [{call: put#3}]}]}`, "worker: beat do is join, put#3"},
		{"by number, of no program", `reactions: [{to: beat, reply: do, is: join, calls: [{call: put#3}]}]`, `o.yaml: it names the call "put#3", so it must say of which program; of the one learned here it would be "for: [7adf5ddb9caa]"`},
		{"to nothing", `reactions: [{to: puts, status: "503", again: true}]`, `o.yaml: there is no call of "puts" that a node could react to`},
		{"of another type", `reactions: [{type: client, to: beat, status: "503", again: true}]`, `o.yaml: there is no call of "beat" by "client" that a node could react to`},
		{"calls of others", `reactions: [{type: client, to: put, status: "503", calls: [{call: join}]}]`, `o.yaml: the program made with it: type client: a reaction makes the call "join", which this type does not have`},
		{"to everything", `reactions: [{to: put, again: true}]`, `o.yaml: the program made with it: type client: a reaction is to a leaf of a reply, or to the status of a refusal`},
		{"to success", `reactions: [{to: put, status: "200", again: true}]`, `o.yaml: the program made with it: type client: a reaction to the status "200": that is no refusal`},
		{"none", `reactions: [{to: put, status: "500"}]`, `o.yaml: the program made with it: type client: a reaction makes calls, or makes a call again`},
	} {
		p, got := overridden(t, worker, tc.overrides)
		if got == nil {
			got = reactionsOf(t, p)
		}
		if text := strings.Join(got, "; "); text != tc.want {
			t.Errorf("%s:\n%s\n%s", tc.name, text, tc.want)
		}
	}
}

// reactionsOf are the reactions of a program, written, read again and in short.
func reactionsOf(t *testing.T, p *program.Program) (out []string) {
	t.Helper()
	text, err := p.Write()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Read("p.yaml", text); err != nil {
		t.Fatal(err)
	}
	for _, kind := range p.Types {
		for _, r := range kind.Reactions {
			line := kind.Name + ": " + strings.Join(r.To, " ") + " " + r.When()
			for _, c := range r.Calls {
				line += ", " + c.Call
				if c.All {
					line += " all"
				}
			}
			if r.Again {
				line += ", again"
			}
			out = append(out, line)
		}
	}
	return out
}

// TestTemplate: a template changes nothing as it is, and its lines are overrides of the
// program once their # is away.
func TestTemplate(t *testing.T) {
	m, _, _ := taught(t, func(tp *tape) {
		for i := range 3 * tp.n {
			tp.call("client", "put", []trace.Leaf{minetest.Leaf("src", fmt.Sprintf(`"/in/%d"`, i)), minetest.Leaf("size", tp.id()), minetest.Leaf("tag", `"{`+tp.id()+`}x"`)}, nil)
		}
	})
	text, err := m.Template()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := m.Program.Write()
	for _, tc := range []struct {
		text    string
		rules   int
		changes bool
	}{{string(text), 0, false}, {strings.ReplaceAll(string(text), "# - ", "- "), 2, true}} {
		o, err := ReadOverrides("t.yaml", []byte(tc.text))
		if err != nil {
			t.Fatalf("%v\n%s", err, tc.text)
		}
		if err := o.Apply("t.yaml", m.Program); err != nil || len(o.Arguments) != tc.rules {
			t.Errorf("%d rules, %v\n%s", len(o.Arguments), err, tc.text)
		}
		if after, _ := m.Program.Write(); (string(after) != string(before)) != tc.changes {
			t.Errorf("changed: %v", !tc.changes)
		}
	}
}

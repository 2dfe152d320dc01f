package mine

import (
	"testing"

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
		{"another program", third, owner + single, `o.yaml: it is for another program (for: [91e3ff66a6e5]): in the one learned here (085b5a269ad0) "put#2" may be another call`},
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

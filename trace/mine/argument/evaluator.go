package argument

import (
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// An evaluator computes what a program says at recorded calls, as a replay computes it
// (trace/value): the recording is in the place of the target.
type evaluator struct {
	rules *Rules
	flows *flow.Evaluator
	occ   flow.Occ
	scene value.Scene
	said  map[*slot][]program.Alt       // the rules of slots, as the program says them
	from  map[*program.Past]flow.Source // where those among them from earlier calls find their values
}

func newEvaluator(m *Rules) *evaluator {
	e := &evaluator{rules: m, flows: flow.New(m.sites), said: map[*slot][]program.Alt{}, from: map[*program.Past]flow.Source{}}
	e.scene.Arg, e.scene.Past = e.argument, e.past
	return e
}

// at is the scene of an occurrence.
func (e *evaluator) at(o flow.Occ) *value.Scene {
	call := o.CallOf()
	e.occ, e.scene.Place, e.scene.At = o, o.Place(), call.Start
	e.scene.Sender, e.scene.Address = e.text(call.Sender.Name), e.text(call.Sender.Address)
	return &e.scene
}

func (e *evaluator) text(v intern.Symbol) string { return e.rules.c.Syms.Text[v] }

// gives reports whether an alternative gives a value at an occurrence.
func (e *evaluator) gives(a program.Alt, o flow.Occ, want intern.Symbol) bool {
	got, known := e.at(o).Alt(a)
	return known && program.Plain(got) == e.text(want)
}

// argument is another argument of the call, by its name or by its path in the request.
func (e *evaluator) argument(path string) (string, bool) {
	call := e.occ.CallOf()
	if a := e.rules.sites.All[call.Site].Named(path); a != nil {
		v, ok := e.flows.Argument(call, int32(a.Index), e.occ.Star)
		return e.text(v), ok
	}
	for pos, p := range e.rules.c.Shapes.Paths[call.Request.Shape] {
		if e.rules.c.Paths.Text[p] == path {
			return e.text(call.Request.Values[pos]), true
		}
	}
	return "", false
}

func (e *evaluator) past(p *program.Past) (string, bool) {
	v, ok := e.from[p].Value(e.flows, e.occ)
	return e.text(v), ok
}

// learn makes sure that the values of a slot's rules can be computed.
func (e *evaluator) learn(s *slot) {
	for _, r := range s.best() {
		a := r.alt(e.rules, s.arg)
		e.said[s] = append(e.said[s], a)
		src, ok := r.(taken)
		if past, fromCall := a.(*program.Past); ok && fromCall {
			e.flows.Need(src.Source)
			e.from[past] = src.Source
		}
	}
}

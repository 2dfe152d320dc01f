// Package plan prepares a program to be played at one scale: its names are resolved, and
// it is known which leaves of which calls arguments come from. A plan does not change
// while it is played.
package plan

import (
	"slices"
	"strings"
	"time"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// A Plan is a program prepared for one scale.
type Plan struct {
	Scale   int
	Kinds   []*Kind
	Sites   []*Site
	byName  map[string]*Site
	sources map[*program.Past]*Source
	Indexes []*Index // of calls of all nodes; a node's own calls are in its kind's indexes

	Reactions []*Reaction
}

// A Kind is a type of node.
type Kind struct {
	*program.NodeType
	At     int // in Plan.Kinds
	Count  int
	Sites  []*Site
	Lanes  Lanes
	Roles  []string // the roles that it calls
	Sent   bool     // one of them has a target
	Own    []*Index // of its nodes' own calls
	Pools  int      // unordered sources in its nodes' own calls
	Starts []*Kind  // kinds whose start waits for one of its calls
}

// Lanes are the sequences of calls that a node makes beside each other.
type Lanes struct {
	Steps []Step
	Aside []Step
	Beats []Beat
	Reach []*Site // called for calls of others

	Reactions []*Reaction // that make calls
}

// A Step is a program.Step with its call resolved. Calls made for calls of others are
// left out.
type Step struct {
	program.Step
	Site *Site
	Body []Step // of a loop
}

// A Beat is a call at regular intervals.
type Beat struct {
	Site  *Site
	Every program.Formula
}

// Period is the time between two beats of a node, in nanoseconds.
func (b *Beat) Period(scale, node int) int64 { return max(value.Millis(b.Every, scale, node), 1e6) }

// A Site is a place that makes a call.
type Site struct {
	*program.Call
	ID      int // in Plan.Sites
	Local   int // in its kind's Sites
	Kind    *Kind
	Role    int  // in its kind's Roles
	Sent    bool // its role has a target
	Push    bool // it is no call: the node waits for a push of the target
	inMain  bool // it is in the steps
	place   int  // where it is first in the steps
	Nature  Nature
	Request Request
	Global  bool // some argument comes from calls of others
	Enters  []*Index
	Tells   [2]bool               // by part: others take arguments from its calls
	keep    [2]map[string]*wanted // by part: the leaves to keep, by class
	Starts  []*Kind               // kinds whose start waits for this call
	Feeds   []*Site               // sites that are called for this call
	Opens   []*Site               // sites that wait for it: see program.Join
	After   []After               // calls that it waits for, each with the same argument

	Reactions         []*Reaction // to its replies
	Redone, RedoneAll bool        // a reaction makes it again, or all that were made of it
}

// Reads reports whether anything depends on what the replies to its calls say, beside whether they are refusals.
func (st *Site) Reads() bool {
	return st.Until != nil || len(st.keep[program.Reply]) > 0 || len(st.Enters) > 0 || len(st.Feeds) > 0 ||
		slices.ContainsFunc(st.Reactions, func(r *Reaction) bool { return r.Status == "" })
}

// An After is calls of which the one with the same argument must be answered before.
type After struct {
	In   *Index
	Same string // the argument
}

// A Request is the arguments of a site.
type Request struct {
	Args   []Arg
	ByPath map[string]int
	Lists  []List
}

// A Nature is why a call is made.
type Nature uint8

// The natures of calls.
const (
	InSteps Nature = iota
	InAside
	InBeats
	ByReach
	InReaction
)

// String is its name in a result.
func (n Nature) String() string { return [...]string{"step", "aside", "beat", "reach", "reaction"}[n] }

// An Arg is one argument of a site.
type Arg struct {
	program.Arg
	List  int         // the list that it is in; -1 for none
	Fixed *trace.Leaf // set if it has no holes
	Quad  bool        // it has the form of an IPv4 address
}

// A List is one whose length varies: "blocks[0].blocks".
type List struct {
	Prefix string
	Args   []int
}

// New prepares a program. sent tells which roles have a target.
func New(p *program.Program, s grow.Setting, sent func(role string) bool) *Plan {
	pl := &Plan{Scale: s.Scale, byName: map[string]*Site{}, sources: map[*program.Past]*Source{}}
	for i := range p.Types {
		k := &Kind{NodeType: &p.Types[i], At: i}
		k.Count = s.Count(k.NodeType)
		pl.Kinds = append(pl.Kinds, k)
		for c := range k.Calls {
			pl.addSite(k, &k.Calls[c], sent)
		}
	}
	for _, k := range pl.Kinds {
		k.layOut(pl)
		k.react(pl)
		if k.Start != nil {
			after := pl.byName[k.Start.After]
			after.Starts = append(after.Starts, k)
			after.Kind.Starts = append(after.Kind.Starts, k)
		}
	}
	for _, st := range pl.Sites {
		st.Request.layOut(st.Args)
		for _, j := range st.Joins {
			if after := pl.byName[j.After]; j.Same == "" && !slices.Contains(after.Opens, st) {
				after.Opens = append(after.Opens, st)
			}
		}
	}
	for _, st := range pl.Sites {
		pl.findSources(st)
		for _, j := range st.Joins {
			if j.Same != "" {
				pl.follow(st, pl.byName[j.After], j.Same)
			}
		}
	}
	return pl
}

func (pl *Plan) addSite(k *Kind, c *program.Call, sent func(string) bool) {
	st := &Site{Call: c, ID: len(pl.Sites), Local: len(k.Sites), Kind: k, Role: slices.Index(k.Roles, c.Target), Sent: sent(c.Target), Nature: InAside,
		Push: strings.HasSuffix(c.Method, trace.Push)}
	if st.Role < 0 {
		st.Role = len(k.Roles)
		k.Roles = append(k.Roles, c.Target)
	}
	k.Sent = k.Sent || st.Sent
	pl.Sites = append(pl.Sites, st)
	pl.byName[c.Name] = st
	k.Sites = append(k.Sites, st)
}

// layOut sorts a type's calls into steps, calls aside, beats, and calls made for calls
// of others.
func (k *Kind) layOut(pl *Plan) {
	places := 0
	var convert func(steps []program.Step, main bool) []Step
	convert = func(steps []program.Step, main bool) []Step {
		out := make([]Step, 0, len(steps))
		for i := range steps {
			s := Step{Step: steps[i], Site: pl.byName[steps[i].Call], Body: convert(steps[i].Steps, main)}
			s.Steps = nil
			for k := range s.Body {
				s.Steps = append(s.Steps, s.Body[k].Step)
			}
			if s.Site != nil && main && !s.Site.inMain {
				s.Site.inMain, s.Site.Nature, s.Site.place = true, InSteps, places
				places++
			}
			if s.Site == nil || main || len(s.Site.Reach) == 0 {
				out = append(out, s)
				continue
			}
			if s.Site.Nature = ByReach; slices.Contains(k.Lanes.Reach, s.Site) {
				continue
			}
			k.Lanes.Reach = append(k.Lanes.Reach, s.Site)
			for _, r := range s.Site.Reach {
				from := pl.byName[r.From]
				from.Feeds = append(from.Feeds, s.Site)
			}
		}
		return out
	}
	k.Lanes.Steps, k.Lanes.Aside = convert(k.Steps, true), convert(k.Aside, false)
	for i := range k.Beats {
		st := pl.byName[k.Beats[i].Call]
		st.Nature = InBeats
		k.Lanes.Beats = append(k.Lanes.Beats, Beat{st, k.Beats[i].Every.Formula})
	}
}

// layOut finds the lists among the arguments, and the arguments without holes.
func (r *Request) layOut(args program.Args) {
	r.ByPath = map[string]int{}
	for i := range args {
		a := Arg{Arg: args[i], List: -1}
		r.ByPath[a.Path] = i
		if at := strings.LastIndex(a.Path, "[*]"); at >= 0 {
			a.List = slices.IndexFunc(r.Lists, func(l List) bool { return l.Prefix == a.Path[:at] })
			if a.List < 0 {
				a.List = len(r.Lists)
				r.Lists = append(r.Lists, List{Prefix: a.Path[:at]})
			}
			r.Lists[a.List].Args = append(r.Lists[a.List].Args, i)
		}
		if len(a.Value.Holes()) == 0 {
			l := a.Leaf(a.Path, a.Value.Fill(nil))
			a.Fixed = &l
		}
		a.Quad = value.Quad(a.Value.Fill(func(*program.Hole) string { return "0" }))
		r.Args = append(r.Args, a)
	}
}

// Leaf is the argument with a value, at its path in the request.
func (a *Arg) Leaf(path, text string) trace.Leaf {
	l := trace.Leaf{Path: path, Kind: trace.String, Value: text}
	if a.Value.Bare {
		l.Kind = value.Bare(text)
	}
	return l
}

// BeatsOnly is how long a program without steps is played: three of its longest beats.
func (pl *Plan) BeatsOnly() time.Duration {
	longest := int64(0)
	for _, k := range pl.Kinds {
		if k.Count > 0 && len(k.Lanes.Steps)+len(k.Lanes.Aside) > 0 {
			return 0
		}
		for _, b := range k.Lanes.Beats {
			longest = max(longest, value.Millis(b.Every, pl.Scale, 0))
		}
	}
	return max(3*time.Duration(longest), time.Second)
}

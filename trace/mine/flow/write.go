package flow

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// Alt is the source as a program writes it; own names the arguments of the call.
func (r Source) Alt(s *site.Sites, own []*site.Arg) program.Alt {
	out := program.Alt{Word: int(r.word), Pick: "last", By: "me"}
	switch r.key {
	case ownName:
		out.Kind = program.Sender
		return out
	case ownAddress:
		out.Kind = program.Address
		return out
	case ownCall:
		out.Kind, out.Path = program.Own, s.Corpus.Paths.Text[r.path]
	default:
		out.Kind = program.Request
		if r.part == corpus.Response {
			out.Kind = program.Reply
		}
		out.Path = s.Corpus.Paths.Text[r.path]
	}
	switch r.index {
	case byItem:
		out.Index = "item"
	case byRow:
		out.Index = "row"
	case byNode:
		out.Index = "node"
	case byNth:
		out.Index = "i"
	}
	out.Level = int(r.level)
	switch r.from.kind {
	case siteScope:
		if r.key != ownCall {
			out.From = s.All[r.from.id].Label
		}
	case opScope:
		out.Any, out.From = true, s.Corpus.OpOf[r.from.id].Method
	default:
		out.Any = true
	}
	out.Pick = [...]string{last: "last", nthOne: "i", nodeOne: "node", firstOne: "first", each: "each"}[r.sel]
	switch r.key {
	case anyCall:
		out.By = "anyone"
	case sameAddress:
		out.By = "address"
	case sameArg:
		out.By, out.WhereIn, out.Where, out.Is = "where", "request", className(s.Corpus, r.q), own[r.arg].Name
		if r.qPart == corpus.Response {
			out.WhereIn = "reply"
		}
	}
	return out
}

func className(c *corpus.Corpus, q intern.ClassID) string {
	for text, id := range c.Paths.Classes {
		if id == q {
			return text
		}
	}
	return ""
}

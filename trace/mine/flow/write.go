package flow

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// Alt is the source as a program writes it; own names the arguments of the call.
func (r Source) Alt(s *site.Sites, own []*site.Arg) program.Alt {
	word, index, path := program.WordAt(int(r.word)), program.Index{By: r.index, Level: int(r.level)}, s.Corpus.Paths.Text[r.path]
	switch r.key {
	case ownName:
		return program.Sender{Word: word}
	case ownAddress:
		return program.Address{Word: word}
	case ownCall:
		return program.Own{Path: path, Index: index, Word: word}
	}
	out := &program.Past{Part: partOf(r.part), Path: path, Pick: r.sel, Index: index, Word: word}
	switch r.from.kind {
	case siteScope:
		out.Of.Call = s.All[r.from.id].Label
	case opScope:
		out.Of.Method = s.Corpus.OpOf[r.from.id].Method
	}
	switch r.key {
	case anyCall:
		out.By = program.ByAnyone
	case sameAddress:
		out.By = program.ByAddress
	case sameArg:
		out.By = program.ByWhere
		out.Where = program.Where{In: partOf(r.qPart), Path: className(s.Corpus, r.q), Is: own[r.arg].Name}
	}
	return out
}

func partOf(p corpus.Part) program.Part {
	if p == corpus.Response {
		return program.Reply
	}
	return program.Request
}

func className(c *corpus.Corpus, q intern.ClassID) string {
	for text, id := range c.Paths.Classes {
		if id == q {
			return text
		}
	}
	return ""
}

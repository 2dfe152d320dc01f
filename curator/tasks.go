package curator

import (
	"bytes"
	"encoding/binary"
	"errors"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
)

// pairOf gives a task as a pair. Pairs sort as tasks are handed over, and two
// with the same key are one task.
func pairOf(t task.Task) shuffle.Pair {
	key := binary.BigEndian.AppendUint64(nil, ^(uint64(t.Priority) ^ 1<<63)) // larger first, the sign flipped
	for _, s := range [][]byte{[]byte(t.Job), []byte(t.Kind), t.What} {
		key = appendString(key, s)
	}
	return shuffle.Pair{Key: key, Value: append(appendString(nil, []byte(t.Why)), t.Seen...)}
}

// taskOf is the reverse of pairOf.
func taskOf(p *shuffle.Pair) (task.Task, error) {
	if len(p.Key) < 8 {
		return task.Task{}, errTask
	}
	t := task.Task{Priority: int64(^binary.BigEndian.Uint64(p.Key) ^ 1<<63)}
	job, rest, err1 := cutString(p.Key[8:])
	kind, rest, err2 := cutString(rest)
	what, rest, err3 := cutString(rest)
	why, seen, err4 := cutString(p.Value)
	if err := errors.Join(err1, err2, err3, err4); err != nil || len(rest) > 0 {
		return task.Task{}, errTask
	}
	t.Job, t.Kind, t.What, t.Why, t.Seen = string(job), string(kind), bytes.Clone(what), string(why), bytes.Clone(seen)
	return t, nil
}

var errTask = errors.New("curator: a task does not parse")

func appendString(dst, s []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func cutString(b []byte) (s, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, errTask
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}

package intern

import "encoding/binary"

// A ShapeID is the paths of a message in their order, kept once; 0 is a message
// without any.
type ShapeID int32

// Shapes keeps every list of paths that some message has, once.
type Shapes struct {
	Paths [][]PathID // of each shape
	ids   map[string]ShapeID
	at    []map[PathID]int32 // where a path stands in a shape; nil until asked for
	key   []byte
}

// NewShapes has only the empty shape.
func NewShapes() Shapes {
	return Shapes{ids: map[string]ShapeID{"": 0}, Paths: [][]PathID{nil}, at: []map[PathID]int32{nil}}
}

// Begin begins a message, Push adds a path to it, and End gives its shape.
func (s *Shapes) Begin() { s.key = s.key[:0] }

// Push adds a path to the message begun.
func (s *Shapes) Push(p PathID) { s.key = binary.LittleEndian.AppendUint32(s.key, uint32(p)) }

// End is the shape of the message begun.
func (s *Shapes) End() ShapeID {
	if id, ok := s.ids[string(s.key)]; ok {
		return id
	}
	id := ShapeID(len(s.Paths))
	s.ids[string(s.key)] = id
	list := make([]PathID, len(s.key)/4)
	for i := range list {
		list[i] = PathID(binary.LittleEndian.Uint32(s.key[4*i:]))
	}
	s.Paths, s.at = append(s.Paths, list), append(s.at, nil)
	return id
}

// Find gives where a path stands in a shape, -1 for nowhere.
func (s *Shapes) Find(id ShapeID, p PathID) int {
	if s.at[id] == nil {
		s.at[id] = make(map[PathID]int32, len(s.Paths[id]))
		for i, path := range s.Paths[id] {
			s.at[id][path] = int32(i)
		}
	}
	if i, ok := s.at[id][p]; ok {
		return int(i)
	}
	return -1
}

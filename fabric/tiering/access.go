package tiering

import (
	"math/bits"
	"time"
)

// A Period is a stretch of ten seconds, numbered from 1970 on. All reads of a block in one period count as one: a scan
// that passes through it reads it once, however small its steps are.
type Period uint32

// PeriodLength is how long a period is.
const PeriodLength = 10 * time.Second

// PeriodOf gives the period of a time.
func PeriodOf(t time.Time) Period { return Period(t.Unix() / int64(PeriodLength/time.Second)) }

// Time is when the period began; the zero time for the zero period.
func (p Period) Time() time.Time {
	if p == 0 {
		return time.Time{}
	}
	return time.Unix(int64(p)*int64(PeriodLength/time.Second), 0).UTC()
}

// Remembered is how many periods an Access looks back.
const Remembered = 64

// An Access says when a group was last used, to the period.
type Access struct {
	Read    Period // 0 if it was never read
	Written Period // 0 if it was never written
	Reads   uint64 // bit n is set if a block of it was read again n periods before Read
}

// ReadOnce is the access of a group of which a block was read in one period, for the first time as far as is known: a scan reads each once.
func ReadOnce(p Period) Access { return Access{Read: p} }

// ReadIn is the access of a group of which a block was read again in one period.
func ReadIn(p Period) Access { return Access{Read: p, Reads: 1} }

// WrittenIn is the access of a group that was written in one period.
func WrittenIn(p Period) Access { return Access{Written: p} }

// And gives what two accesses of one group say together. The order does not matter, nor does saying a thing twice.
func (a Access) And(b Access) Access {
	last := max(a.Read, b.Read)
	return Access{Read: last, Written: max(a.Written, b.Written), Reads: a.seenFrom(last) | b.seenFrom(last)}
}

// seenFrom gives the periods with reads as seen from a period that is not before the last read.
func (a Access) seenFrom(p Period) uint64 { return a.Reads << (p - a.Read) }

// ReadOfLate is in how many of the last Remembered periods up to now a block of the group was read again.
func (a Access) ReadOfLate(now Period) int { return bits.OnesCount64(a.seenFrom(max(now, a.Read))) }

// Hot reports whether the group was read again and again.
func (a Access) Hot(now Period) bool { return a.ReadOfLate(now) >= hot }

// hot is in how many periods of late a block of a hot group was read again.
const hot = 3

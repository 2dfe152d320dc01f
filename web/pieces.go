package web

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A vDisk is sent in pieces, in order, without what is zeros: where a piece begins and how long it is, 8 bytes
// each, big endian, then its bytes. The last has no bytes: where it begins is the size of the
// vDisk. If something failed that is -1, and a Problem follows.

// maxPiece is more than any piece has.
const maxPiece = 16 << 20

func writePiece(w io.Writer, p []byte, offset int64) error {
	var lead [16]byte
	binary.BigEndian.PutUint64(lead[:8], uint64(offset))
	binary.BigEndian.PutUint64(lead[8:], uint64(len(p)))
	if _, err := w.Write(lead[:]); err != nil {
		return err
	}
	_, err := w.Write(p)
	return err
}

// endPieces writes the last piece. If that fails nobody is there to be told.
func endPieces(w io.Writer, size int64, err error) {
	if err == nil {
		_ = writePiece(w, nil, size)
		return
	}
	_ = writePiece(w, nil, -1)
	_ = json.NewEncoder(w).Encode(ProblemOf(err))
}

// ReadPieces calls write with each piece of a vDisk, and gives its size.
func ReadPieces(r io.Reader, write func(p []byte, offset int64) error) (size int64, err error) {
	var buf []byte
	for end := int64(0); ; {
		var lead [16]byte
		if _, err := io.ReadFull(r, lead[:]); err != nil {
			return 0, fmt.Errorf("the vDisk ends early: %w", err)
		}
		offset, n := int64(binary.BigEndian.Uint64(lead[:8])), int64(binary.BigEndian.Uint64(lead[8:]))
		switch {
		case offset == -1 && n == 0:
			return 0, readProblem(r)
		case offset < end || n < 0 || n > maxPiece || offset+n < offset:
			return 0, fmt.Errorf("a piece of %d bytes at %d after %d", n, offset, end)
		case n == 0:
			return offset, nil
		}
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return 0, fmt.Errorf("the vDisk ends early: %w", err)
		}
		if err := write(buf[:n], offset); err != nil {
			return 0, err
		}
		end = offset + n
	}
}

func readProblem(r io.Reader) error {
	var p Problem
	if err := json.NewDecoder(io.LimitReader(r, 1<<16)).Decode(&p); err != nil || p.Error == "" {
		return errors.New("the vDisk cannot be read")
	}
	return errors.New(p.Error)
}

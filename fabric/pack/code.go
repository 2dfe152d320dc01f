package pack

import (
	"fmt"

	"github.com/klauspost/reedsolomon"
)

// Cut cuts bytes into data shards of a length, the last ones filled up with zeros, and computes parity shards: any
// of all as many as there are data shards give the others (Reed-Solomon).
func Cut(image []byte, data, parity int, length int64) ([][]byte, error) {
	shards := make([][]byte, data+parity)
	for i := range shards {
		shards[i] = make([]byte, length)
		if i < data {
			copy(shards[i], image[min(int64(i)*length, int64(len(image))):])
		}
	}
	coder, err := reedsolomon.New(data, parity)
	if err == nil {
		err = coder.Encode(shards)
	}
	if err != nil {
		return nil, fmt.Errorf("cut into %d and %d shards: %w", data, parity, err)
	}
	return shards, nil
}

// Compute gives a shard, or the same part of it, from those that are there; the others are nil.
func Compute(shards [][]byte, data, want int) ([]byte, error) {
	coder, err := reedsolomon.New(data, len(shards)-data)
	if err == nil {
		required := make([]bool, len(shards))
		required[want] = true
		err = coder.ReconstructSome(shards, required)
	}
	if err != nil {
		return nil, fmt.Errorf("compute shard %d of %d and %d: %w", want, data, len(shards)-data, err)
	}
	return shards[want], nil
}

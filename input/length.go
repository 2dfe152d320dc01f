package input

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseLength reads a length of time as Go does, and weeks and days before it: 2w, 30d, 1d12h.
func ParseLength(text string) (time.Duration, error) {
	total, rest := time.Duration(0), text
	for _, unit := range []struct {
		name string
		long time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		count, behind, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(count, 64)
		if err != nil || !(math.Abs(n)*float64(unit.long) < math.MaxInt64) {
			return 0, errors.New("not a length of time")
		}
		total, rest = total+time.Duration(n*float64(unit.long)), behind
	}
	if rest == "" && text != "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	return total + d, err
}

package spec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Number is an attribute whose value is uncertain.
type Number struct {
	Of, Name string // as in storage_unit "SSD", price
	Document string // its file
}

// Drawn says where in its range every uncertain number lies: the share of values
// below it, from 0 to 1. Otherwise each is at its median.
func Drawn(at func(Number) float64) Edit { return func(r *reader) { r.drawn = at } }

// settle is the value of an attribute, one of its values if it is uncertain.
func (r *reader) settle(n *node, name, text string) (string, error) {
	u, err := uncertain(text)
	if errors.Is(err, errCertain) {
		return text, nil
	}
	if err != nil {
		return "", err
	}
	share := 0.5
	if r.drawn != nil {
		share = r.drawn(Number{n.describe(), name, r.file})
	}
	return u.write(u.at(share)), nil
}

// errCertain is returned for a quantity that is one number.
var errCertain = errors.New("one number")

func certain(text string) bool {
	_, err := uncertain(text)
	return errors.Is(err, errCertain)
}

// A quantity is a number with what stands around it: $200, 90MBps.
type quantity struct {
	before, after string
	number        float64
}

func (q quantity) write(x float64) string {
	return q.before + strconv.FormatFloat(x, 'g', -1, 64) + q.after
}

// cut finds the number in a quantity.
func cut(text string) (quantity, error) {
	text = strings.TrimSpace(text)
	from := strings.IndexAny(text, "0123456789.")
	if from < 0 {
		return quantity{}, fmt.Errorf("%q is not a number", text)
	}
	for to := len(text); to > from; to-- {
		if x, err := strconv.ParseFloat(text[from:to], 64); err == nil && !math.IsInf(x, 0) {
			return quantity{text[:from], text[to:], x}, nil
		}
	}
	return quantity{}, fmt.Errorf("%q is not a number", text)
}

// An uncertainty is a distribution of values with one unit.
type uncertainty struct {
	quantity          // its unit
	least, mode, most float64
	deviation         float64 // of a normal distribution around mode; 0 if it has ends
	three             bool    // a triangle
}

// uncertain reads 200..300 (every value as likely), 200..220..300 (a triangle with
// its peak at 220) and 250~10% or 250~25 (normal, with its standard deviation). A unit
// may be written once, at the end.
func uncertain(text string) (uncertainty, error) {
	if middle, deviation, ok := strings.Cut(text, "~"); ok {
		return normal(text, middle, deviation)
	}
	parts := strings.Split(text, "..")
	if len(parts) == 1 {
		return uncertainty{}, errCertain
	}
	if len(parts) > 3 {
		return uncertainty{}, fmt.Errorf("%q is not a range, for example 200..300 or 200..220..300", text)
	}
	numbers, unit, err := alike(parts)
	if err != nil {
		return uncertainty{}, fmt.Errorf("%q: %v", text, err)
	}
	u := uncertainty{quantity: unit, least: numbers[0], mode: numbers[0], most: numbers[len(numbers)-1], three: len(parts) == 3}
	if u.three {
		u.mode = numbers[1]
	}
	if !(u.least <= u.mode && u.mode <= u.most) {
		return uncertainty{}, fmt.Errorf("%q is not in ascending order", text)
	}
	return u, nil
}

func normal(text, middle, deviation string) (uncertainty, error) {
	if percent, ok := strings.CutSuffix(strings.TrimSpace(deviation), "%"); ok {
		mean, err := cut(middle)
		share, wrong := strconv.ParseFloat(percent, 64)
		if err != nil || wrong != nil || !(share >= 0) {
			return uncertainty{}, fmt.Errorf("%q is not a mean and its deviation, for example 250~10%%", text)
		}
		return uncertainty{quantity: mean, mode: mean.number, deviation: mean.number * share / 100}, nil
	}
	numbers, unit, err := alike([]string{middle, deviation})
	if err != nil {
		return uncertainty{}, fmt.Errorf("%q: %v", text, err)
	}
	return uncertainty{quantity: unit, mode: numbers[0], deviation: numbers[1]}, nil
}

// alike reads numbers of one unit; some may be without it.
func alike(parts []string) (numbers []float64, unit quantity, err error) {
	for _, p := range parts {
		q, err := cut(p)
		if err != nil {
			return nil, unit, err
		}
		for _, side := range []struct{ had, has *string }{{&unit.before, &q.before}, {&unit.after, &q.after}} {
			if *side.had != "" && *side.has != "" && *side.had != *side.has {
				return nil, unit, fmt.Errorf("units differ: %q and %q", *side.had, *side.has)
			}
			if *side.has != "" {
				*side.had = *side.has
			}
		}
		numbers = append(numbers, q.number)
	}
	return numbers, unit, nil
}

// at is the value below which a share of all values lie. Values of a normal
// distribution are cut off at a hundredth of its mean: no attribute is negative, and
// most may not be 0.
func (u uncertainty) at(share float64) float64 {
	share = min(max(share, 0), 1)
	width := u.most - u.least
	switch {
	case u.deviation > 0:
		far := min(max(share, 1e-9), 1-1e-9)
		return max(u.mode/100, u.mode+u.deviation*math.Sqrt2*math.Erfinv(2*far-1))
	case !u.three || width == 0:
		return max(u.mode, u.least+share*width)
	case share < (u.mode-u.least)/width:
		return u.least + math.Sqrt(share*width*(u.mode-u.least))
	}
	return u.most - math.Sqrt((1-share)*width*(u.most-u.mode))
}

// times multiplies every number.
func (u uncertainty) times(k float64) string {
	one := func(x float64) string { return u.write(x * k) }
	switch {
	case u.three:
		return one(u.least) + ".." + one(u.mode) + ".." + one(u.most)
	case u.deviation > 0 || u.most == 0:
		return one(u.mode) + "~" + one(u.deviation)
	}
	return one(u.least) + ".." + one(u.most)
}

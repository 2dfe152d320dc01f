package plan

import (
	"fmt"
	"math"
	"strconv"
)

// Figure writes a number for people: with four digits, and large ones whole, with their thousands
// apart.
func Figure(v float64) string {
	if math.Abs(v) < 999.95 || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Sprintf("%.4g", v)
	}
	return Grouped(v)
}

// Grouped writes a whole number with its thousands apart.
func Grouped(v float64) string {
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

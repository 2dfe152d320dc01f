package spec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A kind of quantity: its suffixes and their values, and whether a bare number is
// allowed.
type kind struct {
	what     string
	suffixes map[string]float64
	bare     bool // a number without a suffix is fine
	example  string
}

var (
	byteKind = kind{what: "a size", example: "200KB", suffixes: map[string]float64{
		"B": 1, "KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}}
	rateKind = kind{what: "a bandwidth", example: "90MBps or 1Gbps", suffixes: map[string]float64{
		"Bps": 1, "KBps": 1e3, "MBps": 1e6, "GBps": 1e9, "TBps": 1e12,
		"B/s": 1, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12,
		"bps": 1. / 8, "Kbps": 1e3 / 8, "Mbps": 1e6 / 8, "Gbps": 1e9 / 8, "Tbps": 1e12 / 8}}
	timeKind = kind{what: "a time", example: "8ms", suffixes: map[string]float64{
		"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400}}
	powerKind = kind{what: "a power", example: "5W", suffixes: map[string]float64{"mW": 1e-3, "W": 1, "kW": 1e3}}
	countKind = kind{what: "a count", example: "40K", bare: true, suffixes: map[string]float64{"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9}}
	freqKind  = kind{what: "a rate", example: "300 or 12/min", bare: true, suffixes: map[string]float64{
		"K": 1e3, "M": 1e6, "/s": 1, "/min": 1. / 60, "/h": 1. / 3600, "/d": 1. / 86400}}
	shareKind = kind{what: "a share", example: "0.8", bare: true, suffixes: map[string]float64{"%": 0.01}}
	plainKind = kind{what: "a number", example: "3", bare: true}
)

// quantity reads a number with its unit; it is finite and not negative.
func (k kind) quantity(s string) (float64, error) {
	s = strings.TrimSpace(s)
	end := len(s)
	for i, r := range s {
		if (r >= '0' && r <= '9') || r == '.' || r == '+' || r == '-' {
			continue
		}
		if exponent := (r == 'e' || r == 'E') && i > 0 && i+1 < len(s) && strings.ContainsRune("+-0123456789", rune(s[i+1])); exponent {
			continue
		}
		end = i
		break
	}
	value, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, fmt.Errorf("%q is not %s, for example %s", s, k.what, k.example)
	}
	suffix := strings.TrimSpace(s[end:])
	if worth, ok := k.suffixes[suffix]; ok {
		value *= worth
	} else if suffix != "" {
		return 0, fmt.Errorf("%q: unknown unit %q for %s, for example %s", s, suffix, k.what, k.example)
	} else if !k.bare && value != 0 {
		return 0, fmt.Errorf("%q has no unit; write it like %s", s, k.example)
	}
	if value < 0 {
		return 0, fmt.Errorf("%s is negative", s)
	}
	if math.IsInf(value, 0) || value > 1e30 {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return value, nil
}

// money reads an amount with its currency before or after it: 200, $200, 200EUR,
// EUR 200. The currency is empty if none is named.
func money(s string) (amount float64, currency string, err error) {
	s = strings.TrimSpace(s)
	first := strings.IndexAny(s, "0123456789.")
	if first < 0 {
		return 0, "", fmt.Errorf("%q is not a price, for example 200 or 185EUR", s)
	}
	last := strings.LastIndexAny(s, "0123456789.")
	before, after := strings.TrimSpace(s[:first]), strings.TrimSpace(s[last+1:])
	if before == "-" || strings.HasPrefix(before, "-") {
		return 0, "", fmt.Errorf("%s is negative", s)
	}
	amount, err = plainKind.quantity(s[first : last+1])
	if err != nil {
		return 0, "", fmt.Errorf("%q is not a price, for example 200 or 185EUR", s)
	}
	if before != "" && after != "" {
		return 0, "", fmt.Errorf("%q names two currencies", s)
	}
	return amount, symbol(before + after), nil
}

func symbol(s string) string {
	switch s {
	case "$":
		return "USD"
	case "€":
		return "EUR"
	case "£":
		return "GBP"
	case "¥":
		return "JPY"
	}
	return s
}

var errYesNo = errors.New(`write "1" for yes or "0" for no`)

func yesNo(s string) (bool, error) {
	switch strings.TrimSpace(s) {
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	}
	return false, errYesNo
}

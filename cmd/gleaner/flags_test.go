package main

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/input"
)

func TestLengthsOfTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "2w": 2 * week, "1w1d": 8 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "90s": 90 * time.Second, "0": 0, "-1d": -day,
	} {
		if got, err := input.ParseLength(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "w", "30", "1e300d", "nand", "infw", "1d2w", "3 days", "1h1d"} {
		if got, err := input.ParseLength(text); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0", 720 * time.Hour: "30d", 90 * time.Minute: "1h30m", 5 * time.Minute: "5m", time.Hour: "1h", 90 * time.Second: "1m30s", time.Second: "1s"} {
		if got := spell(d); got != want {
			t.Errorf("%v is spelt %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		if back, err := input.ParseLength(spell(d)); err != nil || back != d {
			t.Fatalf("%v is spelt %s, which reads as %v, %v", d, spell(d), back, err)
		}
	})
}

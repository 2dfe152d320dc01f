package simulation

import (
	"testing"

	"gleaner/input"
	"gleaner/sim/datacenter"
)

func TestUnknownPlacement(t *testing.T) {
	p, err := datacenter.Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	d := datacenter.Generate(p, datacenter.Options{Servers: 60, Seed: 1})
	if _, err := Learn(d).Placer("best", 0); !input.Is(err) {
		t.Errorf("%v", err)
	}
}

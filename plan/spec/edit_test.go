package spec

import (
	"math"
	"strings"
	"testing"
)

const editable = `<resources years="3">
<storage_unit name="7.2K" capacity="500GB" bus="b" rateR="90MBps" gapR="8ms" rateW="90MBps" gapW="8ms" price="$200"/>
<storage_unit name="SSD" capacity="100GB..300GB" bus="b" rateR="90MBps" gapR="0" rateW="90MBps" gapW="0" price="400~10%"/>
<cpu price="1"/><server name="s" price="1" cpus="2..8" BW="1Gbps"><bus name="b" slots="4" BW="1Gbps"/></server></resources>`

func edited(t *testing.T, edits []Edit, texts ...string) (Hardware, error) {
	t.Helper()
	var all []Setting
	for _, text := range texts {
		s, err := ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return ReadHardware("hw.xml", []byte(editable), append(edits, Set(all))...)
}

func TestAttributesAreSetByPath(t *testing.T) {
	hw, err := edited(t, nil, "storage_unit/7.2K/price=150EUR", "currency=EUR", "storage_unit/*/gapR=x0.5", "server/s/bus/b/slots=6",
		"cpu/price=7", "storage_unit/SSD/capacity=x2", "sla/t/rate=3", "dataset/d/size=1GB")
	if err != nil {
		t.Fatal(err)
	}
	got := []float64{hw.Units[0].Price.Price, hw.Units[0].GapR, float64(hw.Servers[0].Buses[0].Slots), hw.CPU.Price, hw.Units[1].Capacity, hw.Units[1].Price.Price}
	for i, want := range []float64{150, 0.004, 6, 7, 400e9, 400} {
		if math.Abs(got[i]-want) > 1e-9*want {
			t.Errorf("setting %d gives %v, want %v", i, got[i], want)
		}
	}
}

func TestMistakesInSettingsNameTheSetting(t *testing.T) {
	for text, want := range map[string]string{
		"storage_unit/disk/price=3":     `set storage_unit/disk/price=3: there is no storage_unit "disk", only 7.2K, SSD`,
		"storage_unit/price=3":          `there are several, write storage_unit/NAME/price with one of 7.2K, SSD, or *`,
		"storage_unit/SSD/prices=3":     `storage_unit "SSD": unknown attribute "prices"; did you mean "price"?`,
		"storage_unit/SSD/capacity=3":   `"3" has no unit`,
		"storage_unit/SSD/power=x2":     `has no power to multiply`,
		"storage_unit/SSD/price=xy":     `"xy" is not a factor`,
		"server/s/disk/b/slots=3":       `server "s" has no disk`,
		"storage_unit/SSD/gapR=3ms..1s": `units differ: "ms" and "s"`,
		"storage_unit/SSD/gapR=3..1s":   `not in ascending order`,
	} {
		_, err := edited(t, nil, text)
		if err == nil || !strings.HasPrefix(err.Error(), "set "+text+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "price", "=3", "a/b="} {
		if _, err := ParseSetting(text); err == nil {
			t.Errorf("%q is taken for a setting", text)
		}
	}
}

// Where a share of all values lies below: hand-computed.
func TestUncertainNumbersLieWhereTheirDistributionSays(t *testing.T) {
	for _, tc := range []struct {
		text  string
		share float64
		want  string
	}{
		{"200..300", 0.25, "225"},
		{"200GB..300GB", 0.5, "250GB"},
		{"200..300GB", 1, "300GB"},
		{"$200..300", 0, "$200"},
		{"0..10..10", 0.25, "5"}, // the area below x is (x/10)²
		{"0..0..10", 0.75, "5"},  // and above it (1-x/10)²
		{"0..5..10", 0.5, "5"},
		{"100~10%", 0.5, "100"},
		{"5..5", 0.3, "5"},
	} {
		u, err := uncertain(tc.text)
		if got := u.write(u.at(tc.share)); err != nil || got != tc.want {
			t.Errorf("%s at %v is %s (%v), want %s", tc.text, tc.share, got, err, tc.want)
		}
	}
	u, _ := uncertain("100ms~10")
	if got := u.at(0.975); math.Abs(got-119.59963985) > 1e-6 {
		t.Errorf("the mean and 1.96 deviations are %v", got)
	}
	if u.at(0) < 1 {
		t.Errorf("a normal number is %v at least", u.at(0))
	}
}

func TestUncertainNumbersAreReadAtTheirMedianUnlessDrawn(t *testing.T) {
	hw, err := edited(t, nil)
	if err != nil || hw.Units[1].Capacity != 200e9 || hw.Units[1].Price.Price != 400 || hw.Servers[0].CPUs != 5 {
		t.Errorf("the median is %+v (%v)", hw, err)
	}
	var asked []string
	hw, err = edited(t, []Edit{Drawn(func(n Number) float64 { asked = append(asked, n.Of+" "+n.Name); return 1 })})
	if err != nil || hw.Units[1].Capacity != 300e9 || hw.Servers[0].CPUs != 8 {
		t.Errorf("drawn at its end: %+v (%v)", hw, err)
	}
	if got := strings.Join(asked, ", "); got != `storage_unit "SSD" capacity, storage_unit "SSD" price, server "s" cpus` {
		t.Errorf("drawn: %s", got)
	}
}

func FuzzUncertain(f *testing.F) {
	f.Add("200GB..300GB", 0.3)
	f.Add("1..2..3", 0.5)
	f.Add("$5~10%", 0.9)
	f.Fuzz(func(t *testing.T, text string, share float64) {
		u, err := uncertain(text)
		if err != nil || math.IsNaN(share) {
			return
		}
		v := u.at(share)
		if u.deviation == 0 && u.most > 0 && !(v >= u.least*(1-1e-9) && v <= u.most*(1+1e-9)) {
			t.Fatalf("%q at %v is %v", text, share, v)
		}
		if w := u.at(share + 0.1); w < v*(1-1e-9) {
			t.Fatalf("%q: more than a share of %v lies below %v", text, share+0.1, w)
		}
	})
}

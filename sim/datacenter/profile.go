package datacenter

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/cluster"
	"gleaner/input"
)

// A Profile describes a datacenter well enough to generate one like it.
// profiles.yaml has the values and the sentences of the paper they follow.
type Profile struct {
	Name             string  `yaml:"name"`
	Servers          int     `yaml:"servers"`
	Tenants          int     `yaml:"tenants"`
	Environments     int     `yaml:"environments"`
	TenantsByPattern Shares  `yaml:"tenants_by_pattern"`
	ServersByPattern Shares  `yaml:"servers_by_pattern"`
	Variation        float64 `yaml:"variation"`
	SmallTenants     float64 `yaml:"small_tenants"`
	Correlated       float64 `yaml:"correlated"`

	Common `yaml:"-"`
}

// Shares are one number for each pattern: a share, a mean, a spread.
type Shares struct {
	Periodic      float64 `yaml:"periodic"`
	Constant      float64 `yaml:"constant"`
	Unpredictable float64 `yaml:"unpredictable"`
}

func (s Shares) of(p cluster.Pattern) float64 {
	switch p {
	case cluster.Periodic:
		return s.Periodic
	case cluster.Constant:
		return s.Constant
	}
	return s.Unpredictable
}

// Common is what the ten datacenters share.
type Common struct {
	Cores         int         `yaml:"cores"`
	MemoryGB      int         `yaml:"memory_gb"`
	DiskGB        []int       `yaml:"disk_gb"`
	RackServers   int         `yaml:"rack_servers"`
	RunServers    int         `yaml:"run_servers"`
	Uses          Uses        `yaml:"environments"`
	Production    Shares      `yaml:"production"`
	SizeSigma     float64     `yaml:"size_sigma"`
	LargestTenant float64     `yaml:"largest_tenant"`
	Utilisation   Utilisation `yaml:"utilisation"`
	Reimages      Reimaging   `yaml:"reimages"`
}

// Uses are the shares of environments by what they are for.
type Uses struct {
	Production  float64 `yaml:"production"`
	Development float64 `yaml:"development"`
	Testing     float64 `yaml:"testing"`
}

// Utilisation describes how busy tenants are over time.
type Utilisation struct {
	Mean          Shares  `yaml:"mean"`
	Spread        Shares  `yaml:"spread"`
	Daily         float64 `yaml:"daily"`
	PeakHour      float64 `yaml:"peak_hour"`
	PeakHourSigma float64 `yaml:"peak_hour_sigma"`
	Weekend       float64 `yaml:"weekend"`
	LevelHours    float64 `yaml:"level_hours"`
	Levels        float64 `yaml:"levels"`
	Wander        float64 `yaml:"wander"`
	Noise         float64 `yaml:"noise"`
	Imbalance     float64 `yaml:"imbalance"`
}

// Reimaging describes how often, and how much together, disks are reimaged.
type Reimaging struct {
	Tenants           [][2]float64 `yaml:"tenants"` // share of tenants, reimages per server and month
	OutsideProduction float64      `yaml:"outside_production"`
	RedeployShare     [3]float64   `yaml:"redeploy_share"` // by thirds of the tenants, least reimaged first
	RedeployLeast     float64      `yaml:"redeploy_least"`
	RedeployMinutes   float64      `yaml:"redeploy_minutes"`
	RepurposedAYear   float64      `yaml:"repurposed_a_year"`
	MonthSigma        float64      `yaml:"month_sigma"`
	OwnSigma          float64      `yaml:"own_sigma"`
	Young             float64      `yaml:"young"`
}

//go:embed profiles.yaml
var profilesYAML []byte

// Profiles returns the profiles of DC-0 to DC-9, in order.
func Profiles() []Profile {
	var file struct {
		Common      Common    `yaml:"common"`
		Datacenters []Profile `yaml:"datacenters"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(profilesYAML))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		panic(fmt.Sprintf("datacenter: profiles.yaml: %v", err)) // it is part of the program
	}
	for i := range file.Datacenters {
		file.Datacenters[i].Common = file.Common
	}
	return file.Datacenters
}

// Find returns the profile of a datacenter by its name. An unknown name is an input.Error.
func Find(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, input.Fieldf("datacenter", "unknown datacenter %q; there are %s", name, strings.Join(names, ", "))
}

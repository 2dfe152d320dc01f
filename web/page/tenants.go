package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
)

// Classes are what the history says of the tenants.
type Classes struct {
	Window  cluster.Window
	At      time.Time // when it was found out
	Servers int
	Classes []cluster.Class
	Tenants []Tenant
	Skipped []SkippedTenant
	Figures []chart.Figure
	Grid    *Grid    // of the servers in the history; nil if none has an owner
	Changes []Change // since the day before
	Groups  []Reimaged
	// Tenant draws one tenant; false if there is none of that name.
	Tenant func(cluster.TenantID) (chart.Figure, bool)
}

// A Tenant is one with its class and why it is in it.
type Tenant struct {
	ID         cluster.TenantID
	Class      string
	Pattern    cluster.Pattern
	Servers    int
	Mean, Peak float64 // 0 to 1
	Period     time.Duration
	Why        string
}

// A Change is what is new of a tenant since the day before.
type Change struct {
	ID   cluster.TenantID
	What string
}

// A Reimaged tenant is how often its servers are reimaged.
type Reimaged struct {
	ID       cluster.TenantID
	Group    string // a third of all tenants
	Reimages int
	PerMonth float64 // of a server
	Changes  int     // of the group, from month to month
}

// A SkippedTenant is one that has no class.
type SkippedTenant struct {
	ID     cluster.TenantID
	Reason string
}

// What Site.Classes may return as an error, beside failures.
var (
	ErrNoHistory = errors.New("there is not enough history to classify")
	ErrNotYet    = errors.New("the history is being classified")
)

// tenantsData is what the view of tenants shows.
type tenantsData struct {
	*Classes
	NotYet bool
	Charts []drawing
	Grids  []Grid
	// Undrawn and More count the charts and the tenants that are not shown.
	Undrawn, More int
}

// How many charts and tenants are shown, so that the view stays light.
const (
	shownCharts  = 10
	shownTenants = 150
	shownChanges = 40
	shownGroups  = 20
)

func (s *Site) tenants(w http.ResponseWriter, r *http.Request) {
	d, ok := s.classes(w)
	if !ok {
		return
	}
	if err := s.addGrids(r.Context(), &d); err != nil {
		failed(w, err)
		return
	}
	if d.Classes != nil {
		var err error
		if d.Charts, d.Undrawn, err = s.classCharts.of(d.Classes); err != nil {
			failed(w, err)
			return
		}
		d.More = max(len(d.Tenants)-shownTenants, 0)
	}
	show(w, http.StatusOK, "tenants", view{Title: "Tenants and classes", At: "/tenants", Live: d.NotYet, Data: d})
}

// classes are those to show; without enough history there are none. What failed is
// told.
func (s *Site) classes(w http.ResponseWriter) (d tenantsData, ok bool) {
	c, err := s.Classes()
	switch {
	case errors.Is(err, ErrNotYet):
		d.NotYet = true
	case err == nil:
		d.Classes = c
	case !errors.Is(err, ErrNoHistory):
		failed(w, err)
		return d, false
	}
	return d, true
}

// classCharts are the charts of the classes that were last shown: they stay the same for an hour, and take longer to
// draw than all else of the view.
type classCharts struct {
	mu      sync.Mutex
	from    *Classes
	charts  []drawing
	undrawn int
}

func (c *classCharts) of(classes *Classes) (charts []drawing, undrawn int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == classes {
		return c.charts, c.undrawn, nil
	}
	var panels []chart.Panel
	for _, f := range classes.Figures {
		panels = append(panels, f.Panels...)
	}
	undrawn = max(len(panels)-shownCharts, 0)
	if charts, err = drawAll(panels[:len(panels)-undrawn]...); err == nil {
		c.from, c.charts, c.undrawn = classes, charts, undrawn
	}
	return charts, undrawn, err
}

// addGrids adds the grid of the history, and those of the disks that are lent.
func (s *Site) addGrids(ctx context.Context, d *tenantsData) error {
	if d.Classes != nil && d.Grid != nil {
		d.Grids = append(d.Grids, *d.Grid)
	}
	disks := s.Disks()
	if disks == nil {
		return nil
	}
	lent, err := disks.Grids(ctx)
	d.Grids = append(d.Grids, lentGrids(lent)...)
	return err
}

// shown are at most so many of a list.
func shown[T any](all []T, most int) []T { return all[:min(len(all), most)] }

// Most reimaged tenants, and those that changed, as far as they are listed.
func (d tenantsData) MostReimaged() []Reimaged { return shown(d.Groups, shownGroups) }
func (d tenantsData) Changed() []Change        { return shown(d.Changes, shownChanges) }

// List is the tenants that are listed.
func (d tenantsData) List() []Tenant { return shown(d.Tenants, shownTenants) }

// tenantData is what the view of a tenant shows.
type tenantData struct {
	Tenant
	Charts []drawing
}

func (s *Site) tenant(w http.ResponseWriter, r *http.Request) {
	all, ok := s.classes(w)
	if !ok {
		return
	}
	id := cluster.TenantID(r.PathValue("tenant"))
	if all.Classes == nil {
		missing(w, fmt.Sprintf("Nothing is known of the tenant %s yet.", id))
		return
	}
	figure, known := all.Classes.Tenant(id)
	i := slices.IndexFunc(all.Tenants, func(t Tenant) bool { return t.ID == id })
	if !known || i < 0 {
		missing(w, fmt.Sprintf("There is no tenant %s that has a class.", id))
		return
	}
	charts, err := drawAll(figure.Panels...)
	if err != nil {
		failed(w, err)
		return
	}
	show(w, http.StatusOK, "tenant", view{Title: string(id), At: "/tenants", Data: tenantData{all.Tenants[i], charts}})
}

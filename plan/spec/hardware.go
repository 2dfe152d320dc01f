package spec

// Defaults of the paper's Section 5.1.
const (
	energyPrice = 0.10 // a kWh
	lifeYears   = 3
	hoursAYear  = 8760
)

// ReadHardware reads a hardware document (Figure 2(b)).
func ReadHardware(file string, data []byte, edits ...Edit) (Hardware, error) {
	root, err := document(file, data, "resources")
	if err != nil {
		return Hardware{}, err
	}
	r := hardwareReader{reader: reader{file: file}, seen: map[string]int{}}
	r.prepare(root, edits)
	return r.read(root)
}

type hardwareReader struct {
	reader
	hw     Hardware
	perKWh Money
	years  float64
	worth  map[string]float64 // of one unit of another currency, in ours
	seen   map[string]int
}

func (r *hardwareReader) read(root *node) (Hardware, error) {
	r.hw.File = r.file
	r.hw.Currency = symbol(r.word(root, "currency", "USD", false))
	r.currencies(root)
	r.perKWh = r.money(root, "energy_price", energyPrice, false)
	r.years = r.number(root, "years", want{kind: plainKind, otherwise: lifeYears, most: 100})
	r.hw.Years = r.years
	r.done(root, "storage_unit", "cpu", "server", "currency")
	cpus := 0
	for _, n := range root.children {
		switch n.name {
		case "storage_unit":
			r.unit(n)
		case "cpu":
			r.hw.CPU = r.price(n)
			r.done(n)
			if cpus++; cpus > 1 {
				r.mistake(n.line, "cpu: there is one kind of CPU, and it is given already")
			}
		case "server":
			r.server(n)
		}
	}
	if cpus == 0 {
		r.mistake(root.line, "resources: <cpu> is missing")
	}
	if len(r.hw.Servers) == 0 {
		r.mistake(root.line, "resources: no <server>")
	}
	if len(r.hw.Units) == 0 {
		r.mistake(root.line, "resources: no <storage_unit>")
	}
	r.buses()
	return r.hw, r.err()
}

// currencies reads the exchange rates of foreign currencies.
func (r *hardwareReader) currencies(root *node) {
	r.worth = map[string]float64{r.hw.Currency: 1}
	for _, n := range root.children {
		if n.name != "currency" {
			continue
		}
		name := symbol(r.word(n, "name", "", true))
		worth := r.number(n, "rate", want{kind: plainKind, required: true, positive: true})
		if _, twice := r.worth[name]; twice {
			r.mistake(n.line, "%s: its worth is given already", n.describe())
		}
		r.worth[name] = worth
		r.done(n)
	}
}

func (r *hardwareReader) money(n *node, name string, otherwise Money, required bool) Money {
	text, line, ok := r.take(n, name)
	if !ok {
		if required {
			r.mistake(n.line, "%s: %s is missing", n.describe(), name)
		}
		return otherwise
	}
	amount, currency := 0.0, ""
	text, err := r.settle(n, name, text)
	if err == nil {
		amount, currency, err = money(text)
	}
	if err != nil {
		r.mistake(line, "%s: %s: %v", n.describe(), name, err)
		return otherwise
	}
	if currency == "" {
		return amount
	}
	worth, known := r.worth[currency]
	if !known {
		r.mistake(line, "%s: %s: no <currency name=%q rate=…> says what it is worth in %s", n.describe(), name, currency, r.hw.Currency)
	}
	return amount * worth
}

// price reads what a piece costs. Its energy is given in money, or computed from its
// power.
func (r *hardwareReader) price(n *node) Price { return r.priced(n, 0, true) }

func (r *hardwareReader) priced(n *node, otherwise Money, required bool) Price {
	p := Price{Price: r.money(n, "price", otherwise, required)}
	p.Power = r.number(n, "power", want{kind: powerKind})
	p.Energy = r.money(n, "energy", p.Power/1000*hoursAYear*r.years*r.perKWh, false)
	return p
}

func (r *hardwareReader) unit(n *node) {
	u := Unit{Line: n.line}
	u.Name = r.word(n, "name", "", true)
	r.unique(r.seen, n, u.Name)
	u.Capacity = r.number(n, "capacity", want{kind: byteKind, required: true, positive: true, otherwise: 1})
	u.Bus = r.word(n, "bus", "", true)
	u.Read, u.Write = r.speed(n, Read{RateR: 1}, Write{RateW: 1}, true)
	u.Volatile = r.flag(n, "volatile", false)
	u.Price = r.price(n)
	u.Stock = r.stock(n)
	r.done(n)
	r.hw.Units = append(r.hw.Units, u)
}

// speed reads the four rates and gaps; those not given stay as they are.
func (r *reader) speed(n *node, read Read, write Write, required bool) (Read, Write) {
	rate := func(name string, otherwise float64) float64 {
		return r.number(n, name, want{kind: rateKind, required: required, positive: true, otherwise: otherwise})
	}
	gap := func(name string, otherwise float64) float64 {
		return r.number(n, name, want{kind: timeKind, required: required, otherwise: otherwise})
	}
	return Read{rate("rateR", read.RateR), gap("gapR", read.GapR)}, Write{rate("rateW", write.RateW), gap("gapW", write.GapW)}
}

func (r *hardwareReader) server(n *node) {
	s := Server{Line: n.line}
	s.Name = r.word(n, "name", "", true)
	r.unique(r.seen, n, s.Name)
	s.CPUs = r.whole(n, "cpus", want{kind: countKind, required: true})
	s.BW = r.number(n, "BW", want{kind: rateKind, required: true, positive: true})
	r.rent(n, &s)
	s.BootCPUs = r.number(n, "boot_cpus", want{kind: plainKind})
	s.BootMemory = r.number(n, "boot_memory", want{kind: byteKind})
	s.Speed = r.number(n, "speed", want{kind: plainKind, positive: true, otherwise: 1})
	s.Stock = r.stock(n)
	s.RackUnits = r.number(n, "rack_units", want{kind: plainKind, most: 1000})
	for _, name := range []string{"power", "rack_units"} {
		if _, _, given := r.take(n, name); !given {
			s.Unsaid = append(s.Unsaid, name)
		}
	}
	if s.BootCPUs > 0 && s.BootCPUs >= float64(s.CPUs) {
		r.mistake(n.line, "server %s: boot_cpus: %g cores to boot leave none of its %d", s.Name, s.BootCPUs, s.CPUs)
	}
	r.done(n, "bus")
	seen := map[string]int{}
	for _, c := range n.children {
		if c.name != "bus" {
			continue
		}
		b := Bus{Name: r.word(c, "name", "", true)}
		r.unique(seen, c, b.Name)
		b.Slots = r.whole(c, "slots", want{kind: countKind, required: true, positive: true, otherwise: 1})
		b.BW = r.number(c, "BW", want{kind: rateKind, required: true, positive: true})
		r.done(c)
		s.Buses = append(s.Buses, b)
	}
	r.hw.Servers = append(r.hw.Servers, s)
}

// rent reads what a server costs: to buy, or by the hour, or either.
func (r *hardwareReader) rent(n *node, s *Server) {
	_, line, hourly := r.take(n, "hourly")
	s.Rent = r.money(n, "hourly", 0, false) * hoursAYear * r.years
	if hourly && s.Rent == 0 {
		r.mistake(line, "%s: hourly: must be more than 0, and so must years", n.describe())
	}
	s.Price = r.priced(n, s.Rent, !hourly)
	s.Memory = r.number(n, "memory", want{kind: byteKind})
	if _, line, given := r.take(n, "memory"); given && !hourly {
		r.mistake(line, "%s: memory: comes with servers that are rented, which have hourly=", n.describe())
	}
}

// buses reports units that fit into no server.
func (r *hardwareReader) buses() {
	has := map[string]bool{}
	for _, s := range r.hw.Servers {
		for _, b := range s.Buses {
			has[b.Name] = true
		}
	}
	for _, u := range r.hw.Units {
		if u.Bus != "" && !has[u.Bus] {
			r.mistake(u.Line, "storage_unit %q: bus: no server has a bus %q", u.Name, u.Bus)
		}
	}
}

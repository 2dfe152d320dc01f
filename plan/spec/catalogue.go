package spec

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gleaner/input"
)

// Payments are the columns of a catalogue with a price an hour.
var Payments = []string{"hourly", "reserved", "spot"}

// catalogueColumns must all be there, with one of Payments at least.
var catalogueColumns = []string{"name", "vcpus", "speed", "memory", "network", "disks", "disk_size", "disk_rate", "disk_gap"}

// hoursAMonth turns prices an hour into prices a month; aMonth is that as years.
const (
	hoursAMonth = 730
	aMonth      = float64(hoursAMonth) / hoursAYear
)

// A shape is a server that is rented as it is: a row of a catalogue.
type shape struct {
	name                   string
	vcpus, disks           int
	speed, memory, network float64
	disk                   [3]float64 // size, rate, gap
	price                  float64    // a month; none if it is that of all hours
	hourly                 float64    // none if it is not rented by the hour
	line                   int
}

// none is the price of what is not sold.
const none = -1

// A Payment is the columns of prices: for a month, and for those hours only in which a server runs.
type Payment struct {
	Month, Hour string // Hour is empty if servers are paid for the month
}

// ParsePayment reads one column, or two: reserved,hourly. What is reserved is paid for the month.
func ParsePayment(text string) (Payment, error) {
	month, hour, two := strings.Cut(text, ",")
	if !two && month != "reserved" {
		hour = month
	}
	for _, name := range []string{month, hour} {
		if name != "" && !slices.Contains(Payments, name) || name == "" && (two || month == "") {
			return Payment{}, fmt.Errorf("%q is not one of %s, or two of them with a comma: for the month, and by the hour", text, strings.Join(Payments, ", "))
		}
	}
	if hour == "reserved" {
		return Payment{}, fmt.Errorf("%q: what is reserved is not paid by the hour", text)
	}
	return Payment{month, hour}, nil
}

func (p Payment) columns() []string {
	if p.Hour == "" || p.Hour == p.Month {
		return []string{p.Month}
	}
	return []string{p.Month, p.Hour}
}

// Catalogue turns a list of shapes, as CSV, into a hardware document whose prices are a month's.
// CPUs, memory and disks come with the shape: they cost nothing by themselves, and a
// shape has as many places for them as it has of them. Shapes without a price for the payment
// are left out.
func Catalogue(file string, data []byte, payment Payment) ([]byte, error) {
	rows, err := catalogue(file, data, payment)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, input.Errorf(file, "no shape has a price in column %q", strings.Join(payment.columns(), ","))
	}
	return written(rows), nil
}

func catalogue(file string, data []byte, payment Payment) ([]shape, error) {
	if len(data) > MaxSize {
		return nil, input.Errorf(file, "larger than %d bytes", MaxSize)
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.Comment, r.TrimLeadingSpace = '#', true
	head, err := r.Read()
	if err != nil {
		return nil, csvError(file, err)
	}
	at := map[string]int{}
	for i, name := range head {
		name = strings.TrimSpace(name)
		if !slices.Contains(catalogueColumns, name) && !slices.Contains(Payments, name) {
			return nil, input.Linef(file, 1, "unknown column %q: there are %s and prices %s", name, strings.Join(catalogueColumns, ", "), strings.Join(Payments, ", "))
		}
		at[name] = i
	}
	for _, name := range slices.Concat(catalogueColumns, payment.columns()) {
		if _, ok := at[name]; !ok {
			return nil, input.Linef(file, 1, "column %q is missing", name)
		}
	}
	var out []shape
	var mistakes input.Errors
	seen := map[string]int{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(file, err)
		}
		line, _ := r.FieldPos(0)
		cells := rowReader{row: row, at: at, file: file, line: line}
		s := cells.shape(payment)
		if first := seen[s.name]; first > 0 {
			cells.mistake("name", "%q is on line %d already", s.name, first)
		}
		seen[s.name] = line
		mistakes = append(mistakes, cells.mistakes...)
		if s.price != none || s.hourly != none {
			out = append(out, s)
		}
	}
	if mistakes != nil {
		return nil, mistakes
	}
	return out, nil
}

func csvError(file string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return input.Linef(file, parse.Line, "%v", parse.Err)
	}
	if errors.Is(err, io.EOF) {
		return input.Errorf(file, "empty; expected a header %s", strings.Join(catalogueColumns, ","))
	}
	return input.Errorf(file, "%v", err)
}

// A rowReader reads the cells of a row and collects every mistake.
type rowReader struct {
	row      []string
	at       map[string]int
	file     string
	line     int
	mistakes input.Errors
}

func (r *rowReader) mistake(column, format string, args ...any) {
	r.mistakes = append(r.mistakes, &input.Error{Where: r.file, Line: r.line, Msg: column + ": " + fmt.Sprintf(format, args...)})
}

func (r *rowReader) cell(column string) string { return strings.TrimSpace(r.row[r.at[column]]) }

func (r *rowReader) number(column string, k kind, least float64) float64 {
	v, err := k.quantity(r.cell(column))
	if err != nil {
		r.mistake(column, "%v", err)
	} else if v < least {
		r.mistake(column, "%s is too little", r.cell(column))
	}
	return v
}

func (r *rowReader) whole(column string, least float64) int {
	v := r.number(column, countKind, least)
	if v != math.Trunc(v) || v > 1e6 {
		r.mistake(column, "%g is not a whole number up to a million", v)
		return 0
	}
	return int(v)
}

func (r *rowReader) shape(payment Payment) shape {
	const some = math.SmallestNonzeroFloat64 // more than 0
	s := shape{name: r.cell("name"), line: r.line, vcpus: r.whole("vcpus", 1), speed: r.number("speed", plainKind, some), memory: r.number("memory", byteKind, memoryUnit),
		network: r.number("network", rateKind, some), disks: r.whole("disks", 0), price: none, hourly: none}
	if s.name == "" {
		r.mistake("name", "is empty")
	}
	if s.cores() == 0 && len(r.mistakes) == 0 {
		r.mistake("speed", "%d vCPUs of %g are less than a core", s.vcpus, s.speed)
	}
	if s.disks > 0 {
		s.disk = [3]float64{r.number("disk_size", byteKind, some), r.number("disk_rate", rateKind, some), r.number("disk_gap", timeKind, 0)}
	}
	if payment.Hour != "" {
		if s.hourly = r.price(payment.Hour); s.hourly == 0 {
			r.mistake(payment.Hour, "must be more than 0")
		}
	}
	if payment.Hour != payment.Month {
		if hour := r.price(payment.Month); hour != none {
			s.price = math.Round(hour*hoursAMonth*100) / 100
		}
	}
	return s
}

// price is that of an hour, none if the cell is empty.
func (r *rowReader) price(column string) float64 {
	if r.cell(column) == "" {
		return none
	}
	hour, currency, err := money(r.cell(column))
	switch {
	case err != nil:
		r.mistake(column, "%v", err)
	case currency != "" && currency != "USD":
		r.mistake(column, "%s: prices of a catalogue are in USD", r.cell(column))
	default:
		return hour
	}
	return none
}

// cores is how many whole cores of speed 1 the shape is worth.
func (s shape) cores() int { return int(float64(s.vcpus)*s.speed + 1e-9) }

// diskName tells kinds of disks apart.
func (s shape) diskName() string {
	return fmt.Sprintf("disk %.9gGB %.9gMBps %.9gus", s.disk[0]/1e9, s.disk[1]/1e6, s.disk[2]*1e6)
}

// A memory unit of a catalogue, and how fast it is: fast enough to be no limit.
const (
	memoryUnit  = 1 << 30
	memorySpeed = `rateR="20GBps" gapR="100ns" rateW="20GBps" gapW="100ns"`
)

// written is the hardware document.
func written(rows []shape) []byte {
	var b bytes.Buffer
	b.WriteString("<!-- Prices are a month's, a twelfth of a year. CPUs, memory and disks come with a server: they cost nothing by themselves. -->\n")
	fmt.Fprintf(&b, "<resources currency=\"USD\" energy_price=\"0\" years=\"%.16g\">\n", aMonth)
	fmt.Fprintf(&b, "  <storage_unit name=\"memory\" capacity=\"1GiB\" bus=\"memory\" %s volatile=\"1\" price=\"0\"/>\n", memorySpeed)
	var disks []string
	for _, s := range rows {
		if name := s.diskName(); s.disks > 0 && !slices.Contains(disks, name) {
			disks = append(disks, name)
			fmt.Fprintf(&b, "  <storage_unit name=%q capacity=\"%.9gGB\" bus=%q rateR=\"%.9gMBps\" gapR=\"%.9gus\" rateW=\"%.9gMBps\" gapW=\"%.9gus\" price=\"0\"/>\n",
				name, s.disk[0]/1e9, name, s.disk[1]/1e6, s.disk[2]*1e6, s.disk[1]/1e6, s.disk[2]*1e6)
		}
	}
	b.WriteString("  <cpu price=\"0\"/>\n")
	for _, s := range rows {
		b.WriteString("  <server name=\"")
		_ = xml.EscapeText(&b, []byte(s.name)) // a buffer does not fail
		if s.price != none {
			fmt.Fprintf(&b, "\" price=\"%.2f", s.price)
		}
		if s.hourly != none {
			fmt.Fprintf(&b, "\" hourly=\"%.9g", s.hourly)
		}
		if s.speed < 1 {
			fmt.Fprintf(&b, "\" speed=\"%.9g", s.speed)
		}
		fmt.Fprintf(&b, "\" cpus=\"%d\" BW=\"%.9gMBps\">", s.cores(), s.network/1e6)
		fmt.Fprintf(&b, "<bus name=\"memory\" slots=\"%d\" BW=\"20GBps\"/>", int(s.memory/memoryUnit+1e-9))
		if s.disks > 0 {
			fmt.Fprintf(&b, "<bus name=%q slots=\"%d\" BW=\"%.9gMBps\"/>", s.diskName(), s.disks, float64(s.disks)*s.disk[1]/1e6)
		}
		b.WriteString("</server>\n")
	}
	b.WriteString("</resources>\n")
	return b.Bytes()
}

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

// hoursAMonth turns prices an hour into prices a month.
const hoursAMonth = 730

// A shape is a server that is rented as it is: a row of a catalogue.
type shape struct {
	name                   string
	vcpus, disks           int
	speed, memory, network float64
	disk                   [3]float64 // size, rate, gap
	price                  float64    // a month
	line                   int
}

// Catalogue turns a list of shapes, as CSV, into a hardware document whose prices are a month's.
// CPUs, memory and disks come with the shape: they cost nothing by themselves, and a
// shape has as many places for them as it has of them. Shapes without a price for the payment
// are left out.
func Catalogue(file string, data []byte, payment string) ([]byte, error) {
	rows, err := catalogue(file, data, payment)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, input.Errorf(file, "no shape has a price in column %q", payment)
	}
	return written(rows), nil
}

func catalogue(file string, data []byte, payment string) ([]shape, error) {
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
	for _, name := range append(slices.Clone(catalogueColumns), payment) {
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
		if s.price >= 0 {
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

func (r *rowReader) shape(payment string) shape {
	const some = math.SmallestNonzeroFloat64 // more than 0
	s := shape{name: r.cell("name"), line: r.line, vcpus: r.whole("vcpus", 1), speed: r.number("speed", plainKind, some), memory: r.number("memory", byteKind, memoryUnit),
		network: r.number("network", rateKind, some), disks: r.whole("disks", 0), price: -1}
	if s.name == "" {
		r.mistake("name", "is empty")
	}
	if s.cores() == 0 && len(r.mistakes) == 0 {
		r.mistake("speed", "%d vCPUs of %g are less than a core", s.vcpus, s.speed)
	}
	if s.disks > 0 {
		s.disk = [3]float64{r.number("disk_size", byteKind, some), r.number("disk_rate", rateKind, some), r.number("disk_gap", timeKind, 0)}
	}
	if r.cell(payment) == "" {
		return s
	}
	hour, currency, err := money(r.cell(payment))
	switch {
	case err != nil:
		r.mistake(payment, "%v", err)
	case currency != "" && currency != "USD":
		r.mistake(payment, "%s: prices of a catalogue are in USD", r.cell(payment))
	default:
		s.price = math.Round(hour*hoursAMonth*100) / 100
	}
	return s
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
	b.WriteString("<!-- Prices are a month's. CPUs, memory and disks come with a server: they cost nothing by themselves. -->\n")
	b.WriteString("<resources currency=\"USD\" energy_price=\"0\">\n")
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
		fmt.Fprintf(&b, "\" price=\"%.2f\" cpus=\"%d\" BW=\"%.9gMBps\">", s.price, s.cores(), s.network/1e6)
		fmt.Fprintf(&b, "<bus name=\"memory\" slots=\"%d\" BW=\"20GBps\"/>", int(s.memory/memoryUnit+1e-9))
		if s.disks > 0 {
			fmt.Fprintf(&b, "<bus name=%q slots=\"%d\" BW=\"%.9gMBps\"/>", s.diskName(), s.disks, float64(s.disks)*s.disk[1]/1e6)
		}
		b.WriteString("</server>\n")
	}
	b.WriteString("</resources>\n")
	return b.Bytes()
}

package history

import (
	"io"
	"math"
	"time"

	"gleaner/cluster"
	"gleaner/input"
)

var sampleColumns = []column{{"time", true}, {"server", true}, {"cpu", true}, {"mem", false}, {"tenant", false}}

// ReadSamples reads utilisation from CSV and calls emit for every sample, in the
// order of the file. The header is time,server,cpu[,mem][,tenant] in any order;
// times are Unix seconds or RFC 3339, cpu and mem are percent of the server. A
// mistake is an input.Error that names the file and the line; an error of emit
// is returned as it is.
func ReadSamples(name string, r io.Reader, o ReadOptions, emit func(Sample) error) (ReadStats, error) {
	var servers, tenants nameSet
	stats, err := eachRow(name, r, sampleColumns, o, func(_ int, fields [][]byte) error {
		s := Sample{Mem: float32(math.NaN())}
		var err error
		if s.Milli, err = moment(fields[0]); err != nil {
			return err
		}
		server, err := servers.get("server", fields[1])
		if err != nil {
			return err
		}
		s.Server = cluster.ServerID(server)
		if s.CPU, err = percent("cpu", fields[2]); err != nil {
			return err
		}
		if len(fields[3]) > 0 {
			if s.Mem, err = percent("mem", fields[3]); err != nil {
				return err
			}
		}
		if len(fields[4]) > 0 {
			tenant, err := tenants.get("tenant", fields[4])
			if err != nil {
				return err
			}
			s.Tenant = cluster.TenantID(tenant)
		}
		return emit(s)
	})
	switch {
	case err == nil && stats.Rows+stats.Skipped == 0:
		err = input.Errorf(name, "holds no samples, only a header")
	case err == nil && stats.Rows == 0:
		err = input.Errorf(name, "holds no samples, only bad rows (%d); the first: %v", stats.Skipped, stats.FirstBad)
	}
	return stats, err
}

var reimageColumns = []column{{"time", true}, {"server", true}, {"cause", false}}

// ReadReimages reads a reimage log, CSV with the header time,server,cause, in
// the order of the file.
func ReadReimages(name string, r io.Reader, o ReadOptions) ([]cluster.Reimage, ReadStats, error) {
	var servers, causes nameSet
	var all []cluster.Reimage
	stats, err := eachRow(name, r, reimageColumns, o, func(_ int, fields [][]byte) error {
		milli, err := moment(fields[0])
		if err != nil {
			return err
		}
		server, err := servers.get("server", fields[1])
		if err != nil {
			return err
		}
		cause := ""
		if len(fields[2]) > 0 {
			if cause, err = causes.get("cause", fields[2]); err != nil {
				return err
			}
		}
		all = append(all, cluster.Reimage{At: time.UnixMilli(milli).UTC(), Server: cluster.ServerID(server), Cause: cause})
		return nil
	})
	return all, stats, err
}

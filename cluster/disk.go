package cluster

import "errors"

// A DiskID is stored on the disk that it names. A disk that is wiped and set up
// again is a new disk.
type DiskID string

// A Tier is a kind of disk, such as "ssd": disks of a tier are alike.
type Tier string

// A Disk is a part of a server's storage that its owner gives to the cluster.
type Disk struct {
	ID    DiskID `json:"id"`
	Tier  Tier   `json:"tier"`
	Quota Bytes  `json:"quota"` // that may be used
	Free  Bytes  `json:"free"`  // of it
}

// A DataServer is the process that serves the disks of a server.
type DataServer struct {
	Address string `json:"address"`
}

// A DataUse is a data server's regular report on itself.
type DataUse struct {
	On    ServerID  `json:"on"`
	Busy  bool      `json:"busy,omitempty"` // the primary needs the server: accesses are denied
	Disks []DiskUse `json:"disks,omitempty"`
}

// A DiskUse is a data server's report on one of its disks.
type DiskUse struct {
	ID     DiskID `json:"id"`
	Free   Bytes  `json:"free"`
	Errors int    `json:"errors,omitempty"` // checksum errors since the disk joined
}

// checkDisk reports what is wrong with the disk of an event that was read.
func checkDisk(d *Disk) error {
	switch {
	case d == nil || d.ID == "":
		return errors.New("the event lacks its disk")
	case d.Quota < 0 || d.Free < 0:
		return errors.New("a disk's size is below zero")
	}
	return nil
}

func checkData(data []DataUse) error {
	for _, use := range data {
		for _, d := range use.Disks {
			if d.Free < 0 || d.Errors < 0 {
				return errors.New("a disk has a negative free space or number of errors")
			}
		}
	}
	return nil
}

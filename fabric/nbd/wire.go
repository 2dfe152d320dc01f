package nbd

import (
	"errors"
	"syscall"
)

// The numbers of the protocol, as its specification names them.
const (
	magicGreeting = 0x4e42444d41474943 // NBDMAGIC
	magicOption   = 0x49484156454f5054 // IHAVEOPT
	magicReply    = 0x0003e889045565a9
	magicRequest  = 0x25609513
	magicSimple   = 0x67446698
	magicChunk    = 0x668e33ef

	flagFixedNewstyle = 1 << 0 // of the handshake, from both sides
	flagNoZeroes      = 1 << 1

	optExportName = 1
	optAbort      = 2
	optList       = 3
	optStartTLS   = 5
	optInfo       = 6
	optGo         = 7
	optStructured = 8
	optListMeta   = 9
	optSetMeta    = 10

	repAck         = 1
	repServer      = 2
	repInfo        = 3
	repMeta        = 4
	repErrUnsup    = 1<<31 + 1
	repErrPolicy   = 1<<31 + 2
	repErrInvalid  = 1<<31 + 3
	repErrTLSReqd  = 1<<31 + 5
	repErrUnknown  = 1<<31 + 6
	repErrTooBig   = 1<<31 + 9
	infoExport     = 0
	infoName       = 1
	infoDescribe   = 2
	infoBlockSizes = 3

	hasFlags       = 1 << 0 // of an export
	isReadOnly     = 1 << 1
	canFlush       = 1 << 2
	canFUA         = 1 << 3
	canTrim        = 1 << 5
	canWriteZeroes = 1 << 6
	canDF          = 1 << 7
	canMultiConn   = 1 << 8

	cmdRead        = 0
	cmdWrite       = 1
	cmdDisc        = 2
	cmdFlush       = 3
	cmdTrim        = 4
	cmdWriteZeroes = 6
	cmdBlockStatus = 7

	flagFUA    = 1 << 0 // of a request
	flagNoHole = 1 << 1
	flagDF     = 1 << 2
	flagReqOne = 1 << 3

	chunkDone   = 1 << 0 // the flag of a reply's last chunk
	chunkData   = 1
	chunkStatus = 5
	chunkError  = 1<<15 + 1

	stateHole = 1 << 0
	stateZero = 1 << 1
)

// The errors of the protocol, which are those of Linux by number.
const (
	codeEPERM     = 1
	codeEIO       = 5
	codeENOMEM    = 12
	codeEINVAL    = 22
	codeENOSPC    = 28
	codeEOVERFLOW = 75
	codeESHUTDOWN = 108
)

// What is said of block sizes, and how long strings may be.
const (
	minBlock       = 1
	preferredBlock = 4 << 10
	maxPayload     = 32 << 20
	maxString      = 4096
	requestHead    = 28
)

// codeOf gives the protocol's number for a device's error.
func codeOf(err error) uint32 {
	var no syscall.Errno
	errors.As(err, &no)
	switch no {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return codeENOSPC
	case syscall.EPERM, syscall.EACCES, syscall.EROFS:
		return codeEPERM
	case syscall.ESHUTDOWN:
		return codeESHUTDOWN
	case syscall.ENOMEM:
		return codeENOMEM
	case syscall.EINVAL:
		return codeEINVAL
	}
	return codeEIO
}

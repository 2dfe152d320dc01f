package fabric

// ScrubAll reads all that is stored once, without waiting for its time.
var ScrubAll = (*Front).scrubAll

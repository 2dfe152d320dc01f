package hadoop

import _ "embed"

// WordCount has what the recordings of that job do not show, as overrides for
// mining (docs/trace.md): with them the program can be played to a NameNode.
//
//go:embed wordcount.yaml
var WordCount []byte

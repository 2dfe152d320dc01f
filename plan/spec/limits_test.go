package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/plan/spec"
)

// A document with too many elements is refused with its line.
func TestTooManyElements(t *testing.T) {
	var b strings.Builder
	b.WriteString("<application>\n")
	for k := range 300 {
		fmt.Fprintf(&b, "<dataset name=\"d%d\" size=\"1GB\"/>\n", k)
	}
	b.WriteString("</application>\n")
	_, err := spec.ReadApplication("a.xml", []byte(b.String()))
	if err == nil || !strings.HasPrefix(err.Error(), "a.xml:202: <application> has more than 200 elements") {
		t.Error(err)
	}
}

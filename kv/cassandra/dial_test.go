package cassandra

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// TestImpatientConn: a connection breaks if a question has no answer for too
// long, and stays if nothing was asked.
func TestImpatientConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		conn, err := dialer{func(context.Context, string, string) (net.Conn, error) { return here, nil }, time.Second}.DialContext(t.Context(), "", "")
		must(t, err)
		one := make([]byte, 1)
		for range 3 {
			time.Sleep(time.Minute)
			go conn.Write(one)
			_, err := there.Read(one)
			must(t, err)
			time.Sleep(900 * time.Millisecond)
			go there.Write(one)
			_, err = conn.Read(one)
			must(t, err)
		}
		time.Sleep(time.Minute)
		go conn.Write(one)
		_, err = there.Read(one)
		must(t, err)
		began := time.Now()
		if _, err := conn.Read(one); err == nil || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		must(t, conn.Close())
		must(t, there.Close())
	})
}

// TestRetries: a node that answered is asked again, since there may be no other; of one that did not, another is asked.
func TestRetries(t *testing.T) {
	policy := patiently()
	if got := policy.GetRetryType(&gocql.RequestErrWriteTimeout{}); got != gocql.Retry {
		t.Errorf("after a write that timed out: %v", got)
	}
	if got := policy.GetRetryType(io.EOF); got != gocql.RetryNextHost {
		t.Errorf("after a connection that ended: %v", got)
	}
}

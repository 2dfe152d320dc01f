package volume

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A read that one replica does not answer is answered by another after a while; a quick one asks nobody else.
func TestHedged(t *testing.T) {
	says := func(text string, after time.Duration, err error, asked *bool) func(context.Context, []byte) error {
		return func(ctx context.Context, buf []byte) error {
			*asked = true
			select {
			case <-time.After(after):
			case <-ctx.Done():
				return ctx.Err()
			}
			copy(buf, text)
			return err
		}
	}
	failed := errors.New("failed")
	for _, tc := range []struct {
		name          string
		first, second time.Duration
		firstErr      error
		secondErr     error
		want          string
		took          time.Duration
		both, fails   bool
	}{
		{"quick", time.Millisecond, 0, nil, nil, "first", time.Millisecond, false, false},
		{"stuck", time.Hour, time.Millisecond, nil, nil, "other", hedge + time.Millisecond, true, false},
		{"slow, and the other slower", 2 * hedge, time.Hour, nil, nil, "first", 2 * hedge, true, false},
		{"slow, and the other fails", 2 * hedge, time.Millisecond, nil, failed, "first", 2 * hedge, true, false},
		{"fails at once", 0, 0, failed, nil, "", 0, false, true},
		{"fails late", 2 * hedge, 3 * hedge, failed, nil, "other", 4 * hedge, true, false},
		{"both fail", 2 * hedge, 3 * hedge, failed, failed, "", 4 * hedge, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var one, two bool
				buf, begin := make([]byte, 5), time.Now()
				err := hedged(t.Context(), buf, says("first", tc.first, tc.firstErr, &one), says("other", tc.second, tc.secondErr, &two))
				took := time.Since(begin)
				synctest.Wait()
				if (err != nil) != tc.fails || err == nil && string(buf) != tc.want || took != tc.took || two != tc.both {
					t.Errorf("%q after %v, other asked %t: %v", buf, took, two, err)
				}
			})
		})
	}
}

package compute

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

func show(t *testing.T, r Report, err error) {
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(r.Title)
	fmt.Println(strings.Join(r.Header, " | "))
	for _, row := range r.Rows {
		fmt.Println(strings.Join(row, " | "))
	}
}

func TestShow(t *testing.T) {
	size := Size{Servers: int(env("SERVERS", 600)), Past: int(env("PAST", 14)), Days: int(env("DAYS", 2)), Seeds: int(env("SEEDS", 1))}
	ctx := context.Background()
	switch os.Getenv("SHOW") {
	case "fig13":
		r, err := Fig13(ctx, size)
		show(t, r, err)
	case "fig14":
		r, err := Fig14(ctx, size)
		show(t, r, err)
	case "policies":
		r, err := Policies(ctx, size)
		show(t, r, err)
	case "bitbrains":
		r, err := Bitbrains(ctx, "../../../shared/data/bitbrains", size.Days)
		show(t, r, err)
	}
}

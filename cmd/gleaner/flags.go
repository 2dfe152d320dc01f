package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gleaner/input"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// sameFlags makes the flags of a command and of all below it behave alike: lengths
// of time may be in days and weeks.
func sameFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d, err := time.ParseDuration(f.DefValue); err == nil && f.Value.Type() == "duration" {
			f.Value, f.DefValue = length{f.Value}, spell(d)
		}
	})
	for _, below := range cmd.Commands() {
		sameFlags(below)
	}
}

// A length is the value of a flag for a length of time.
type length struct{ pflag.Value }

func (l length) Set(text string) error {
	d, err := input.ParseLength(text)
	if err != nil {
		return err
	}
	return l.Value.Set(d.String())
}

// spell writes a length of time as a person would: 30d, 1h30m, 5m.
func spell(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}

// kinds describe what a flag of a type takes.
var kinds = map[string]string{
	"bool": "true or false", "float64": "a number",
	"int": "a whole number", "int64": "a whole number", "uint": "a whole number, 0 or more", "uint64": "a whole number, 0 or more",
	"duration": "a length of time such as 90s, 5m, 12h, 30d or 2w",
}

// flagError says what is wrong with the flags in our own words.
func flagError(cmd *cobra.Command, err error) error {
	if rest := cmd.Flags().Args(); cmd.HasSubCommands() && len(rest) > 0 { // no wonder that it has no such flag
		return noArgs(cmd, rest)
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) && kinds[value.GetFlag().Value.Type()] != "" {
		f := value.GetFlag()
		return input.Errorf("--"+f.Name, "%q is not %s", value.GetValue(), kinds[f.Value.Type()])
	}
	return input.Errorf("", "%v; see '%s --help'", err, cmd.CommandPath())
}

// noEmptyFlags refuses a flag with an empty value, such as --data "$UNSET", which
// would otherwise count as not given.
func noEmptyFlags(cmd *cobra.Command, _ []string) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == "" && f.DefValue == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = input.Errorf("--"+f.Name, "is empty: give it a value, or leave it out")
		}
	})
	return err
}

// given returns the first of the flags that the user gave.
func given(cmd *cobra.Command, flags ...string) (string, bool) {
	i := slices.IndexFunc(flags, func(name string) bool { return cmd.Flags().Changed(name) })
	if i < 0 {
		return "", false
	}
	return "--" + flags[i], true
}

// twoArgs wants exactly two arguments, called so.
func twoArgs(first, second string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return input.Errorf("", "'%s' takes a %s and a %s; see --help", cmd.CommandPath(), first, second)
		}
		return nil
	}
}

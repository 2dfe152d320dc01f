package main

import "github.com/spf13/cobra"

func newPlanCheck() *cobra.Command { return &cobra.Command{Use: "check"} }

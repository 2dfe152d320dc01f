package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/control/board"
)

// completedWithin is how long a shell waits for what may follow. Who does not answer by then has nothing to offer.
const completedWithin = time.Second

// complete lets a shell offer what commands take: jobs, and experiments.
func complete(root *cobra.Command) {
	for _, name := range []string{"cancel", "pause", "resume", "rm"} {
		offer(root, false, jobsOffered, name)
	}
	offer(root, true, jobsOffered, "tasks")
	offer(root, true, jobsOffered, "logs")
	offer(root, false, experimentsOffered, "reproduce")
}

// offer lets a shell offer words for the arguments of a command, or for its first one only.
func offer(root *cobra.Command, first bool, words func(*cobra.Command) []string, path ...string) {
	cmd, _, err := root.Find(path)
	if err != nil {
		panic(err) // all commands are known here
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if first && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // perhaps a file
		}
		return slices.DeleteFunc(words(cmd), func(offered string) bool {
			word, _, _ := strings.Cut(offered, "\t") // and what it is
			return slices.Contains(args, word)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// jobsOffered are the jobs of the gleaner that is up, each with its name.
func jobsOffered(cmd *cobra.Command) (words []string) {
	c, err := newClient(cmd)
	if err != nil {
		return nil
	}
	ctx, stop := context.WithTimeout(cmd.Context(), completedWithin)
	defer stop()
	var all []board.Job
	if c.ask(ctx, http.MethodGet, "jobs", nil, &all) != nil {
		return nil
	}
	for _, j := range slices.Backward(all) {
		words = append(words, j.ID.String()+"\t"+j.Name+", "+string(j.State))
	}
	return words
}

func experimentsOffered(*cobra.Command) []string {
	words := []string{"all"}
	for _, e := range experiments() {
		words = append(words, e.Name+"\t"+e.Short)
	}
	return words
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

// topSorts are the orders of 'gleaner top' with the key that chooses each.
var topSorts = []struct {
	name string
	key  byte
	less func(a, b topTask) int
}{
	{"time", 't', func(a, b topTask) int { return a.Since.Compare(b.Since) }},
	{"cores", 'c', func(a, b topTask) int { return cmp.Compare(b.Request.CPU, a.Request.CPU) }},
	{"memory", 'm', func(a, b topTask) int { return cmp.Compare(b.Request.Memory, a.Request.Memory) }},
	{"slowed", 's', func(a, b topTask) int { return cmp.Compare(b.Dilation, a.Dilation) }},
	{"job", 'j', func(a, b topTask) int {
		return cmp.Or(cmp.Compare(a.Task.Job, b.Task.Job), strings.Compare(a.Name, b.Name))
	}},
	{"user", 'u', func(a, b topTask) int { return strings.Compare(a.user, b.user) }},
}

// A topTask is a running task with what is known of its job.
type topTask struct {
	board.RunningTask
	user, job string
}

// A topView is what the keys have chosen.
type topView struct {
	sort     int
	reversed bool
	from     int // the first task that is shown
	lines    int // of the screen; 0: any number
	width    int
}

func newTop() *cobra.Command {
	var once bool
	var sort string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the tasks that run, and what the machine is used for",
		Long: `Top shows how the machine is divided between its primary, the reserve and harvested
tasks, and the tasks that run, updated every second. Cores and memory are what a task
has asked for.

Keys: t, c, m, s, j and u sort by time, cores, memory, slow-down, job and user; r turns
the order around; the arrows, Page Up and Page Down move; q ends. If the output is not
a terminal, it is printed once.`,
		Example: `  gleaner top
  gleaner top --once --sort memory`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTop(cmd, sort, once) },
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print it once, also on a terminal")
	cmd.Flags().StringVar(&sort, "sort", "time", "by time, cores, memory, slowed, job or user; the largest first")
	return cmd
}

func runTop(cmd *cobra.Command, sort string, once bool) error {
	view := topView{sort: -1}
	for i, s := range topSorts {
		if s.name == sort {
			view.sort = i
		}
	}
	if view.sort < 0 {
		return input.Errorf("--sort", "%q is none of time, cores, memory, slowed, job and user", sort)
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	if once || wantJSON(cmd) || !isTerminal(cmd.OutOrStdout()) || !isTerminal(os.Stdin) {
		return printTop(cmd, c, view)
	}
	return liveTop(cmd, c, view)
}

// printTop prints it once.
func printTop(cmd *cobra.Command, c *client, view topView) error {
	s, tasks, err := c.top(cmd.Context())
	if err != nil {
		return err
	}
	view.arrange(tasks)
	if wantJSON(cmd) {
		running := []board.RunningTask{}
		for _, t := range tasks {
			running = append(running, t.RunningTask)
		}
		return printJSON(cmd, running)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), view.text(s, tasks))
	return err
}

// liveTop shows it on the terminal, which it takes over until q or Ctrl-C.
func liveTop(cmd *cobra.Command, c *client, view topView) error {
	const otherScreen, back = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	in, out := int(os.Stdin.Fd()), cmd.OutOrStdout()
	before, err := term.MakeRaw(in)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprint(out, back)
		_ = term.Restore(in, before)
	}()
	fmt.Fprint(out, otherScreen)
	keys := make(chan string)
	go readKeys(os.Stdin, keys)
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		s, tasks, err := c.top(cmd.Context())
		if err != nil {
			return err
		}
		if view.width, view.lines, err = term.GetSize(int(out.(*os.File).Fd())); err != nil {
			return err
		}
		view.arrange(tasks)
		fmt.Fprint(out, home+strings.ReplaceAll(view.text(s, tasks), "\n", "\x1b[K\r\n")+toEnd)
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticks.C:
		case key, more := <-keys:
			if !more || !view.press(key, len(tasks)) {
				return nil
			}
		}
	}
}

// readKeys sends what is typed, a key or an arrow at a time.
func readKeys(in io.Reader, keys chan<- string) {
	defer close(keys)
	buffer := make([]byte, 16)
	for {
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		keys <- string(buffer[:n])
	}
}

// press does what a key says; false if it ends the view.
func (v *topView) press(key string, tasks int) bool {
	page := max(v.lines-topHead, 1)
	switch key {
	case "q", "\x03", "\x1b":
		return false
	case "r":
		v.reversed = !v.reversed
	case "\x1b[A":
		v.from--
	case "\x1b[B":
		v.from++
	case "\x1b[5~":
		v.from -= page
	case "\x1b[6~":
		v.from += page
	}
	v.from = max(0, min(v.from, tasks-1))
	for i, s := range topSorts {
		if key == string(s.key) {
			v.sort, v.from = i, 0
		}
	}
	return true
}

// top asks for the status and the running tasks.
func (c *client) top(ctx context.Context) (s web.Status, tasks []topTask, err error) {
	var jobs []board.Job
	if err = c.ask(ctx, http.MethodGet, "status", nil, &s); err == nil {
		err = c.ask(ctx, http.MethodGet, "jobs", nil, &jobs)
	}
	for _, j := range jobs {
		for _, r := range j.Running {
			r.Task.Job = j.ID
			tasks = append(tasks, topTask{r, j.User, j.Name})
		}
	}
	return s, tasks, err
}

// arrange sorts tasks.
func (v *topView) arrange(tasks []topTask) {
	slices.SortStableFunc(tasks, topSorts[v.sort].less)
	if v.reversed {
		slices.Reverse(tasks)
	}
}

// topHead is how many lines stand above the tasks.
const topHead = 7

func (v *topView) text(s web.Status, tasks []topTask) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s at %s: %s not ended; tasks: %d running, %d waiting, %d killed; by %s\n", s.Server, s.At.Local().Format(time.TimeOnly), counted(s.Jobs, "job"), s.Running, s.Waiting, s.Kills, topSorts[v.sort].name)
	fmt.Fprintln(&out, "cores   "+bar(s, func(r cluster.Resources) float64 { return float64(r.CPU) / float64(cluster.Core) }, "%.2f"))
	fmt.Fprintln(&out, "memory  "+bar(s, func(r cluster.Resources) float64 { return float64(r.Memory) / float64(cluster.GB) }, "%.1f GiB"))
	switch {
	case s.Drained:
		fmt.Fprintln(&out, "drained: no task is started; see 'gleaner resume'")
	case len(s.Short) > 0:
		fmt.Fprintf(&out, "%s waits: %s\n", s.Short[0].Of, s.Short[0].Because)
	default:
		fmt.Fprintln(&out, "# primary  + harvested  . reserve")
	}
	fmt.Fprintln(&out)
	t := newTable("task", "name", "user", ">cores", ">memory", ">for", ">slowed down")
	shown := tasks[min(v.from, len(tasks)):]
	if v.lines > 0 {
		shown = shown[:min(len(shown), max(v.lines-topHead, 1))]
	}
	for _, r := range shown {
		t.row(r.Name, r.job, cmp.Or(r.user, "-"), cores(r.Request), r.Request.Memory.Text(), time.Since(r.Since).Round(100*time.Millisecond).String(), slowedDown(r.Dilation))
	}
	_ = t.print(&out) // a builder takes all
	return v.cut(out.String())
}

// cut shortens lines to the width of the screen.
func (v *topView) cut(text string) string {
	if v.width == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if r := []rune(line); len(r) > v.width {
			lines[i] = string(r[:v.width])
		}
	}
	return strings.Join(lines, "\n")
}

// bar draws who uses a resource of the machine.
func bar(s web.Status, of func(cluster.Resources) float64, format string) string {
	const width = 20 // with the figures, a line of 80 letters
	size := max(of(s.Size), 1e-9)
	drawn := ""
	for _, part := range []struct {
		sign string
		r    cluster.Resources
	}{{"#", s.Primary}, {"+", s.Harvested}, {".", s.Reserve}} {
		n := int(of(part.r)/size*width + 0.5)
		if n == 0 && of(part.r) > 0 {
			n = 1
		}
		drawn += strings.Repeat(part.sign, max(0, min(n, width-len(drawn))))
	}
	figure := func(r cluster.Resources) string { return fmt.Sprintf(format, of(r)) }
	return fmt.Sprintf("[%-"+strconv.Itoa(width)+"s] primary %s, harvested %s, reserve %s of %s", drawn, figure(s.Primary), figure(s.Harvested), figure(s.Reserve), figure(s.Size))
}

package httpcall

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/replay"
)

// kubeconfigOf writes a kubeconfig with a cluster and a user as given.
func kubeconfigOf(t *testing.T, cluster, user string) string {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u, namespace: x}}]\nclusters: [{name: c, cluster: {server: 'https://nowhere', %s}}]\nusers: [{name: u, user: {%s}}]\n", cluster, user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLogin: a server is trusted and logged in to as a kubeconfig says, and each node calls
// as the user that its name says.
func TestLogin(t *testing.T) {
	var heard []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x" {
			heard = append(heard, fmt.Sprint(r.Proto, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Impersonate-User"), " ", r.Header["Impersonate-Group"], " ", r.UserAgent()))
		}
		fmt.Fprint(w, "{}")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	file := kubeconfigOf(t, "certificate-authority-data: "+authority, "token: secret")
	at, _ := url.Parse(server.URL + "?kubeconfig=" + file + "&as=sender&groups=a,b")
	opened, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []replay.Executor{opened, opened.(replay.Sharer).Share(1)} {
		for _, who := range []string{"system:node:n-1", "system:kcm/job-controller"} {
			c, err := e.Dial(t.Context(), replay.Identity{Sender: who})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Call(t.Context(), &trace.Call{Method: "get /x"}); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	want := []string{"HTTP/2.0 Bearer secret system:node:n-1 [a b] gleaner (replay)", "HTTP/2.0 Bearer secret system:kcm [a b] gleaner (replay) gleaner/replay/job-controller"}
	if got := strings.Join(heard, "\n"); got != strings.Join(append(want, want...), "\n") {
		t.Errorf("the server heard\n%s", got)
	}
}

// TestBadLogins: what is wrong with a target's options is named.
func TestBadLogins(t *testing.T) {
	missing := kubeconfigOf(t, "certificate-authority: not-there.crt", "token: x")
	for query, want := range map[string]string{
		"kubconfig=x":           `"kubconfig" is no option`,
		"kubeconfig=/none":      "no such file",
		"as=root":               `"root" is not "sender"`,
		"groups=a":              "of whom",
		"kubeconfig=" + missing: "not-there.crt: no such file",
		"kubeconfig=" + kubeconfigOf(t, "certificate-authority-data: '*'", "token: x"):                        "certificate-authority: illegal base64",
		"kubeconfig=" + kubeconfigOf(t, "certificate-authority-data: eA==", "token: x"):                       "no certificate in it",
		"kubeconfig=" + kubeconfigOf(t, "server: {}", "token: x"):                                             ":6: ",
		"kubeconfig=" + kubeconfigOf(t, "x: y", "exec: {command: aws}"):                                       "logs in by another program",
		"kubeconfig=" + kubeconfigOf(t, "x: y", "client-certificate-data: eA=="):                              "client-certificate: tls",
		"kubeconfig=" + kubeconfigOf(t, "x: y", "tokenFile: nope"):                                            "tokenFile: open",
		"kubeconfig=" + kubeconfigOf(t, "x: y}}, {name: d, cluster: {x: y", "token: x}}, {name: u2, user: {"): "connection refused",
	} {
		at, _ := url.Parse("http://127.0.0.1:1?" + query)
		if _, err := Open(t.Context(), at); err == nil || !strings.Contains(err.Error(), want) || input.Is(err) == (want == "connection refused") {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add("current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c}]\nusers: [{name: u, user: {token: x}}]\n")
	f.Add("current-context: ''\ncontexts: [{}]\nclusters: [{cluster: {certificate-authority: .}}]\n")
	f.Add("- a")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKubeconfig(file); err != nil && !input.Is(err) {
			t.Errorf("%v is no input error", err)
		}
	})
}

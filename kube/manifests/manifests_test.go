package manifests

import (
	"strings"
	"testing"
)

// Each value changes what it is meant to change and nothing else.
func TestValues(t *testing.T) {
	write := func(i Install) string {
		i.Namespace, i.Image = "here", "i:1"
		text, err := Write(i)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	plain, volume, args := write(Install{}), write(Install{Volume: "10Gi"}), write(Install{Args: []string{"--policy=primary", "--query=a \"b\""}})
	for what, in := range map[string][2]string{
		"replicas: 2":                         {plain, volume},
		"storage: 10Gi":                       {volume, plain},
		"--data=/data":                        {volume, plain},
		"type: Recreate":                      {volume, plain},
		"- \"--policy=primary\"\n":            {args, plain},
		"- \"--query=a \\\"b\\\"\"\n":         {args, plain},
		"- --namespace=here\n        envFrom": {plain, volume},
	} {
		if !strings.Contains(in[0], what) || strings.Contains(in[1], what) {
			t.Errorf("%q is not where it belongs", what)
		}
	}
	if strings.Contains(plain+volume+args, "{{") || strings.Contains(plain, "\n\n---") {
		t.Error("something is left of the templates")
	}
}

// Without an image nothing is installed, and it is said what is missing.
func TestAnImageIsNeeded(t *testing.T) {
	if _, err := Write(Install{Namespace: "here"}); err == nil || !strings.Contains(err.Error(), "the image of gleaner-kube") {
		t.Error(err)
	}
}

package hadoop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// Metrics asks the master's web page for one of its beans, such as
// "Hadoop:service=NameNode,name=FSNamesystem".
func (m *Master) Metrics(ctx context.Context, bean string) (map[string]any, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Web+"/jmx?qry="+url.QueryEscape(bean), nil)
	if err != nil {
		return nil, fmt.Errorf("hadoop: %w", err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("hadoop: metrics: %w", err)
	}
	defer reply.Body.Close()
	var page struct{ Beans []map[string]any }
	if err := json.NewDecoder(reply.Body).Decode(&page); err != nil {
		return nil, fmt.Errorf("hadoop: metrics: %w", err)
	}
	if len(page.Beans) == 0 {
		return nil, fmt.Errorf("hadoop: the %s has no metrics %q", m.Name, bean)
	}
	return page.Beans[0], nil
}

package main

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

func showMetrics(_ *node, c command) (reply, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, f := range families {
		if strings.Contains(f.GetName(), c.Contains) {
			for _, m := range f.GetMetric() {
				out[series(f.GetName(), m)] = value(m)
			}
		}
	}
	return reply{"metrics": out}, nil
}

func series(name string, m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		name += "," + l.GetName() + "=" + l.GetValue()
	}
	return name
}

func value(m *dto.Metric) any {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetHistogram() != nil:
		return map[string]any{"count": m.GetHistogram().GetSampleCount(), "sum": m.GetHistogram().GetSampleSum()}
	}
	return nil
}

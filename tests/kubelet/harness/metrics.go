package main

import (
	"strings"

	"k8s.io/component-base/metrics/legacyregistry"
)

func metricsText(contains string) reply {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return failed(err)
	}
	out := map[string]any{}
	for _, f := range families {
		if !strings.Contains(f.GetName(), contains) {
			continue
		}
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "," + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case m.GetCounter() != nil:
				out[name] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				out[name] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				out[name] = map[string]any{"count": m.GetHistogram().GetSampleCount(), "sum": m.GetHistogram().GetSampleSum()}
			}
		}
	}
	return reply{"metrics": out}
}

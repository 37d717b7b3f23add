"""Measured times: kept while tests run, then a table and a file."""

import json
import statistics
from collections import defaultdict
from pathlib import Path

Samples = dict[str, dict[str, list[float]]]


class Figures:
    """Samples by name and kubelet, in milliseconds."""

    def __init__(self) -> None:
        self.samples: Samples = defaultdict(lambda: defaultdict(list))

    def add(self, name: str, kubelet: str, value_ms: float) -> None:
        """Keep one sample."""
        self.samples[name][kubelet].append(value_ms)

    def write(self, path: Path) -> None:
        """Write all samples."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rounded = {
            name: {kubelet: [round(value, 2) for value in values] for kubelet, values in by.items()}
            for name, by in self.samples.items()
        }
        path.write_text(json.dumps(rounded, indent=2) + "\n")

    def table(self) -> list[str]:
        """One line per name, one column per kubelet: median, and with several samples the most."""
        kubelets = sorted({kubelet for by in self.samples.values() for kubelet in by})
        rows = [["milliseconds: median (n, most)", *kubelets]]
        rows += [[name, *(_cell(by.get(k, [])) for k in kubelets)] for name, by in self._named()]
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]

    def _named(self) -> list[tuple[str, dict[str, list[float]]]]:
        return sorted(self.samples.items())


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    middle = f"{statistics.median(values):.1f}"
    return middle if len(values) == 1 else f"{middle} ({len(values)}, {max(values):.1f})"

"""What the demo on real texts found, and how it is summed up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knn_ue.report import RAW, STYLES, Evaluation
from knn_ue.weighting import Explanation

SHOWN = ("accuracy", "ece", "nll", "e_aurc")


@dataclass(frozen=True, kw_only=True)
class TextDemo:
    """Where the report and the UE folder are, what the report says, and how long each step took.

    `sizes` are the rows of each set; `seconds` those of each step, 0 for what came from the cache.
    """

    report: Path
    ue: Path
    evaluation: Evaluation
    verdicts: Sequence[str]
    explanations: Sequence[Explanation]
    sizes: Mapping[str, int]
    seconds: Mapping[str, float]

    def summary(self) -> list[list[str]]:
        """Return a heading, then a line for each set and method; the best of each set and metric ends in `*`."""
        lines = [["set", "method", *(STYLES[metric].heading for metric in SHOWN)]]
        for name in self.sizes:
            table = self.evaluation.tables[name]
            best = {metric: self._best(name, metric) for metric in SHOWN}
            for method in self.evaluation:
                cells = [STYLES[metric].show(table[method][metric]) for metric in SHOWN]
                marked = [
                    cell + ("*" if cell == best[metric] else "") for metric, cell in zip(SHOWN, cells, strict=True)
                ]
                lines.append([name, "softmax" if method == RAW else method, *marked])
        return lines

    def _best(self, name: str, metric: str) -> str | None:
        """Return the best value as printed, None where all methods look equal."""
        table = self.evaluation.tables[name]
        shown = [STYLES[metric].show(table[method][metric]) for method in self.evaluation]
        if len(set(shown)) == 1:
            return None
        return (max if STYLES[metric].higher_is_better else min)(shown, key=float)

"""The record that `evaluate` returns, and its Markdown and JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from knn_ue.errors import InvalidInputError, MissingExtraError
from knn_ue.evaluation.definitions import STYLES, UNDEFINED, Style
from knn_ue.folder import library_version
from knn_ue.metrics import Interval
from knn_ue.shown import table_html, text_html, visible

if TYPE_CHECKING:
    import pandas as pd

RAW = "raw"
TEST = "test"
_BOLD = "\x00"  # marks a cell; no number begins with it
FAMILIARITY = "familiarity"  # a column of the detection tables: no confidence, but how like the training data


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Bins of the calibration errors; draws, level and seed of the bootstrap intervals (0 draws: none)."""

    n_bins: int = 10
    n_bootstrap: int = 0
    level: float = 0.95
    seed: int = 0


def bounds_of(style: Style, interval: Interval) -> str:
    """Return the bounds as printed.

    >>> bounds_of(STYLES["ece"], Interval(low=0.02, high=0.04, estimate=0.03))
    '2.00 to 4.00'
    """
    return f"{style.show(interval.low)} to {style.show(interval.high)}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers of one kind about `n` rows: `scores` and, if drawn, `intervals`; method -> metric -> fraction.

    `weighted` says that rows count by a sample weight.
    """

    caption: str
    n: int
    scores: Mapping[str, Mapping[str, float]]
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    weighted: bool = False

    def __getitem__(self, method: str) -> Mapping[str, float]:
        if method not in self.scores:
            raise InvalidInputError(f"{method!r} was not evaluated: choose one of {', '.join(self.scores)}")
        return self.scores[method]

    def to_markdown(self) -> str:
        """Return one line per metric and one column per method, the best value in bold where it beats the raw model.

        Where there are intervals, bold also asks that its interval and the raw model's do not overlap.
        """
        lines = [f"**{escaped(self.caption)}**", "", *_header(self.scores)]
        for metric in self.scores[RAW]:
            style = STYLES[metric]
            best = self.best(metric)
            shown = [style.show(scores[metric]) for scores in self.scores.values()]
            lines.append(_line(style.heading, [f"**{text}**" if text == best else text for text in shown]))
        return "\n".join(lines)

    def intervals_to_markdown(self) -> str:
        """Return the bounds of the same numbers in the same places."""
        lines = _header(self.intervals)
        for metric in self.intervals[RAW]:
            style = STYLES[metric]
            found = [intervals[metric] for intervals in self.intervals.values()]
            lines.append(_line(style.heading, [bounds_of(style, x) for x in found]))
        return "\n".join(lines)

    def best(self, metric: str) -> str | None:
        """Return the best value as printed, None unless it beats the raw model's: what looks equal is no win."""
        shown = {method: STYLES[metric].show(scores[metric]) for method, scores in self.scores.items()}
        values = {method: float(text) for method, text in shown.items() if text != UNDEFINED}
        if RAW not in values:
            return None
        best = (max if STYLES[metric].higher_is_better else min)(values, key=values.__getitem__)
        if values[best] == values[RAW]:
            return None
        if self.intervals:
            ours, raw = self.intervals[best][metric], self.intervals[RAW][metric]
            if ours.low <= raw.high and raw.low <= ours.high:
                return None
        return shown[best]

    def _repr_html_(self) -> str:
        lines = []
        for metric in self.scores[RAW]:
            style, best = STYLES[metric], self.best(metric)
            shown = [style.show(scores[metric]) for scores in self.scores.values()]
            lines.append([style.heading, *(f"{_BOLD}{text}" if text == best else text for text in shown)])
        return table_html(["", *self.scores], lines, caption=self.caption, bold=_BOLD)

    def _to_plain(self) -> dict[str, Any]:
        scores = {
            method: {metric: _number(value) for metric, value in values.items()}
            for method, values in self.scores.items()
        }
        intervals = {
            method: {metric: [_number(x.low), _number(x.high)] for metric, x in values.items()}
            for method, values in self.intervals.items()
        }
        about = {"caption": self.caption, "n": self.n, "weighted": self.weighted}
        return about | {"scores": scores, "intervals": intervals}


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """What `evaluate` found, all numbers as fractions: `evaluation["raw"]["ece"]` is the raw model's on the test set.

    `tables` holds all of it: "test"; for each out-of-domain set its name (where it has labels) and "name/detection",
    which has the column "familiarity" where that was given; for tag sequences also "test/entities" and
    "name/entities", and where a method has a score for whole sentences "test/sentences" and "name/sentences".
    Iterating gives the names of the methods. `notes` are sentences about them.
    """

    n: int
    n_classes: int
    options: EvaluationOptions
    tables: Mapping[str, Table]
    notes: tuple[str, ...] = ()

    def __getitem__(self, method: str) -> Mapping[str, float]:
        return self.tables[TEST][method]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables[TEST].scores)

    def __repr__(self) -> str:
        return f"Evaluation(n={self.n}, methods={', '.join(self)}, tables={', '.join(self.tables)})"

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        tables = "".join(table._repr_html_() for table in self.tables.values())
        return tables + "".join(map(text_html, self.notes))

    def to_pandas(self) -> "pd.DataFrame":
        """Return a DataFrame with a row per table, method and metric: `value`, and `low`, `high` of its interval."""
        if find_spec("pandas") is None:
            raise MissingExtraError("Evaluation.to_pandas needs pandas. Install it with: pip install pandas")
        import pandas as pd

        rows = [
            {"table": name, "method": method, "metric": metric, "value": value}
            | ({} if interval is None else {"low": interval.low, "high": interval.high})
            for name, table in self.tables.items()
            for method, scores in table.scores.items()
            for metric, value in scores.items()
            for interval in [table.intervals.get(method, {}).get(metric)]
        ]
        return pd.DataFrame(rows)

    def to_markdown(self) -> str:
        """Return all tables, intervals folded away; rates in percent, AURC and E-AURC times 1000."""
        parts = []
        for table in self.tables.values():
            parts.append(table.to_markdown())
            if table.intervals:
                summary = f"{100 * self.options.level:g} % intervals from {self.options.n_bootstrap} bootstrap draws"
                parts.append(f"<details><summary>{summary}</summary>\n\n{table.intervals_to_markdown()}\n\n</details>")
        return "\n\n".join([*parts, *map(escaped, self.notes)]) + "\n"

    def to_json(self) -> str:
        """Return everything as JSON: fractions, null for a number that is not defined, [low, high] for an interval."""
        return json.dumps(self.to_plain(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    def to_plain(self) -> dict[str, Any]:
        """Return what `to_json` writes, as dicts and lists."""
        return {
            "library": "knn-ue",
            "version": library_version(),
            "n": self.n,
            "n_classes": self.n_classes,
            "options": asdict(self.options),
            "tables": {name: table._to_plain() for name, table in self.tables.items()},
        } | ({"notes": list(self.notes)} if self.notes else {})


def _header(methods: Mapping[str, object]) -> list[str]:
    return [_line("", [escaped(name) for name in methods]), f"|---|{'--:|' * len(methods)}"]


def _line(first: str, cells: list[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Return `text` on one line, so that it cannot break a Markdown table."""
    return visible(" ".join(text.replace("|", r"\|").replace("*", r"\*").replace("<", "&lt;").split()))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None

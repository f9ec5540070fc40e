"""The four numbers of a report that everyone should see, each with what it is compared with."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from knn_ue.evaluation import FAMILIARITY, RAW, STYLES, TEST

if TYPE_CHECKING:
    from knn_ue.report.report import Report


@dataclass(frozen=True, kw_only=True)
class Card:
    """A number with its name; `verdict` is "better", "worse" or "" where nothing was compared."""

    title: str
    value: str
    note: str
    verdict: str = ""


def cards(report: "Report") -> list[Card]:
    """Return the cards: accuracy, calibration in and out of domain, and how well strange or wrong rows are found."""
    return [_accuracy(report), _calibration(report), *_out_of_domain(report), *_detection(report)]


def _accuracy(report: "Report") -> Card:
    value = f"{_shown('accuracy', _value(report, TEST, RAW, 'accuracy'))} %"
    return Card(title="Right answers on test", value=value, note="calibration changes none")


def _calibration(report: "Report") -> Card:
    before, after = (_value(report, TEST, method, "ece") for method in (RAW, report.method))
    found = [x for x in report.comparisons if (x.kind, x.other, x.set_name) == ("calibration", RAW, TEST)]
    verdict = found[0].verdict if found else ""
    note = f"{verdict} {'from' if verdict.startswith('no') else 'than'} raw" if verdict else "before → after"
    return Card(
        title="Calibration error on test",
        value=_change("ece", before, after),
        note=note,
        verdict=verdict if verdict in ("better", "worse") else "",
    )


def _out_of_domain(report: "Report") -> Iterator[Card]:
    sets = [name for name in report.sizes if name != TEST and name in report.evaluation.tables]
    if not sets:
        before, after = (_value(report, TEST, method, "nll") for method in (RAW, report.method))
        yield Card(title="Log-loss on test", value=_change("nll", before, after), note="lower is better")
        return
    means = [float(np.mean([_value(report, name, x, "ece") for name in sets])) for x in (RAW, report.method)]
    note = f"mean of {len(sets)} sets" if len(sets) > 1 else f"on {sets[0]}"
    title = "Calibration error out of domain"
    yield Card(title=title, value=_change("ece", *means), note=note)


def _detection(report: "Report") -> Iterator[Card]:
    tables = [report.evaluation.tables[f"{name}/detection"] for name in report.sizes if _detects(report, name)]
    if not tables:
        value = _value(report, TEST, report.method, "auroc")
        title, note = "Wrong answers detected", "AUROC: 50 % is chance, 100 % is perfect"
    else:
        by = FAMILIARITY if all(FAMILIARITY in table.scores for table in tables) else report.method
        value = float(np.mean([table[by]["auroc"] for table in tables]))
        title = "Other domains detected"
        note = f"AUROC by {'familiarity' if by == FAMILIARITY else 'confidence'}; 50 % is chance"
    yield Card(title=title, value=f"{_shown('auroc', value)} %", note=note)


def _detects(report: "Report", name: str) -> bool:
    return f"{name}/detection" in report.evaluation.tables


def _value(report: "Report", set_name: str, method: str, metric: str) -> float:
    return report.evaluation.tables[set_name][method][metric]


def _shown(metric: str, value: float) -> str:
    return STYLES[metric].show(value)


def _change(metric: str, before: float, after: float) -> str:
    unit = " %" if STYLES[metric].unit == "%" else ""
    return f"{_shown(metric, before)} → {_shown(metric, after)}{unit}"

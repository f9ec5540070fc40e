"""Is one method significantly better than another? The difference of a metric on the same rows, with its interval."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from knn_ue import metrics
from knn_ue.evaluation.answered import AnsweredSet
from knn_ue.evaluation.definitions import STYLES, Style
from knn_ue.evaluation.measures import Measure, detection_measures, entity_measures, has_entities, row_measures
from knn_ue.evaluation.tables import TEST, EvaluationOptions
from knn_ue.metrics import Interval

Verdict = Literal["better", "worse", "no significant difference"]
Kind = Literal["calibration", "ranking", "detection"]

_METRIC: dict[Kind, str] = {"calibration": "ece", "ranking": "e_aurc", "detection": "auroc"}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`ours` of `method` against `theirs` of `other`, in one metric of the rows (or entities) of one set.

    `low` and `high` bound ours - theirs over draws of the same rows for both, NaN without draws.
    """

    set_name: str
    kind: Kind
    method: str
    other: str
    ours: float
    theirs: float
    low: float
    high: float

    @property
    def style(self) -> Style:
        """How the metric is printed."""
        return STYLES[_METRIC[self.kind]]

    @property
    def verdict(self) -> Verdict:
        """Say who wins; a difference whose interval holds 0, or that looks equal when printed, is not significant."""
        low, high = (self.ours - self.theirs,) * 2 if math.isnan(self.low) else (self.low, self.high)
        looks_equal = self.style.show(self.ours) == self.style.show(self.theirs)
        if looks_equal or math.isnan(low) or low <= 0 <= high:
            return "no significant difference"
        return "better" if (low > 0) == self.style.higher_is_better else "worse"

    def to_plain(self) -> dict[str, Any]:
        """Return the record and its verdict as plain JSON."""
        numbers = {name: None if value != value else value for name, value in asdict(self).items()}
        return numbers | {"metric": _METRIC[self.kind], "verdict": self.verdict}


def compare(sets: Mapping[str, AnsweredSet], method: str, options: EvaluationOptions) -> tuple[Comparison, ...]:
    """Compare `method` with every other one: ECE and E-AURC on each labeled set, OOD AUROC on each other one.

    Where the rows are words of tagged sentences, ECE and E-AURC are those of the entities.
    """
    found = []
    for name, answered in sets.items():
        measures = {other: dict(_measures(name, sets, other, options)) for other in answered.probs}
        for other, theirs in measures.items():
            if other == method:
                continue
            found += [
                _compared(name, kind, (method, other), (ours, theirs[kind]), options)
                for kind, ours in measures[method].items()
                if len(ours)  # there may be no entities
            ]
    return tuple(found)


def _measures(
    name: str, sets: Mapping[str, AnsweredSet], method: str, options: EvaluationOptions
) -> Iterator[tuple[Kind, Measure]]:
    answered = sets[name]
    if answered.outputs.labels is not None:
        measures = entity_measures if has_entities(answered.outputs) else row_measures
        rows = measures(answered, method, options)
        yield "calibration", rows[_METRIC["calibration"]]
        yield "ranking", rows[_METRIC["ranking"]]
    if name != TEST:
        test = sets[TEST]
        scores = test.confidence(method), answered.confidence(method)
        found = detection_measures(test, answered, scores)
        yield "detection", found[_METRIC["detection"]]


def _compared(
    set_name: str, kind: Kind, names: tuple[str, str], pair: tuple[Measure, Measure], options: EvaluationOptions
) -> Comparison:
    difference = _difference(*pair, options) if options.n_bootstrap else None
    return Comparison(
        set_name=set_name,
        kind=kind,
        method=names[0],
        other=names[1],
        ours=pair[0].value(),
        theirs=pair[1].value(),
        low=math.nan if difference is None else difference.low,
        high=math.nan if difference is None else difference.high,
    )


def _difference(ours: Measure, theirs: Measure, options: EvaluationOptions) -> Interval:
    """Draw the same rows for both, so that the choice of rows cancels out."""
    n_ours = len(ours.columns)
    return metrics.bootstrap_interval(
        lambda *drawn: ours.of(*drawn[:n_ours]) - theirs.of(*drawn[n_ours:]),
        *ours.columns,
        *theirs.columns,
        n_bootstrap=options.n_bootstrap,
        level=options.level,
        seed=options.seed,
        groups=ours.groups,
    )

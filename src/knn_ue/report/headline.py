"""What the numbers say, in a few plain sentences; every number in them is computed, and losses are reported too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.evaluation import RAW, TEST, AnsweredSet, Comparison, Kind, Verdict
from knn_ue.metrics.inputs import top_label

TEMPERATURE = "temperature"
NAMES: dict[Kind, str] = {
    "calibration": "calibration error",
    "ranking": "ranking of answers by confidence",
    "detection": "OOD detection",
}

_SURE = 0.9
_FEW_ROWS = 20  # fewer confident answers than this say nothing


@dataclass(frozen=True, kw_only=True)
class Headline:
    """`lead`, two or three sentences for everyone; `verdicts`, who wins where, one sentence per other method."""

    lead: tuple[str, ...]
    verdicts: tuple[str, ...]


def headline(sets: Mapping[str, AnsweredSet], method: str, comparisons: Sequence[Comparison]) -> Headline:
    """Say what `method` does to the raw model's confidence on `sets`, and where it is better and worse."""
    lead = [_how_honest(sets[TEST], method), _gap(comparisons, method)]
    lead.append(_changed_answers(sets, method))
    verdicts = [_against(RAW, "the raw model", comparisons)]
    if any(x.other == TEMPERATURE for x in comparisons):
        verdicts.append(_against(TEMPERATURE, "temperature scaling", comparisons))
    verdicts += _beaten_by_others(comparisons)
    return Headline(lead=tuple(filter(None, lead)), verdicts=tuple(verdicts))


def percent(fraction: float) -> str:
    """Return a fraction as people read it; what is not all is never printed as 100 %.

    >>> percent(0.8149), percent(0.9999), percent(1.0)
    ('81.5 %', '> 99.9 %', '100 %')
    """
    if fraction >= 1.0 or fraction <= 0.0:
        return f"{100 * fraction:.0f} %"
    if fraction > 0.9995:
        return "> 99.9 %"
    return "< 0.1 %" if fraction < 0.0005 else f"{100 * fraction:.1f} %"


def listed(items: Iterable[str]) -> str:
    """Join `items` with commas and an "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _how_honest(test: AnsweredSet, method: str) -> str:
    labels = test.outputs.require_labels("the headline")
    confidence, correct = top_label(test.probs[RAW], labels, None, None)
    ours, ours_correct = top_label(test.probs[method], labels, None, None)
    sure, ours_sure = confidence >= _SURE, ours >= _SURE
    if sure.sum() < _FEW_ROWS:
        return (
            f"The model is right in {percent(correct.mean())} of the {len(correct):,} test rows; it says it is "
            f"{percent(confidence.mean())} sure on average, and {percent(ours.mean())} after calibration with {method}."
        )
    before = (
        f"When the model says it is at least {100 * _SURE:.0f} % sure ({sure.sum():,} of {len(sure):,} test rows, on "
        f"average {percent(confidence[sure].mean())}), it is right {percent(correct[sure].mean())} of the time"
    )
    if not ours_sure.any():
        return f"{before}; after calibration with {method} it is never that sure."
    return (
        f"{before}; after calibration with {method} the answers it is that sure of ({ours_sure.sum():,}, on average "
        f"{percent(ours[ours_sure].mean())}) are right {percent(ours_correct[ours_sure].mean())} of the time."
    )


def _gap(comparisons: Sequence[Comparison], method: str) -> str:
    changes = [
        f"from {percent(x.theirs)} to {percent(x.ours)} on {x.set_name}"
        for x in comparisons
        if (x.kind, x.other) == ("calibration", RAW)
    ]
    if not changes:
        return ""
    return f"With {method} the average gap between confidence and accuracy (ECE) goes {listed(changes)}."


def _changed_answers(sets: Mapping[str, AnsweredSet], method: str) -> str:
    n_changed = {name: int((x.predicted(method) != x.outputs.predicted).sum()) for name, x in sets.items()}
    if not any(n_changed.values()):
        return "No prediction changes, only the confidence."
    changes = [f"{n:,} of {len(sets[name].outputs):,} rows of {name}" for name, n in n_changed.items() if n]
    labels = sets[TEST].outputs.require_labels("the headline")
    before, after = (percent((sets[TEST].predicted(x) == labels).mean()) for x in (RAW, method))
    return f"{method} changes the prediction in {listed(changes)}; accuracy on {TEST} goes from {before} to {after}."


def _against(other: str, called: str, comparisons: Sequence[Comparison]) -> str:
    ours = [x for x in comparisons if x.other == other]
    if not ours:
        return f"Against {called}: not compared, because there are no entities or the methods predict different ones."
    significantly = _significantly(ours)
    parts = [
        f"{significantly}{verdict} in {listed(found)}"
        for verdict in ("better", "worse")
        if (found := _places(ours, verdict))
    ]
    n_open = sum(x.verdict == "no significant difference" for x in ours)
    if n_open or not parts:
        parts.append(f"no {'significant ' if significantly else ''}difference {'elsewhere' if parts else 'anywhere'}")
    elif not any(x.verdict == "worse" for x in ours):
        parts.append("not worse anywhere")
    return f"Against {called}: {'; '.join(parts)}."


def _beaten_by_others(comparisons: Sequence[Comparison]) -> list[str]:
    others = dict.fromkeys(x.other for x in comparisons if x.other not in (RAW, TEMPERATURE))
    lost = {other: _places([x for x in comparisons if x.other == other], "worse") for other in others}
    worse = f"{_significantly(comparisons)}worse".capitalize()
    return [f"{worse} than {other} in {listed(places)}." for other, places in lost.items() if places]


def _significantly(comparisons: Sequence[Comparison]) -> str:
    """Return the word, or nothing where no intervals were drawn: then the numbers are compared as printed."""
    return "significantly " if any(np.isfinite(x.low) for x in comparisons) else ""


def _places(comparisons: Sequence[Comparison], verdict: Verdict) -> list[str]:
    """Return a phrase for each metric with this verdict somewhere, naming the sets; a loss also in numbers."""
    phrases = []
    for kind, name in NAMES.items():
        sets = [
            f"{x.set_name}: {_number(x, x.ours)} against {_number(x, x.theirs)}" if verdict == "worse" else x.set_name
            for x in comparisons
            if x.kind == kind and x.verdict == verdict
        ]
        if sets:
            phrases.append(f"{name} ({', '.join(sets)})")
    return phrases


def _number(comparison: Comparison, value: float) -> str:
    text = comparison.style.show(value)
    return f"{text} %" if comparison.style.unit == "%" and np.isfinite(value) else text

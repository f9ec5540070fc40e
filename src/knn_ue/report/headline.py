"""What the numbers say, in a few plain sentences; every number in them is computed, and losses are reported too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.evaluation import RAW, TEST, AnsweredSet, Comparison, Kind, Verdict
from knn_ue.reasons import percent

TEMPERATURE = "temperature"
NAMES: dict[Kind, str] = {
    "calibration": "calibration error",
    "ranking": "ranking of answers by confidence",
    "detection": "OOD detection",
}

_SAME = 1e-9  # probabilities that differ by rounding alone
_MATCHES = 0.005  # a mean confidence this near the accuracy is called equal to it


@dataclass(frozen=True, kw_only=True)
class LeadTable:
    """A small table beneath the first sentences; the first column is a heading, the others are numbers or words."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Headline:
    """`lead`, one sentence per set for everyone; `verdicts`, who wins where, one sentence per other method."""

    lead: tuple[str, ...]
    verdicts: tuple[str, ...]
    tables: tuple[LeadTable, ...] = ()


def headline(sets: Mapping[str, AnsweredSet], method: str, comparisons: Sequence[Comparison]) -> Headline:
    """Say what `method` does to the raw model's confidence on `sets`, and where it is better and worse."""
    lead = [_claim(name, answered, method) for name, answered in sets.items()]
    lead.append(_kept_answers(sets, method))
    verdicts = [_against(RAW, "the raw model", comparisons)]
    if any(x.other == TEMPERATURE for x in comparisons):
        verdicts.append(_against(TEMPERATURE, "temperature scaling", comparisons))
    verdicts += _beaten_by_others(comparisons)
    return Headline(lead=tuple(lead), verdicts=tuple(verdicts))


def listed(items: Iterable[str]) -> str:
    """Join `items` with commas and an "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _claim(name: str, answered: AnsweredSet, method: str) -> str:
    """Say in one sentence whether confidence and accuracy agree on a set, before and after calibration."""
    if answered.outputs.labels is None:
        before, after = (percent(answered.mean(answered.confidence(x))) for x in (RAW, method))
        return f"On {name} (no labels), the mean confidence is {before} before and {after} after calibration."
    gaps = [answered.mean(answered.confidence(x)) - answered.mean(answered.correct) for x in (RAW, method)]
    where = ("in domain" if name == TEST else "out of domain") + (", weighted" if answered.weights is not None else "")
    return f"On {name} ({where}), the model {_gap(gaps[0])}; calibrated with {method}, {_gap_after(*gaps)}."


def _gap(gap: float) -> str:
    """Return what a mean confidence minus accuracy means.

    >>> _gap(0.071), _gap(0.001)
    ('overstates its accuracy by 7.1 points', 'matches its accuracy on average')
    """
    if abs(gap) < _MATCHES:
        return "matches its accuracy on average"
    return f"{'overstates' if gap > 0 else 'understates'} its accuracy {_points(gap)}"


def _gap_after(before: float, after: float) -> str:
    """Return what the gap after calibration means, said shortly where it is one of the same kind.

    >>> _gap_after(0.102, 0.051), _gap_after(0.102, 0.001)
    ('by 5.1 points', 'it matches its accuracy on average')
    """
    same = (before > 0) == (after > 0) and min(abs(before), abs(after)) >= _MATCHES
    return _points(after) if same else f"it {_gap(after)}"


def _points(gap: float) -> str:
    return f"by {100 * abs(gap):.1f} points"


def _kept_answers(sets: Mapping[str, AnsweredSet], method: str) -> str:
    kept = "No prediction changes, only the confidence."
    n_doubted = {
        name: int((x.probs[method].max(axis=1) > x.confidence(method) + _SAME).sum()) for name, x in sets.items()
    }
    where = [f"{n:,} of {len(sets[name].outputs):,} rows of {name}" for name, n in n_doubted.items() if n]
    return f"{kept} In {listed(where)}, {method} finds another class more probable." if where else kept


def _against(other: str, called: str, comparisons: Sequence[Comparison]) -> str:
    ours = [x for x in comparisons if x.other == other]
    if not ours:
        return f"Against {called}: not compared, because there are no entities."
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
    """Return a phrase for each metric with this verdict somewhere, naming the sets; the numbers are in the tables."""
    phrases = []
    for kind, name in NAMES.items():
        sets = [x.set_name for x in comparisons if x.kind == kind and x.verdict == verdict]
        if sets:
            phrases.append(f"{name} ({', '.join(sets)})")
    return phrases

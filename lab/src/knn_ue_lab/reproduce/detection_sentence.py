"""The sentence on OOD detection: a mean over sets hides the tasks where ours loses and the sets that are too easy."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from knn_ue.report.headline import listed
from knn_ue_lab.reproduce.league import Column, Record, in_all, league_of, of_measure, placed, record_of
from knn_ue_lab.reproduce.ours import DETECTOR, OURS, code
from knn_ue_lab.reproduce.phrases import many, places_of, together

_MAIN, _PLAIN = "knn-ue", "softmax"
BY_LENGTH = 75.0  # an AUROC, in percent, half-way from chance to certain


def detection_sentence(detected: Sequence[Column], lengths: Mapping[tuple[str, str], float]) -> str | None:
    """Return who detects best, by rank and by mean, on which tasks ours does not, and what the length alone detects."""
    columns = of_measure(detected, "detection_auroc")
    means = _means(columns)
    if not {_MAIN, _PLAIN} <= means.keys():
        return None
    best_other = max((name for name in means if name not in OURS), key=means.__getitem__)
    ranked = placed(league_of(detected))
    numbers = places_of(ranked)
    leaders = [one for one in ranked if numbers[one.method] == 1]
    ours = [one for one in (DETECTOR, _MAIN) if numbers.get(one, 1) > 1]
    places = [f"{together(leaders)} {'is' if len(leaders) == 1 else 'are'} first by mean rank"]
    places += [f"{code(name)} is number {numbers[name]}" for name in ours]
    shown = sorted({best_other, _PLAIN, _MAIN, *({DETECTOR} & means.keys())}, key=lambda name: -means[name])
    aurocs = listed(f"{code(name)} {means[name]:.1f} %" for name in shown)
    n_sets = len(columns)
    parts = [
        f"OOD detection on {many(n_sets, 'set')}: of {len(ranked)} methods, {listed(places)}. "
        f"{'Mean AUROC' if n_sets > 1 else 'AUROC'}: {aurocs}",
        _where_behind(columns),
        _by_length(detected, lengths),
    ]
    return f"{'. '.join(part for part in parts if part)}."


def _means(columns: Sequence[Column]) -> dict[str, float]:
    """Return the mean AUROC of the methods that have all columns with all seeds of the plain model."""
    seeds = [column.values.get(_PLAIN, {}).keys() for column in columns]
    return {
        name: fmean(column.mean(name) for column in columns)
        for name in in_all(columns)
        if all(column.values[name].keys() == known for column, known in zip(columns, seeds, strict=True))
    }


def _where_behind(columns: Sequence[Column]) -> str:
    """Return on which tasks our detector is not first, and on which sets it finds less than the softmax."""
    behind = [task for task, (ours, best) in _by_task(columns).items() if ours < best]
    below = [one.part for one in columns if DETECTOR in one.values and one.is_better(_PLAIN, DETECTOR)]
    parts = [f"not the best on {listed(behind)}"] if behind else []
    parts += [f"below the softmax on {listed(below)}"] if below else []
    return f"{code(DETECTOR)} is {' and '.join(parts)}" if parts else ""


def _by_task(columns: Sequence[Column]) -> dict[str, tuple[float, float]]:
    """Return by task the mean AUROC of our detector and the best of any other: one mean over all would hide it."""
    found = {}
    for task in dict.fromkeys(column.setup for column in columns):
        means = _means([column for column in columns if column.setup == task])
        others = [mean for name, mean in means.items() if name != DETECTOR]
        if DETECTOR in means and others:
            found[task] = (means[DETECTOR], max(others))
    return found


def _by_length(detected: Sequence[Column], lengths: Mapping[tuple[str, str], float]) -> str:
    """Return on how many sets the texts are shorter or longer, and who detects best on the others."""
    compared = {(one.setup, one.part) for one in detected} & lengths.keys()
    easy = {key for key in compared if lengths[key] >= BY_LENGTH}
    if not easy:
        return ""
    others = [one for one in detected if (one.setup, one.part) not in easy]
    means = sorted(_means(of_measure(others, "detection_auroc")).items(), key=lambda one: -one[1]) if others else []
    rivals = [name for name, _ in means if name not in OURS][:1]
    shown = {*rivals, DETECTOR, _PLAIN} & dict(means).keys()
    rest = ""
    if shown:
        best = listed(f"{code(name)} {mean:.1f} %" for name, mean in means if name in shown)
        rest = f"; without {'it' if len(easy) == 1 else 'them'}, the mean AUROC is {best}"
        record = record_of(others, DETECTOR, rivals[0]) if rivals else Record()
        rest += f", and {code(DETECTOR)} has {record} against {code(rivals[0])}" if record.total else ""
    return (
        f"On {len(easy)} of {many(len(compared), 'set')} of texts the number of words alone has an AUROC of at least "
        f"{BY_LENGTH:.0f} %{rest}"
    )

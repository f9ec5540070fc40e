"""The sentence on OOD detection: a mean over sets hides the tasks where ours loses and the sets that are too easy."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from knn_ue.report.headline import listed
from knn_ue_reproduce.league import Column, in_all, league_of, of_measure, placed, record_of
from knn_ue_reproduce.ours import DETECTOR, OURS, code
from knn_ue_reproduce.phrases import many, places_of, shown_rank

_MAIN, _PLAIN = "knn-ue", "softmax"
_BY_LENGTH = 75.0  # an AUROC, in percent, half-way from chance to certain


def detection_sentence(detected: Sequence[Column], lengths: Mapping[tuple[str, str], float]) -> str | None:
    """Return who detects best, by rank and by mean, on which tasks ours does not, and what the length alone detects."""
    columns = of_measure(detected, "detection_auroc")
    methods = [
        name
        for name in in_all(columns)
        if all(column.values[name].keys() == column.values.get(_PLAIN, {}).keys() for column in columns)
    ]
    if not {_MAIN, _PLAIN} <= set(methods):
        return None
    means = {method: fmean(column.mean(method) for column in columns) for method in methods}
    ordered = sorted(means, key=lambda method: -means[method])
    best_other = next(name for name in ordered if name not in OURS)
    shown = dict.fromkeys((ordered[0], best_other, _PLAIN, _MAIN, *(one for one in (DETECTOR,) if one in means)))
    ranked = placed(league_of(detected))
    numbers = places_of(ranked)
    places = [
        f"{code(one.method)} is number {numbers[one.method]} ({shown_rank(one)})"
        for one in ranked
        if numbers[one.method] == 1 or one.method in (_MAIN, DETECTOR)
    ]
    tested = [f"{code(name)} {record}" for name in (DETECTOR, _MAIN) if (record := record_of(detected, name)).total]
    aurocs = listed(f"{code(method)} {means[method]:.1f} %" for method in shown)
    parts = [
        f"OOD detection on {many(len(columns), 'set')}, by mean rank of {len(ranked)}: {listed(places)}; by mean "
        f"AUROC: {aurocs}",
        _by_task(columns, methods),
        _below_plain(columns),
        f"Wins / ties / losses against all of them: {listed(tested)}" if tested else "",
        _by_length(lengths),
    ]
    return f"{'. '.join(part for part in parts if part)}."


def _below_plain(columns: Sequence[Column]) -> str:
    """Return the sets where our detector finds less than the confidence of the plain model."""
    below = [one.part for one in columns if DETECTOR in one.values and one.is_better(_PLAIN, DETECTOR)]
    return f"Its AUROC is below that of the plain softmax on {listed(below)}" if below else ""


def _by_length(lengths: Mapping[tuple[str, str], float]) -> str:
    """Return on how many sets nothing needs to be read, since their texts are shorter or longer."""
    easy = [part for (_, part), auroc in lengths.items() if auroc >= _BY_LENGTH]
    if not easy:
        return ""
    return (
        f"On {len(easy)} of {many(len(lengths), 'set')} of texts ({listed(easy)}) the number of words alone has an "
        f"AUROC of at least {_BY_LENGTH:.0f} %, so they say little about detection"
    )


def _by_task(columns: Sequence[Column], methods: Sequence[str]) -> str:
    """Return on which tasks our detector has the highest mean AUROC and on which not: one mean over all hides it."""
    tasks = dict.fromkeys(column.setup for column in columns)
    if DETECTOR not in methods or len(tasks) < 2:
        return ""
    ahead: list[str] = []
    behind: list[str] = []
    for task in tasks:
        means = {name: fmean(column.mean(name) for column in columns if column.setup == task) for name in methods}
        best = max((name for name in methods if name != DETECTOR), key=means.__getitem__)
        numbers = f"{means[DETECTOR]:.1f} %, {code(best)} {means[best]:.1f} %"
        (ahead if means[DETECTOR] >= means[best] else behind).append(f"{task} ({numbers})")
    parts = [f"is first on {listed(ahead)}"] if ahead else []
    parts += [f"not on {listed(behind)}" if ahead else f"is first on no task: {listed(behind)}"] if behind else []
    return f"{code(DETECTOR)} {', but '.join(parts)}"

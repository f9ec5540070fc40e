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
    means = _means(columns)
    if not {_MAIN, _PLAIN} <= means.keys():
        return None
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
        _by_task(columns),
        _below_plain(columns),
        f"Wins / ties / losses against all other methods, by AUROC and FPR@95: {listed(tested)}" if tested else "",
        _by_length(columns, lengths),
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


def _below_plain(columns: Sequence[Column]) -> str:
    """Return the sets where our detector finds less than the confidence of the plain model."""
    below = [one.part for one in columns if DETECTOR in one.values and one.is_better(_PLAIN, DETECTOR)]
    return f"The AUROC of {code(DETECTOR)} is below that of the plain softmax on {listed(below)}" if below else ""


def _by_length(columns: Sequence[Column], lengths: Mapping[tuple[str, str], float]) -> str:
    """Return on which sets the texts are shorter or longer, and who detects best on the others."""
    easy = {key: auroc for key, auroc in lengths.items() if auroc >= _BY_LENGTH}
    if not easy:
        return ""
    parts = [
        f"On {len(easy)} of {many(len(lengths), 'set')} of texts ({listed(part for _, part in easy)}) the number of "
        f"words alone has an AUROC of at least {_BY_LENGTH:.0f} %, so a high AUROC there may only reflect length"
    ]
    more = [
        f"{one.part} ({lengths[one.setup, one.part]:.1f} %, {code(DETECTOR)} {one.mean(DETECTOR):.1f} %)"
        for one in columns
        if DETECTOR in one.values and round(lengths.get((one.setup, one.part), 0.0), 1) > round(one.mean(DETECTOR), 1)
    ]
    parts += [f"The number of words detects more than {code(DETECTOR)} on {listed(more)}"] if more else []
    others = [one for one in columns if (one.setup, one.part) not in easy]
    means = sorted(_means(others).items(), key=lambda one: -one[1]) if others else []
    shown = {*[name for name, _ in means if name not in OURS][:1], DETECTOR, _PLAIN} & dict(means).keys()
    if shown:
        best = listed(f"{code(name)} {mean:.1f} %" for name, mean in means if name in shown)
        parts.append(f"On the other {many(len(others), 'set')} the mean AUROC is {best}")
    return ". ".join(parts)


def _by_task(columns: Sequence[Column]) -> str:
    """Return on which tasks our detector has the highest mean AUROC and on which not: one mean over all hides it."""
    tasks = dict.fromkeys(column.setup for column in columns)
    ahead: list[str] = []
    behind: list[str] = []
    for task in tasks:
        means = _means([column for column in columns if column.setup == task])
        others = [name for name in means if name != DETECTOR]
        if DETECTOR not in means or not others:
            return ""
        best = max(others, key=means.__getitem__)
        numbers = f"{means[DETECTOR]:.1f} %, {code(best)} {means[best]:.1f} %"
        (ahead if means[DETECTOR] >= means[best] else behind).append(f"{task} ({numbers})")
    if len(tasks) < 2:
        return ""
    parts = [f"is first on {listed(ahead)}"] if ahead else []
    parts += [f"not on {listed(behind)}" if ahead else f"is first on no task: {listed(behind)}"] if behind else []
    return f"{code(DETECTOR)} {', but '.join(parts)}"

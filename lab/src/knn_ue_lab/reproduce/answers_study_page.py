"""The page of the study of given answers: three sentences, the means, where the verifier loses, one table per task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Cell = Mapping[str, Any]
Cells = Sequence[Cell]

METHODS = {
    "constant": "constant per answer",
    "platt": "own score, Platt-scaled",
    "direct": "regression on (vector, answer)",
    "crossed": "regression, a slope per answer",
    "neighbors": "share of neighbors, as is",
    "verifier": "**verifier**",
    "verifier+own": "**verifier**, own score",
}
MEASURES = ("E-AURC x1000", "AUROC", "Brier x100", "ECE")
RIVALS = ("direct", "crossed")
_LOST = 10.0  # E-AURC x1000: the verifier may not be worse than a rival by more
_STRONG = 80.0  # % right answers


def page(by_reader: Mapping[str, Cells]) -> str:
    """Return the page as Markdown."""
    shown = {reader: cells for reader, cells in by_reader.items() if cells}
    if not shown:
        return "# Verifier results\n\nNothing was measured yet.\n"
    lines = ["# Verifier results", "", *_sentences(shown), ""]
    for reader, cells in shown.items():
        lines += [f"## Reader: {reader}", "", *_means(cells), "", *_lost(cells), ""]
    first = next(iter(shown.values()))
    lines += ["## Correcting answers", "", *_corrected(first), ""]
    lines += [f"## Per task, reader: {next(iter(shown))}", ""]
    lines += ["E-AURC x1000 at 100 labeled rows; `%` is the share of right answers.", ""]
    for task in _tasks(first):
        lines += [f"### {task}", "", *_task_table([cell for cell in first if cell["task"] == task]), ""]
    return "\n".join(lines).rstrip() + "\n"


def value(cell: Cell, size: str, method: str, measure: int) -> float:
    """Return the mean over draws of one measure in one cell; NaN where it was not measured."""
    draws = cell["scores"][size].get(method)
    return _mean([draw[measure] for draw in draws]) if draws else float("nan")


def mean_over_tasks(cells: Cells, of: Callable[[Cell], float]) -> float:
    """Return the mean over tasks of the mean over the task's models."""
    return _mean([_mean([of(cell) for cell in cells if cell["task"] == task]) for task in _tasks(cells)])


def _sentences(shown: Mapping[str, Cells]) -> Iterator[str]:
    reader, cells = next(iter(shown.items()))
    sizes = _sizes(cells)
    middle = sizes[len(sizes) // 2]
    ours, direct, constant = (_mean_of(cells, middle, name, 0) for name in ("verifier", "direct", "constant"))
    plain, crossed = ([_gap(cells, size, rival) for size in sizes] for rival in RIVALS)
    ece = {name: _mean_of(cells, sizes[0], name, 3) for name in ("verifier", "constant", "direct")}
    yield (
        f"1. With {middle} labeled rows and nothing of the judged model but answers, the verifier's E-AURC x1000 is "
        f"{ours:.0f}; a logistic regression on (vector, answer) has {direct:.0f}, a constant per answer {constant:.0f}."
    )
    yield (
        f"2. The verifier is {_slashed(plain)} better than that regression with {' / '.join(sizes)} labeled rows, and "
        f"{_slashed(crossed)} better than one with a slope per answer."
    )
    yield (
        f"3. {sizes[0]} rows are enough to rank, not to calibrate: there the ECE is {ece['verifier']:.1f}, that of a "
        f"constant per answer {ece['constant']:.1f}, of the regression {ece['direct']:.1f}."
    )
    yield ""
    yield (
        f"{len(_tasks(cells))} tasks, {len(cells)} (task, model) pairs, {_n_draws(cells)} draws; all rows that are not "
        f"labeled are test rows. Means over tasks of means over models. The reader {reader} ships with the library."
    )
    if not any("platt" in cell["scores"][sizes[0]] for cell in cells):
        yield "None of these answers comes with a score of the model's own, so what such a score adds is not measured."
    yield (
        "Made by `python -m knn_ue_lab.reproduce.answers_study`. The answers are recorded outputs of research "
        "repositories, for measurement only: they are not part of this project."
    )


def _means(cells: Cells) -> Iterator[str]:
    sizes = _sizes(cells)
    strong = [cell for cell in cells if _accuracy(cell, sizes[0], 0) >= _STRONG]
    title = f"E-AURC, models ≥ {_STRONG:.0f} %"
    yield f"| at {' / '.join(sizes)} labeled rows | {' | '.join(MEASURES)} | {title} |"
    yield "|---|" + "--:|" * (len(MEASURES) + 1)
    for method, name in METHODS.items():
        if not any(method in cell["scores"][sizes[0]] for cell in cells):
            continue
        columns = [(cells, measure) for measure in range(len(MEASURES))] + [(strong, 0)]
        numbers = [
            _slashed([_mean_of(some, size, method, measure) for size in sizes], digits)
            for (some, measure), digits in zip(columns, (0, 0, 1, 1, 0), strict=True)
        ]
        yield f"| {name} | {' | '.join(numbers)} |"


def _lost(cells: Cells) -> Iterator[str]:
    found = []
    for size in _sizes(cells):
        for rival in ("constant", *RIVALS):
            for cell in cells:
                worse = value(cell, size, "verifier", 0) - value(cell, size, rival, 0)
                if worse > 0:
                    found.append((worse, f"{cell['task']}, {cell['model']}, {size} rows, {METHODS[rival]}"))
    n_pairs = len(cells) * len(_sizes(cells)) * (1 + len(RIVALS))
    found.sort(reverse=True)
    far = [one for one in found if one[0] > _LOST]
    yield (
        f"Of {n_pairs:,} comparisons of mean E-AURC (constant and both regressions) the verifier loses {len(found)}, "
        f"{len(far)} of them by more than {_LOST:.0f}. The largest losses:"
    )
    yield ""
    yield from (f"* {name}: +{worse:.0f}" for worse, name in found[:5])


def _corrected(cells: Cells) -> Iterator[str]:
    sizes = _sizes(cells)
    yield "Share of right answers in %, as given and where the verifier's best class given the answer replaces it:"
    yield ""
    yield f"| models | as given | corrected, {' / '.join(sizes)} labeled rows |"
    yield "|---|--:|--:|"
    for name, some in (
        ("all", list(cells)),
        ("right at least 80 %", [cell for cell in cells if _accuracy(cell, sizes[0], 0) >= _STRONG]),
    ):
        given = mean_over_tasks(some, lambda cell: _accuracy(cell, sizes[0], 0))
        fixed = [_corrected_mean(some, size) for size in sizes]
        yield f"| {name} | {given:.1f} | {_slashed(fixed, 1)} |"


def _corrected_mean(cells: Cells, size: str) -> float:
    return mean_over_tasks(cells, lambda cell: _accuracy(cell, size, 1))


def _accuracy(cell: Cell, size: str, place: int) -> float:
    return _mean([draw[place] for draw in cell["corrected"][size]["accuracy"]])


def _task_table(cells: Cells) -> Iterator[str]:
    sizes = _sizes(cells)
    middle = sizes[len(sizes) // 2]
    shown = [name for name in METHODS if any(name in cell["scores"][middle] for cell in cells)]
    yield f"| model | % | {' | '.join(METHODS[name] for name in shown)} |"
    yield "|---|--:|" + "--:|" * len(shown)
    for cell in cells:
        right = _accuracy(cell, middle, 0)
        numbers = " | ".join(f"{value(cell, middle, name, 0):.0f}" for name in shown)
        yield f"| {cell['model']} | {right:.0f} | {numbers} |"


def _mean_of(cells: Cells, size: str, method: str, measure: int) -> float:
    return mean_over_tasks(cells, lambda cell: value(cell, size, method, measure))


def _slashed(values: Sequence[float], digits: int = 0) -> str:
    return " / ".join(f"{one:.{digits}f}" for one in values)


def _gap(cells: Cells, size: str, rival: str) -> float:
    return mean_over_tasks(cells, lambda cell: value(cell, size, rival, 0) - value(cell, size, "verifier", 0))


def _tasks(cells: Cells) -> list[str]:
    return sorted({cell["task"] for cell in cells})


def _sizes(cells: Cells) -> list[str]:
    return sorted(cells[0]["scores"], key=int)


def _n_draws(cells: Cells) -> int:
    return len(cells[0]["scores"][_sizes(cells)[0]]["verifier"])


def _mean(values: Sequence[float]) -> float:
    known = np.array(values)[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")

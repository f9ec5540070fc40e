"""One picture for each task: every method's ECE and E-AURC, in domain and out of domain."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from knn_ue.report.pictures import svg_of
from knn_ue_lab.reproduce.league import Column
from knn_ue_lab.reproduce.measures import measure_of
from knn_ue_lab.reproduce.ours import OURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = ("ece", "e_aurc")
_IN, _OUT = ("#0072B2", "o", "in domain"), ("#D55E00", "s", "out of domain, mean over sets")

# Of a method: the mean, and the standard deviation over seeds of the mean over sets.
Point = tuple[float, float]


def picture_of(setup: str, inside: Sequence[Column], outside: Sequence[Column]) -> str | None:
    """Return the picture of a task as SVG, None where no two methods can be compared; needs matplotlib."""
    columns = [[column for column in group if column.setup == setup] for group in (inside, outside)]
    if not any(len(column.values) > 1 for group in columns for column in group):
        return None
    return svg_of(partial(_draw, *columns), f"{setup}-")


def caption_of(setup: str) -> str:
    """Return what the picture of a task shows."""
    return (
        f"{setup}: ECE and E-AURC (our definition) of every method, lower is better, the best out of domain first. "
        "Lines are the standard deviation over seeds, ours are in bold. The same numbers are in the tables."
    )


def points(columns: Sequence[Column], measure: str) -> dict[str, Point]:
    """Return the mean over sets and its standard deviation over seeds of each method that has all the sets."""
    chosen = [column for column in columns if column.measure == measure]
    found: dict[str, Point] = {}
    for method in chosen[0].values if chosen else ():
        if all(method in column.values for column in chosen):
            seeds = set.intersection(*(set(column.values[method]) for column in chosen))
            by_seed = [np.mean([column.values[method][seed] for column in chosen]) for seed in sorted(seeds)]
            if by_seed:
                spread = float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else 0.0
                found[method] = float(np.mean(by_seed)), spread
    return found


def _draw(inside: Sequence[Column], outside: Sequence[Column]) -> "Figure":
    from matplotlib.figure import Figure

    order = points(outside, _PANELS[0]) or points(inside, _PANELS[0])
    methods = sorted(order, key=lambda method: -order[method][0])  # the first is drawn lowest
    figure = Figure(figsize=(7.4, 0.9 + 0.23 * len(methods)), layout="constrained")
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for panel, measure in zip(panels, _PANELS, strict=True):
        for group, (color, marker, label) in ((inside, _IN), (outside, _OUT)):
            known = points(group, measure)
            places = [place for place, method in enumerate(methods) if method in known]
            shown = [known[methods[place]] for place in places]
            if shown:
                means, spreads = zip(*shown, strict=True)
                panel.errorbar(
                    means, places, xerr=spreads, color=color, marker=marker, linestyle="", markersize=4, label=label
                )
        unit = "%" if measure_of(measure).unit == 100 else "×1000"
        panel.set_xlabel(f"{measure_of(measure).title} {unit}")
        panel.set_xlim(left=0)
        panel.set_yticks(range(len(methods)), methods)
        panel.grid(color="#DDDDDD", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    for label in panels[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() in OURS else "normal")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure

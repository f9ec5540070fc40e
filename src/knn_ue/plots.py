"""Reliability, risk-coverage and confidence pictures as matplotlib figures; needs the extra `plots`.

Colors are Okabe and Ito's, which color-blind readers can tell apart; each method also has its own marker and line
style, so that a print in gray can be read.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_not_empty, label_vector, probability_matrix
from knn_ue.errors import InvalidInputError, require
from knn_ue.metrics import ReliabilityBins
from knn_ue.metrics.weights import checked_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from knn_ue.tuning import Tuning

_COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), ":")
_GUIDE: dict[str, Any] = {"color": "#666666", "linewidth": 1.0, "linestyle": ":"}
# A bin with fewer rows is drawn hollow and not joined to the line: its accuracy is mostly noise.
_FEW_ROWS = 20
# A risk-coverage curve begins at this coverage, for the same reason, and has this many points.
_FIRST_COVERAGE = 0.02
_N_POINTS = 400


def reliability_diagram(
    probs: FloatArray | Mapping[str, FloatArray],
    labels: IntArray,
    n_bins: int = 10,
    *,
    predicted: IntArray | None = None,
    sample_weight: FloatArray | None = None,
) -> "Figure":
    """Draw accuracy against confidence, and under it how many rows have that confidence. Guo et al. (2017).

    `probs` (n, classes), or several by name; `labels` (n,); `predicted` (n,) are the answers, by default the most
    probable class; `sample_weight` (n,) says how much each row counts. A method on the diagonal is calibrated; below
    it, it is overconfident. Bins are those of
    `reliability_bins`, each drawn at its mean confidence, hollow and apart where it has fewer than 20 rows; ECE is in
    the legend.
    """
    figure_class = _figure_class("reliability_diagram")
    scores = _scores(probs, labels, predicted)
    figure = figure_class(figsize=(5.2, 6.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3.4, 1)})
    upper.plot([0, 1], [0, 1], **_GUIDE, label="perfectly calibrated")
    any_hollow = False
    for position, (name, (confidence, correct)) in enumerate(scores.items()):
        given: dict[str, Any] = {"confidence": confidence, "correct": correct, "n_bins": n_bins}
        bins = metrics.reliability_bins(**given, sample_weight=sample_weight)
        error = metrics.expected_calibration_error(**given, sample_weight=sample_weight)
        counted = None if sample_weight is None else (np.asarray(sample_weight) > 0).astype(np.float64)
        n_rows = metrics.reliability_bins(**given, sample_weight=counted).count
        any_hollow |= _draw_bins(upper, bins, n_rows, position, f"{name}  (ECE {100 * error:.1f} %)")
        _draw_counts(lower, bins, position, len(scores))
    if any_hollow:
        hollow = {"color": "#666666", "linestyle": "", "marker": "o", "markerfacecolor": "white"}
        upper.plot([], [], **hollow, label=f"hollow: fewer than {_FEW_ROWS} rows")
    upper.set(ylabel="accuracy", xlim=(0, 1.02), ylim=(-0.02, 1.02))
    lower.set(xlabel="confidence", ylabel="% of rows")
    _legend_above(upper)
    _finish(upper)
    _finish(lower)
    return figure


def risk_coverage(
    probs: FloatArray | Mapping[str, FloatArray],
    labels: IntArray,
    *,
    predicted: IntArray | None = None,
    sample_weight: FloatArray | None = None,
) -> "Figure":
    """Draw the error rate among the most confident rows against how many rows those are. El-Yaniv and Wiener (2010).

    `probs` (n, classes), or several by name; `labels` (n,); `predicted` (n,) are the answers, by default the most
    probable class; `sample_weight` (n,) says how much each row counts. Lower is better; "perfect ranking" puts all
    errors of the first method last. The first 2 % of the rows, where the curve is noise, are not drawn; AURC, in the
    legend times 1000, counts them.
    """
    figure_class = _figure_class("risk_coverage")
    scores = _scores(probs, labels, predicted)
    figure = figure_class(figsize=(5.6, 4.4), layout="constrained")
    axes = figure.subplots()
    for position, (name, (confidence, correct)) in enumerate(scores.items()):
        given: dict[str, Any] = {"confidence": confidence, "correct": correct, "sample_weight": sample_weight}
        curve = metrics.risk_coverage_curve(**given)
        area = metrics.aurc(**given)
        rows = _drawn_rows(curve.coverage)
        look = _look(position) | {"marker": "", "label": f"{name}  (AURC {1000 * area:.1f})"}
        axes.plot(100 * curve.coverage[rows], 100 * curve.risk[rows], **look)
    _, correct = next(iter(scores.values()))
    coverage = np.linspace(_FIRST_COVERAGE, 1.0, _N_POINTS)
    perfect = np.maximum(0.0, 1.0 - np.average(correct, weights=sample_weight) / coverage)
    axes.plot(100 * coverage, 100 * perfect, **_GUIDE, label="perfect ranking")
    axes.set(xlabel="coverage: % of rows answered, most confident first", ylabel="risk: % of those wrong")
    axes.set(xlim=(0, 100))
    axes.set_ylim(bottom=0)
    _legend_above(axes)
    _finish(axes)
    return figure


def index_frontier(tuning: "Tuning") -> "Figure":
    """Draw the log-loss of each index tried against its time per query; the chosen one is circled."""
    figure = _figure_class("index_frontier")(figsize=(5.6, 4.4), layout="constrained")
    axes = figure.subplots()
    for position, good in enumerate((True, False)):
        shown = [trial for trial in tuning.trials if trial.good_enough is good]
        look = _look(position) | {"linestyle": "", "label": "keeps the calibration" if good else "does not"}
        axes.plot([trial.milliseconds for trial in shown], [trial.nll for trial in shown], **look)
    chosen = [trial for trial in tuning.trials if trial.options == tuning.chosen]
    points = [trial.milliseconds for trial in chosen], [trial.nll for trial in chosen]
    axes.plot(*points, "o", markersize=14, fillstyle="none", color="black", label="chosen")
    axes.set(xscale="log", xlabel="milliseconds per query", ylabel="log-loss on validation")
    _legend_above(axes)
    _finish(axes)
    return figure


def confidence_histogram(
    probs: FloatArray | Mapping[str, FloatArray],
    labels: IntArray | None,
    n_bins: int = 20,
    *,
    predicted: IntArray | None = None,
    sample_weight: FloatArray | None = None,
) -> "Figure":
    """Draw how many rows have which confidence, right answers below, wrong ones hatched on top; one panel per method.

    `probs` (n, classes), or several by name; `labels` (n,), or None where there are none; `predicted` (n,) are the
    answers, by default the most probable class; `sample_weight` (n,) says how much each row counts. A trustworthy model
    has its wrong answers at the left.
    """
    figure_class = _figure_class("confidence_histogram")
    named = _scores(probs, labels, predicted)
    figure = figure_class(figsize=(5.2, 1.0 + 1.75 * len(named)), layout="constrained")
    panels = figure.subplots(len(named), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    lowest = min(float(confidence.min()) for confidence, _ in named.values())
    for panel, (name, (confidence, correct)) in zip(panels, named.items(), strict=True):
        weights = checked_weights(sample_weight, len(confidence))
        shares = (
            np.full(len(confidence), 1 / len(confidence)) if weights is None else weights.values[:, 0] / weights.total
        )
        _draw_histogram(panel, edges, confidence, shares, None if labels is None else correct)
        panel.set_title(name, loc="left", fontsize="medium")
        panel.set(xlim=(edges[edges <= lowest][-1] if lowest < 1.0 else 0.0, 1.0), ylabel="% of rows")
        _finish(panel)
    panels[-1].set_xlabel("confidence")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def _draw_histogram(
    axes: "Axes", edges: FloatArray, confidence: FloatArray, shares: FloatArray, correct: BoolArray | None
) -> None:
    if correct is None:
        every = np.ones(len(confidence), dtype=bool)
        parts: dict[str, tuple[BoolArray, dict[str, Any]]] = {"no labels": (every, {"color": _COLORS[5]})}
    else:
        parts = {
            "right": (correct, {"color": _COLORS[1]}),
            "wrong": (~correct, {"facecolor": "white", "edgecolor": _COLORS[0], "hatch": "/////"}),
        }
    below = np.zeros(len(edges) - 1)
    for name, (rows, look) in parts.items():
        share = 100 * np.histogram(confidence[rows], edges, weights=shares[rows])[0]
        axes.bar(edges[:-1], share, np.diff(edges), bottom=below, align="edge", label=name, linewidth=0.5, **look)
        below += share


def _draw_bins(axes: "Axes", bins: ReliabilityBins, n_rows: IntArray | FloatArray, position: int, label: str) -> bool:
    """Draw one method and say whether some bin had few of the `n_rows` (bins,)."""
    look = _look(position) | {"zorder": 3}
    few, enough = (n_rows > 0) & (n_rows < _FEW_ROWS), n_rows >= _FEW_ROWS
    axes.plot(bins.confidence[enough], bins.accuracy[enough], **look, label=label)
    axes.plot(bins.confidence[few], bins.accuracy[few], **look | {"linestyle": "", "markerfacecolor": "white"})
    return bool(few.any())


def _draw_counts(axes: "Axes", bins: ReliabilityBins, position: int, n_methods: int) -> None:
    width = 0.84 * np.diff(bins.edges) / n_methods
    left = bins.edges[:-1] + 0.08 * np.diff(bins.edges) + position * width
    axes.bar(left, 100 * bins.share, width, align="edge", color=_COLORS[position % len(_COLORS)])


def _drawn_rows(coverage: FloatArray) -> IntArray:
    """Return which points of a curve are drawn: enough for the eye, also of a million."""
    last = len(coverage) - 1
    first = min(int(np.searchsorted(coverage, _FIRST_COVERAGE, side="right")), last)
    return np.unique(np.linspace(first, last, _N_POINTS).astype(np.int64))


def _look(position: int) -> dict[str, Any]:
    return {
        "color": _COLORS[position % len(_COLORS)],
        "linestyle": _LINES[position % len(_LINES)],
        "linewidth": 1.8,
        "marker": _MARKERS[position % len(_MARKERS)],
        "markersize": 5.5,
    }


def _finish(axes: "Axes") -> None:
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _legend_above(axes: "Axes") -> None:
    """Put the legend where it can hide no data."""
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize="small", handlelength=3.2)


def _scores(
    probs: FloatArray | Mapping[str, FloatArray], labels: IntArray | None, predicted: IntArray | None
) -> dict[str, tuple[FloatArray, BoolArray]]:
    """Return the confidence of each method in the answers, and whether they are right; nothing is without labels."""
    found = {}
    for name, values in _named(probs).items():
        if predicted is None:
            answers = values.argmax(axis=1)
        else:
            answers = label_vector(predicted, "predicted", n_classes=values.shape[1], length=len(values))
        truth = np.full(len(values), -1)
        if labels is not None:
            truth = label_vector(labels, "labels", n_classes=values.shape[1], length=len(values))
        found[name] = np.minimum(values[np.arange(len(values)), answers], 1.0), answers == truth
    return found


def _named(probs: FloatArray | Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    named = dict(probs) if isinstance(probs, Mapping) else {"model": probs}
    if not named:
        raise InvalidInputError("there is nothing to draw, got an empty mapping: pass {name: probabilities}")
    checked = {name: probability_matrix(values, "probs") for name, values in named.items()}
    for values in checked.values():
        check_not_empty(len(values), "probs")
    return checked


def _figure_class(purpose: str) -> "type[Figure]":
    """Return matplotlib's Figure, which unlike pyplot keeps no global list of open figures."""
    require("matplotlib", extra="plots", purpose=purpose)
    from matplotlib.figure import Figure

    return Figure

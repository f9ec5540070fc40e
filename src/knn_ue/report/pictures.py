"""The pictures of a report as SVG that can stand inside an HTML page; the same numbers give the same bytes."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from knn_ue.errors import require
from knn_ue.evaluation import RAW, STYLES, AnsweredSet, Evaluation
from knn_ue.plots import confidence_histogram, reliability_diagram, risk_coverage
from knn_ue.reasons import percent
from knn_ue.report.headline import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PictureKind = Literal["reliability", "risk-coverage", "confidence"]

_TITLES: dict[PictureKind, str] = {
    "reliability": "Reliability diagram",
    "risk-coverage": "Risk-coverage curve",
    "confidence": "Confidence histogram",
}
# Dates, a random salt and the reader's own style sheet would make two equal reports differ.
_STYLE = {"svg.hashsalt": "knn-ue", "svg.fonttype": "path", "path.simplify_threshold": 0.3}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_REFERENCE = re.compile(r'((?<=[\s<])id="|href="#|url\(#)')
_STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_OPENING = re.compile(r'<svg\b[^>]*?viewBox="([^"]*)"[^>]*>', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture of one set: `svg` holds no outside address; `description` says in words what it shows."""

    kind: PictureKind
    set_name: str
    svg: str
    description: str

    @property
    def alt(self) -> str:
        """What the picture is, in a few words; the description stands beside it."""
        return f"{_TITLES[self.kind]} of {self.set_name}"


def draw_pictures(
    sets: Mapping[str, AnsweredSet], evaluation: Evaluation, methods: Sequence[str]
) -> tuple[Picture, ...]:
    """Draw all pictures of each set for `methods`, the raw model first and the main method last.

    A set without labels has only the histogram. Raises `MissingExtraError` without matplotlib.
    """
    require("matplotlib", extra="plots", purpose="drawing the report's pictures")
    pictures = []
    for number, (name, answered) in enumerate(sets.items()):
        labels = answered.outputs.labels
        rows: dict[str, Any] = {"predicted": answered.predicted, "sample_weight": answered.weights}
        probs = {method: answered.probs[method] for method in methods}
        two = {method: answered.probs[method] for method in (methods[0], methods[-1])}
        if labels is not None:
            draw = partial(reliability_diagram, probs, labels, evaluation.options.n_bins, **rows)
            svg = svg_of(draw, f"reliability-{number}-")
            description = _reliability_description(name, evaluation, methods)
            pictures.append(Picture(kind="reliability", set_name=name, svg=svg, description=description))
            svg = svg_of(partial(risk_coverage, probs, labels, **rows), f"risk-{number}-")
            description = _risk_description(name, evaluation, methods)
            pictures.append(Picture(kind="risk-coverage", set_name=name, svg=svg, description=description))
        svg = svg_of(partial(confidence_histogram, two, labels, **rows), f"confidence-{number}-")
        description = _confidence_description(name, answered, two)
        pictures.append(Picture(kind="confidence", set_name=name, svg=svg, description=description))
    return tuple(pictures)


def svg_of(draw: Callable[[], "Figure"], prefix: str) -> str:
    """Return the drawn figure as an element for HTML; `prefix` keeps its ids apart from those of other pictures."""
    from matplotlib import style

    file = io.StringIO()
    with style.context(["default", _STYLE]):
        draw().savefig(file, format="svg", metadata=_NO_METADATA)
    text = file.getvalue()
    text = _STYLE_SHEET.sub("", text[text.index("<svg") :])  # it would apply to the whole page
    text = _OPENING.sub(r'<svg viewBox="\1" stroke-linejoin="round" focusable="false">', text, 1)
    return _REFERENCE.sub(rf"\g<1>{prefix}", text).strip()


def _reliability_description(name: str, evaluation: Evaluation, methods: Sequence[str]) -> str:
    table = evaluation.tables[name]
    errors = [f"{method} {STYLES['ece'].show(table[method]['ece'])} %" for method in methods]
    return f"Accuracy against confidence on {name}. The mean distance to the diagonal (ECE) is {listed(errors)}."


def _risk_description(name: str, evaluation: Evaluation, methods: Sequence[str]) -> str:
    table = evaluation.tables[name]
    areas = [f"{method} {STYLES['aurc'].show(table[method]['aurc'])}" for method in methods]
    error = percent(1 - table[RAW]["accuracy"])
    return (
        f"Share of wrong answers among the most confident rows of {name}, up to {error} when all are answered. "
        f"The area under the curve (AURC times 1000) is {listed(areas)}."
    )


def _confidence_description(name: str, answered: AnsweredSet, methods: Iterable[str]) -> str:
    parts = []
    for method in methods:
        confidence = answered.confidence(method)
        if answered.outputs.labels is None:
            parts.append(f"{method} is {percent(answered.mean(confidence))} sure")
            continue
        correct = answered.correct
        means = [
            f"{percent(answered.mean(confidence, rows))} sure when {word}"
            for rows, word in ((correct, "right"), (~correct, "wrong"))
            if (rows & answered.counted).any()
        ]
        parts.append(f"{method} is {listed(means)}")
    return f"Number of rows of {name} by confidence. On average {'; '.join(parts)}."

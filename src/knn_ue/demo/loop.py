"""Notice, ask, adapt: how familiar other domains are, what 50 labels of each do, what strange sentences are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue import metrics
from knn_ue.adapting import adapt_quickly, prior_unchanged, rescale
from knn_ue.calibrators import Calibrator, labeled_scores
from knn_ue.evaluation import TEST
from knn_ue.familiarity import Familiarity
from knn_ue.reasons import percent
from knn_ue.report import LeadTable
from knn_ue.types import Outputs

N_LABELS = 50
N_DRAWS = 20


@dataclass(frozen=True, kw_only=True)
class MetDomain:
    """A set the model meets: the share of its rows that is flagged unfamiliar, and ECE before and after adapting.

    `after` and `spread` are mean and standard deviation over draws of `n_labels` labels, measured on the other rows;
    `after` is None where there are too few rows.
    """

    name: str
    unfamiliar: float
    before: float
    after: float | None
    spread: float
    n_labels: int


@dataclass(frozen=True, kw_only=True)
class ToldSentence:
    """A sentence with the answer and how much it is like the training data."""

    text: str
    label: str
    score: float
    familiarity: float
    unfamiliar: bool


def met_domains(calibrator: Calibrator, sets: Mapping[str, Outputs], familiarity: Familiarity) -> list[MetDomain]:
    """Return what the loop does on each labeled set."""
    return [_met(name, calibrator, outputs, familiarity) for name, outputs in sets.items()]


def told_sentences(calibrator: Calibrator, texts: Outputs, familiarity: Familiarity) -> list[ToldSentence]:
    """Return the answer to each text."""
    prediction, p_values = calibrator.predict(texts), familiarity.p_value(texts)
    flags = familiarity.is_unfamiliar(p_values)
    assert texts.class_names is not None and texts.texts is not None
    return [
        ToldSentence(
            text=texts.texts[row],
            label=texts.class_names[int(prediction.predicted[row])],
            score=float(prediction.confidence[row]),
            familiarity=float(p_values[row]),
            unfamiliar=bool(flags[row]),
        )
        for row in range(len(texts))
    ]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Notice, ask, adapt, for the head of the report: a sentence, and the numbers behind it as tables."""

    sentence: str
    tables: tuple[LeadTable, ...]


def loop_told(met: Sequence[MetDomain], told: Sequence[ToldSentence]) -> Loop:
    """Return the loop in one sentence and two tables: the sets it meets, and sentences of other kinds."""
    n_labels = max(x.n_labels for x in met if x.name != TEST)
    domains = LeadTable(
        caption=f"Notice, ask, adapt: what {n_labels} labels do to the calibration error ({N_DRAWS} draws)",
        headings=("set", "flagged as unfamiliar", "calibration error", f"after {n_labels} labels"),
        rows=tuple((_shown(x.name), _whole(x.unfamiliar), percent(x.before), _after(x, n_labels)) for x in met),
    )
    strange = LeadTable(
        caption="Sentences of other kinds",
        headings=("sentence", "verdict", "familiarity", "label", "score"),
        rows=tuple(
            (x.text, "unfamiliar" if x.unfamiliar else "not flagged", f"{x.familiarity:.3f}", x.label, percent(x.score))
            for x in told
        ),
    )
    return Loop(sentence=_sentence(met, n_labels), tables=(domains, strange) if told else (domains,))


def _sentence(met: Sequence[MetDomain], n_labels: int) -> str:
    inside = next(x.unfamiliar for x in met if x.name == TEST)
    others = [x for x in met if x.name != TEST]
    flagged = float(np.mean([x.unfamiliar for x in others]))
    noticed = (
        f"The model flags {_whole(flagged)} of the texts of other domains as unfamiliar, "
        f"and {_whole(inside)} of those of its own"
    )
    pairs = [(x.before, x.after) for x in others if x.after is not None]
    if not pairs:
        return f"{noticed}; there are too few rows to adapt to."
    before, after = np.mean(pairs, axis=0)
    change = "lower" if after < before else "do not lower"
    error = f"{percent(float(before))} to {percent(float(after))}"
    return f"{noticed}; {n_labels} labels of each {change} their mean calibration error ({error})."


def _met(name: str, calibrator: Calibrator, outputs: Outputs, familiarity: Familiarity) -> MetDomain:
    labels = outputs.require_labels("the demo")
    labeled = labeled_scores(calibrator, outputs)["rows"]
    probs = np.exp(labeled.log_probs)
    before = metrics.expected_calibration_error(probs=probs, labels=labels)
    n_labels = min(N_LABELS, len(outputs) // 2)
    p_values = familiarity.p_value(outputs)
    after = []
    for draw in range(N_DRAWS if n_labels >= 10 else 0):
        rows = np.random.default_rng(draw).permutation(len(outputs))
        unchanged = prior_unchanged(
            float(p_values[rows[:n_labels]].mean()), n_labels, n_reference=familiarity.n_reference(outputs)
        )
        log_scale = adapt_quickly(labeled.take(rows[:n_labels]), unchanged=unchanged)
        scaled = rescale(probs, log_scale)[rows[n_labels:]]
        after.append(metrics.expected_calibration_error(probs=scaled, labels=labels[rows[n_labels:]]))
    return MetDomain(
        name=name,
        unfamiliar=float(familiarity.is_unfamiliar(p_values).mean()),
        before=before,
        after=float(np.mean(after)) if after else None,
        spread=float(np.std(after, ddof=1)) if after else 0.0,
        n_labels=n_labels,
    )


def _whole(share: float) -> str:
    return f"{100 * share:.0f} %"


def _shown(name: str) -> str:
    return "movie reviews it was not trained on" if name == TEST else name


def _after(met: MetDomain, n_labels: int) -> str:
    if met.after is None:
        return "too few rows"
    others = "" if met.n_labels == n_labels else f" ({met.n_labels} labels)"
    return f"{100 * met.after:.1f} ± {100 * met.spread:.1f} %{others}"

"""Notice, ask, adapt: how familiar other domains are, what 50 labels of each do, what strange sentences are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue import metrics
from knn_ue.adapting import adapt_quickly, prior_unchanged, rescale
from knn_ue.calibrators import Calibrator, labeled_scores
from knn_ue.evaluation import TEST
from knn_ue.familiarity import Familiarity
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


def loop_sentences(met: Sequence[MetDomain], told: Sequence[ToldSentence]) -> tuple[str, ...]:
    """Return the loop in words, for the head of the report."""
    sentences = [
        f"{_shown(x.name)}: {x.unfamiliar:.0%} of the texts are flagged as unlike the training data; ECE {_change(x)}."
        for x in met
    ]
    sentences += [
        f'"{x.text}": {x.label}, score {x.score:.1%}, familiarity {x.familiarity:.3f}'
        + (": unlike the training data, so the score may not hold." if x.unfamiliar else ".")
        for x in told
    ]
    return tuple(sentences)


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
        unchanged = prior_unchanged(float(p_values[rows[:n_labels]].mean()), n_labels)
        log_scale = adapt_quickly(labeled.take(rows[:n_labels]), unchanged=unchanged)
        scaled = rescale(probs, log_scale)[rows[n_labels:]]
        after.append(metrics.expected_calibration_error(probs=scaled, labels=labels[rows[n_labels:]]))
    return MetDomain(
        name=name,
        unfamiliar=float(familiarity.is_unfamiliar(p_values).mean()),
        before=before,
        after=float(np.mean(after)) if after else None,
        spread=float(np.std(after)) if after else 0.0,
        n_labels=n_labels,
    )


def _shown(name: str) -> str:
    return "film reviews it was not trained on" if name == TEST else name


def _change(met: MetDomain) -> str:
    if met.after is None:
        return f"{100 * met.before:.1f} %, too few rows to adapt to"
    after = f"{100 * met.after:.1f} ± {100 * met.spread:.1f} %"
    return f"{100 * met.before:.1f} % -> {after} after {met.n_labels} labels ({N_DRAWS} draws)"

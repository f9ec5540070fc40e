"""Is a scale worth applying? Cross-validated before and after, a gate, and plain words about what speaks against it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from knn_ue.adapting.scale import (
    LARGEST,
    UNCHANGED,
    LabeledScores,
    average_log_scale,
    fit_log_scale,
    log_likelihood_gain,
    prior_unchanged,
)
from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.metrics import bootstrap_interval, expected_calibration_error

GATE = 1.0  # twice the gain in log-likelihood
MIN_ROWS = 10
MIN_EFFECTIVE = 5.0  # rows, as many as uneven weights leave
FEW_ROWS = 30
_FOLDS = 10
_DRAWS = 200
_BINS = 5  # a few dozen rows do not fill ten


@dataclass(frozen=True, kw_only=True)
class CheckedUnit:
    """What the labels say about one kind of score: of rows (texts, pairs or words), of entities or of sentences.

    `log_scale` is what was fitted (see `average_log_scale`), `applied` whether it is used: where `gain`, twice the gain
    in log-likelihood of the best scale, exceeds 1, or where the inputs are unlike the training data. The numbers
    before and after are of the same `n` labeled
    things; those after come from scales fitted without the row at hand (10 folds). `*_change` are after minus before
    with 95 % intervals over resampled rows. `ece_by_chance` is the ECE that scores without any fault would show on so
    few rows.
    """

    n: int
    n_rows: int
    log_scale: Annotated[float, Interval(ge=-LARGEST, le=LARGEST)]
    gain: float
    applied: bool
    accuracy: float
    confidence_before: float
    confidence_after: float
    ece_before: float
    ece_after: float
    ece_by_chance: float
    nll_before: float
    nll_after: float
    ece_change: tuple[float, float]
    nll_change: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class CheckedVerifier:
    """What a verifier that learned from the labels does to the scores of `n` rows, each scored by what others taught.

    It is applied where `gain`, twice the gain in log-likelihood over the scores as they are or the best scale, exceeds
    1; then no scale is.
    """

    n: int
    e_aurc_before: float
    e_aurc_after: float
    nll_before: float
    nll_after: float
    gain: float
    applied: bool

    def __str__(self) -> str:
        return (
            f"verifier: E-AURC x1000 {1000 * self.e_aurc_before:.0f} -> {1000 * self.e_aurc_after:.0f}, log-loss "
            f"{self.nll_before:.3f} -> {self.nll_after:.3f} on {self.n} different labeled rows, cross-validated; "
            + ("applied in place of a scale" if self.applied else "not applied")
        )


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """What a few labels of a domain lead to: a scale for each kind of score, and why it should or should not be used.

    `units` holds "rows" and, for a method that scores them, "entities" and "sentences". `familiarity` is the mean
    p-value of the labeled inputs among `n_reference` validation inputs, about one half where they are like the training
    data; both are None where that is not known.
    `doubts` are sentences; an empty tuple means that nothing speaks against it. `verifier` is None where none learned.
    """

    units: Mapping[str, CheckedUnit]
    n_rows: int
    random_sample: bool
    familiarity: Annotated[float, Interval(ge=0.0, le=1.0)] | None = None
    n_reference: Annotated[int, Interval(ge=1)] | None = None
    doubts: tuple[str, ...] = ()
    verifier: CheckedVerifier | None = None

    @property
    def main(self) -> CheckedUnit:
        """The kind of score that users look at: entities where they have scores, else rows."""
        return self.units.get("entities", self.units["rows"])

    @property
    def log_scales(self) -> dict[str, float]:
        """The log of the scale that is applied to each kind of score, 0 where the gate or a verifier holds it back."""
        if self.verifier is not None and self.verifier.applied:
            return dict.fromkeys(self.units, 0.0)
        return {name: unit.log_scale if unit.applied else 0.0 for name, unit in self.units.items()}

    @property
    def unchanged(self) -> float:
        """The prior probability that the scores hold in this domain as they are (see `prior_unchanged`)."""
        return prior_unchanged(self.familiarity, self.n_rows, n_reference=self.n_reference)

    @property
    def applied(self) -> bool:
        """Whether any score changes."""
        return (self.verifier is not None and self.verifier.applied) or any(
            unit.applied for unit in self.units.values()
        )

    def to_plain(self) -> dict[str, Any]:
        """Return plain JSON, which `folder.from_plain` reads."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    def __str__(self) -> str:
        lines = [_sentence(name, unit) for name, unit in self.units.items()]
        lines += [str(self.verifier)] if self.verifier is not None else []
        return "\n".join([*lines, *(f"note: {doubt}" for doubt in self.doubts)])


def adapt_units(
    labeled: Mapping[str, LabeledScores],
    *,
    familiarity: float | None = None,
    n_reference: int | None = None,
    random_sample: bool = True,
    force: bool = False,
    seed: int = 0,
) -> Adaptation:
    """Fit a scale for each kind of score, check it by cross-validation, and say what speaks against it.

    A scale is applied where the rows are a random sample of the domain, at least 10 (5 after uneven weights), and
    either the gain passes the gate or the inputs have moved; `force` applies it in any case. `familiarity` is the mean
    p-value of the rows among `n_reference` validation rows (see `prior_unchanged`).

    >>> rng = np.random.default_rng(0)
    >>> correct = rng.random(100) < 0.7
    >>> shouting = LabeledScores.of_scores(np.full(100, 0.98), correct)
    >>> adaptation = adapt_units({"rows": shouting})
    >>> adaptation.applied, round(float(correct.mean()), 2), round(adaptation.main.confidence_after, 2)
    (True, 0.63, 0.67)
    """
    n_rows = labeled["rows"].n_groups
    trusted = random_sample and n_rows >= MIN_ROWS and _n_effective(labeled["rows"]) >= MIN_EFFECTIVE
    unchanged = prior_unchanged(familiarity, n_rows, n_reference=n_reference)
    units = {
        name: _checked(scores, trusted=trusted, force=force, seed=seed, unchanged=unchanged)
        for name, scores in labeled.items()
    }
    found = Adaptation(
        units=units, n_rows=n_rows, random_sample=random_sample, familiarity=familiarity, n_reference=n_reference
    )
    return replace(found, doubts=(*_doubts(found, force=force), *_label_doubts(labeled["rows"], force=force)))


def adapt_quickly(labeled: LabeledScores, *, unchanged: float = UNCHANGED) -> float:
    """Return the log of the scale that `adapt_units` would apply, 0 where the gate holds it back, unchecked."""
    passed = _passes(log_likelihood_gain(labeled, fit_log_scale(labeled)), unchanged)
    return average_log_scale(labeled, unchanged=unchanged) if passed else 0.0


def _passes(gain: float, unchanged: float) -> bool:
    """Return whether a scale may be applied: always where the inputs have moved, else where it gains enough."""
    return unchanged < UNCHANGED or gain > GATE


def cross_validated(
    labeled: LabeledScores, *, unchanged: float = UNCHANGED, gate: bool = True, seed: int = 0
) -> FloatArray:
    """Return for each one (m,) the log of the scale that the rows of the other folds lead to."""
    groups = np.unique(labeled.groups)
    fold_of = np.random.default_rng(seed).permutation(len(groups)) % min(_FOLDS, len(groups))
    folds = fold_of[np.searchsorted(groups, labeled.groups)]
    scales = np.zeros(len(labeled))
    for fold in np.unique(folds).tolist():
        others = labeled.take(folds != fold)
        fitted = adapt_quickly if gate else average_log_scale
        scales[folds == fold] = fitted(others, unchanged=unchanged)
    return scales


def _checked(labeled: LabeledScores, *, trusted: bool, force: bool, seed: int, unchanged: float) -> CheckedUnit:
    log_scale = average_log_scale(labeled, unchanged=unchanged)
    gain = log_likelihood_gain(labeled, fit_log_scale(labeled))
    scales = cross_validated(labeled, unchanged=unchanged, gate=not force, seed=seed)
    before, after, correct = labeled.confidence(0.0), labeled.confidence(scales), labeled.correct
    losses = labeled.losses(0.0), labeled.losses(scales)
    weights = labeled.weights

    def ece_change(confidence: FloatArray, other: FloatArray, right: BoolArray, weight: FloatArray) -> float:
        return _ece(other, right, weight) - _ece(confidence, right, weight)

    def nll_change(first: FloatArray, second: FloatArray, weight: FloatArray) -> float:
        return _mean(second - first, weight)

    def interval(metric: Any, *arrays: Any) -> tuple[float, float]:
        if not len(labeled):
            return 0.0, 0.0
        found = bootstrap_interval(metric, *arrays, n_bootstrap=_DRAWS, seed=seed, groups=labeled.groups)
        return found.low, found.high

    return CheckedUnit(
        n=len(labeled),
        n_rows=labeled.n_groups,
        log_scale=log_scale,
        gain=gain,
        applied=bool(len(labeled)) and (force or (trusted and _passes(gain, unchanged))),
        accuracy=_mean(correct, weights),
        confidence_before=_mean(before, weights),
        confidence_after=_mean(after, weights),
        ece_before=_ece(before, correct, weights),
        ece_after=_ece(after, correct, weights),
        ece_by_chance=_chance_ece(labeled, scales, seed),
        nll_before=_mean(losses[0], weights),
        nll_after=_mean(losses[1], weights),
        ece_change=interval(ece_change, before, after, correct, weights),
        nll_change=interval(nll_change, *losses, weights),
    )


def _chance_ece(labeled: LabeledScores, scales: FloatArray, seed: int) -> float:
    """Return the mean ECE of the scores after, if each were right exactly as often as it says."""
    confidence, rng = labeled.confidence(scales), np.random.default_rng(seed)
    drawn = [rng.random(len(confidence)) < confidence for _ in range(40)]
    return float(np.mean([_ece(confidence, right, labeled.weights) for right in drawn]))


def _ece(confidence: FloatArray, correct: BoolArray, weights: FloatArray) -> float:
    if not len(confidence):
        return 0.0
    return expected_calibration_error(confidence=confidence, correct=correct, n_bins=_BINS, sample_weight=weights)


def _mean(values: FloatArray | BoolArray, weights: FloatArray) -> float:
    return float(weights @ values / weights.sum()) if len(weights) else 0.0


def _doubts(found: Adaptation, *, force: bool) -> list[str]:
    """Return what speaks against the scale, most serious first."""
    unit, ending = found.main, _ending(force=force)
    doubts = []
    if not found.random_sample:
        doubts.append(
            "the rows are not a random sample of the domain; corrections are mostly the errors, and a scale fitted on "
            f"them makes every score too low: {ending if force else 'nothing was changed'}"
        )
    if unit.n and not unit.accuracy:
        doubts.append(
            f"the model is wrong on all {unit.n}: is this a random sample, and are the labels those of the model?"
        )
    if found.n_rows < MIN_ROWS:
        doubts.append(
            f"{found.n_rows} different labeled rows are too few, at least {MIN_ROWS} are needed, about 50 are better: "
            f"{ending}"
        )
    elif found.n_rows < FEW_ROWS:
        doubts.append(f"{found.n_rows} labeled rows are few: label about 50")
    if found.n_rows >= MIN_ROWS and unit.gain <= GATE:
        if unit.applied and not force:
            ending = "applied because the inputs are unlike the training data; more labels show whether it helps"
        doubts.append(
            f"no significant gain: twice the log-likelihood gain is {unit.gain:.1f} and should exceed {GATE:g}: "
            f"{ending}"
        )
    if abs(unit.log_scale) > LARGEST - 0.01:
        doubts.append("the scale is at its bound: check the labels")
    return doubts


def _label_doubts(rows: LabeledScores, *, force: bool) -> list[str]:
    """Return what is odd about the labels and weights themselves."""
    doubts, n_rows, n_effective = [], rows.n_groups, _n_effective(rows)
    if n_rows >= MIN_ROWS and n_effective < MIN_EFFECTIVE:
        doubts.append(
            f"the sample weights are so uneven that {n_rows} rows count as {n_effective:.1f}, at least "
            f"{MIN_EFFECTIVE:g} are needed: {_ending(force=force)}"
        )
    if rows.by_odds or n_rows < MIN_ROWS:
        return doubts
    by_guess, accuracy = 1 / rows.log_probs.shape[1], _mean(rows.correct, rows.weights)
    if 0 < accuracy < by_guess - 2 * np.sqrt(by_guess * (1 - by_guess) / n_rows):
        doubts.append(
            f"the model is right on {accuracy:.1%} of the rows, fewer than a random guess ({by_guess:.1%}): check that "
            "the labels mean what they mean to the model; one scale only lowers every score"
        )
    n_predicted = len(np.unique(rows.predicted))
    if n_predicted > 1 and len(np.unique(rows.labels)) == 1:
        doubts.append(
            f"all labels are of one class, but the model predicts {n_predicted}: is this a random sample of the domain?"
        )
    return doubts


def _ending(*, force: bool) -> str:
    return "applied because you forced it" if force else "no scale is applied"


def _n_effective(rows: LabeledScores) -> float:
    """Return how many rows of equal weight would say as much."""
    weights = rows.weights[np.unique(rows.groups, return_index=True)[1]]
    weights = weights / weights.max()
    return float(weights.sum() ** 2 / (weights**2).sum())


def _sentence(name: str, unit: CheckedUnit) -> str:
    if not unit.n:
        return f"{name}: none among the labeled rows, left as they are"
    what = "labeled rows" if name == "rows" else f"{name} in {unit.n_rows} labeled rows"
    low, high = (100 * bound for bound in unit.ece_change)
    return (
        f"{unit.n} {what}, {unit.accuracy:.1%} right: mean score {unit.confidence_before:.1%} -> "
        f"{unit.confidence_after:.1%}, ECE {100 * unit.ece_before:.1f} -> {100 * unit.ece_after:.1f} "
        f"(change {low:+.1f} to {high:+.1f}; {100 * unit.ece_by_chance:.1f} by chance alone), log-loss "
        f"{unit.nll_before:.3f} -> {unit.nll_after:.3f} "
        f"(change {unit.nll_change[0]:+.3f} to {unit.nll_change[1]:+.3f}), "
        f"cross-validated; {'scale' if name == 'rows' else 'odds times'} {np.exp(unit.log_scale):.2f}, "
        f"{'applied' if unit.applied else 'not applied'}"
    )

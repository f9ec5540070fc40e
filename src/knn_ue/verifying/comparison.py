"""Does the verifier pay? Its scores beside those of the plain rivals, all learned from the same labeled rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.verifying.labels import LabelVerifier, fit_checked
from knn_ue.verifying.record import N_FOLDS, folds_of
from knn_ue.verifying.rivals import NeighborShare, fit_constant, fit_direct, fit_platt
from knn_ue.verifying.views import Inner, RawViews, inner_views, take_rows

VERIFIER = "verifier"
RIVALS = {
    "constant": "a constant per answer",
    "direct": "logistic regression on (vector, answer)",
    "crossed": "logistic regression with a slope per answer",
    "neighbors": "the share of neighbors",
    "platt": "the model's own score, Platt-scaled",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Scores (n,) of the verifier and its rivals by name, and which answers were `right` (n,)."""

    scores: Mapping[str, FloatArray]
    right: BoolArray

    @property
    def e_aurc(self) -> dict[str, float]:
        """Return the E-AURC of each; lower is better."""
        return {name: metrics.e_aurc(confidence=scores, correct=self.right) for name, scores in self.scores.items()}

    @property
    def pays(self) -> bool:
        """Whether the verifier ranks better than each of its rivals."""
        return min(self.e_aurc, key=self.e_aurc.__getitem__) == VERIFIER

    def sentence(self) -> str:
        """Return what a report says of it."""
        areas = {name: 1000 * area for name, area in self.e_aurc.items()}
        best = min((name for name in areas if name != VERIFIER), key=areas.__getitem__)
        gap = f"E-AURC x1000 {areas[VERIFIER]:.0f}, {RIVALS[best]} {areas[best]:.0f}, on {len(self.right)} rows"
        return f"the verifier pays: {gap}" if self.pays else f"the verifier does not pay here: {gap}"


def compare(
    verifier: LabelVerifier, views: RawViews, answers: IntArray, gold: IntArray, own_score: FloatArray | None = None
) -> Comparison:
    """Score n new rows with gold labels by the verifier and by rivals that are fitted on its labeled rows."""
    inner = inner_views(verifier.views, views)
    return Comparison(scores=scores_of_all(verifier, inner, answers, own_score), right=gold == answers)


def scores_of_all(
    verifier: LabelVerifier, inner: Inner, answers: IntArray, own_score: FloatArray | None = None
) -> dict[str, FloatArray]:
    """Return the scores (n,) of new rows by name; "platt" only where the labeled rows have own scores."""
    given, gold, sizes = verifier.answers, verifier.gold, verifier.params
    right, n_answers = given == gold, sizes.n_answers
    scores = {
        VERIFIER: verifier.verdict_of(inner, answers, own_score),
        "constant": fit_constant(given, right, n_answers=n_answers).verdict(answers),
        "direct": fit_direct(verifier.views, given, right, n_answers=n_answers).verdict_of(inner, answers),
        "crossed": fit_direct(verifier.views, given, right, n_answers=n_answers, crossed=True).verdict_of(
            inner, answers
        ),
        "neighbors": NeighborShare(gold=gold, n_classes=sizes.n_classes).verdict_of(inner, answers),
    }
    if verifier.own is not None and own_score is not None:
        scores["platt"] = fit_platt(verifier.own, right).verdict(own_score)
    return scores


def compare_cross_fitted(
    views: RawViews,
    answers: IntArray,
    gold: IntArray,
    own_score: FloatArray | None = None,
    *,
    n_classes: int,
    n_answers: int,
) -> Comparison:
    """Compare on the m labeled rows themselves: each of five folds is scored by what the other four taught."""
    folds = folds_of(gold)
    scores: dict[str, FloatArray] = {}
    for fold in range(N_FOLDS):
        (kept,), (asked,) = np.nonzero(folds != fold), np.nonzero(folds == fold)
        own, asked_own = (None, None) if own_score is None else (own_score[kept], own_score[asked])
        seen = {name: take_rows(view, kept) for name, view in views.items()}
        fitted = fit_checked(seen, answers[kept], gold[kept], own, n_classes=n_classes, n_answers=n_answers)
        inner = inner_views(fitted.views, {name: take_rows(view, asked) for name, view in views.items()})
        for name, values in scores_of_all(fitted, inner, answers[asked], asked_own).items():
            scores.setdefault(name, np.empty(len(gold)))[asked] = values
    return Comparison(scores=scores, right=gold == answers)

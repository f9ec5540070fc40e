"""One scale for a domain: p' = softmax(e^t * log p), with t from a few labeled rows and held near 0.

For a calibrator that scales logits this multiplies its weight by e^t, since log p and the scaled logits differ by a
constant per row. A score of its own, such as that of an entity, is the probability of being right: e^t multiplies its
odds, which in another domain are too high or too low for high and low scores alike.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_length, label_vector, probability_matrix, softmax
from knn_ue.errors import InvalidInputError

KAPPA = 1.0  # the prior: t has a standard deviation of 1, that is a factor of 2.7 up or down
UNCHANGED = 0.5  # prior probability that the scores hold in the domain as they are
UNCHANGED_FAMILIAR, UNCHANGED_MOVED = 0.75, 0.25  # the same, once the inputs were compared with the training data
_MOVED_Z = 3.0
LARGEST = 4.0  # |t|, a factor of 55
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e100  # of a labeled row; only ratios count
_LOWEST_LOG = -50.0
_RIGHT = np.array([0.0, 1.0])  # of the columns "wrong" and "right"
_GRID = np.linspace(-LARGEST, LARGEST, 33)
_FINE = np.linspace(-LARGEST, LARGEST, 161)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabeledScores:
    """What was predicted for m labeled things, and what they are: `log_probs` (m, classes) and `labels` (m,).

    `predicted` (m,) is the class whose probability is the score. `by_odds` says what a scale multiplies: the odds of
    being right, for scores, or else the logarithms. `weights` (m,) undo an uneven draw (see
    `knn_ue.adapting.sampling`); only their ratios count. `groups` (m,) are the numbers of the rows they come from: the
    entities of one sentence are not independent.
    """

    log_probs: FloatArray
    predicted: IntArray
    labels: IntArray
    weights: FloatArray
    groups: IntArray
    by_odds: bool = False

    def __post_init__(self) -> None:
        n_rows = len(self.log_probs)
        for name in ("predicted", "labels", "weights", "groups"):
            check_length(len(getattr(self, name)), name, n_rows)
        weights = self.weights
        if n_rows and not (weights.min() >= LEAST_WEIGHT and weights.max() <= LARGEST_WEIGHT):
            worst = weights.min() if not weights.min() >= LEAST_WEIGHT else weights.max()
            raise InvalidInputError(
                f"sample weights must lie within {LEAST_WEIGHT:.0e} and {LARGEST_WEIGHT:.0e}, got {worst}: leave out "
                "such rows"
            )

    @classmethod
    def of_probs(
        cls,
        probs: FloatArray,
        labels: IntArray,
        *,
        weights: FloatArray | None = None,
        groups: IntArray | None = None,
    ) -> Self:
        """Read the probabilities (m, classes) of labeled rows."""
        checked = probability_matrix(probs, "probs")
        with np.errstate(divide="ignore"):
            log_probs = np.maximum(np.log(checked), _LOWEST_LOG)
        return cls(
            log_probs=log_probs,
            predicted=checked.argmax(axis=1),
            labels=label_vector(labels, "labels", n_classes=checked.shape[1], length=len(checked)),
            weights=np.ones(len(checked)) if weights is None else np.asarray(weights, dtype=np.float64),
            groups=np.arange(len(checked)) if groups is None else np.asarray(groups, dtype=np.int64),
        )

    @classmethod
    def of_scores(
        cls,
        scores: FloatArray,
        correct: BoolArray,
        *,
        weights: FloatArray | None = None,
        groups: IntArray | None = None,
    ) -> Self:
        """Read scores (m,) that are probabilities of being right, and whether each is (m,)."""
        kept = np.asarray(scores, dtype=np.float64)
        right = np.asarray(correct).astype(np.int64)
        found = cls.of_probs(np.column_stack([1.0 - kept, kept]), right, weights=weights, groups=groups)
        ones = np.ones(len(kept), dtype=np.int64)  # even where the score lies below a half
        return replace(found, predicted=ones, by_odds=True)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_groups(self) -> int:
        """How many independent rows there are."""
        return len(np.unique(self.groups))

    @property
    def correct(self) -> BoolArray:
        """Whether each prediction is right (m,)."""
        right: BoolArray = self.predicted == self.labels
        return right

    def take(self, rows: IntArray | BoolArray) -> Self:
        """Return some of them; `rows` are numbers or a mask."""
        return replace(
            self,
            log_probs=self.log_probs[rows],
            predicted=self.predicted[rows],
            labels=self.labels[rows],
            weights=self.weights[rows],
            groups=self.groups[rows],
        )

    def joined(self, other: Self) -> Self:
        """Return these and more of their kind."""
        if self.log_probs.shape[1] != other.log_probs.shape[1]:
            raise InvalidInputError(
                f"labels of {other.log_probs.shape[1]} classes cannot be added to those of {self.log_probs.shape[1]}: "
                "use outputs of the same model"
            )
        first = int(self.groups.max()) + 1 if len(self) else 0
        return replace(
            self,
            log_probs=np.concatenate([self.log_probs, other.log_probs]),
            predicted=np.concatenate([self.predicted, other.predicted]),
            labels=np.concatenate([self.labels, other.labels]),
            weights=np.concatenate([self.weights, other.weights]),
            groups=np.concatenate([self.groups, other.groups + first]),
        )

    def counts(self) -> FloatArray:
        """Return how much each one counts (m,): all together as many as equally weighted ones that know as much.

        Uneven weights know less than their number says: (sum w)^2 / sum w^2. Kish (1965).
        """
        if not len(self):
            return self.weights
        counts: FloatArray = self.weights * (self.weights.sum() / np.square(self.weights).sum())
        return counts

    def losses(self, log_scale: float | FloatArray) -> FloatArray:
        """Return the log-loss (m,) of each one under one scale, or under a scale for each (m,)."""
        return -self._log_probs_of(self.labels, log_scale)

    def confidence(self, log_scale: float | FloatArray) -> FloatArray:
        """Return the score (m,) of each one under one scale, or under a scale for each (m,)."""
        return np.exp(self._log_probs_of(self.predicted, log_scale))

    def _log_probs_of(self, classes: IntArray, log_scale: float | FloatArray) -> FloatArray:
        by = np.broadcast_to(log_scale, len(self))[:, None]
        scaled = self.log_probs + by * _RIGHT if self.by_odds else np.exp(by) * self.log_probs
        top = scaled.max(axis=1)
        total = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
        found: FloatArray = scaled[np.arange(len(self)), classes] - total
        return found


def rescale(probs: FloatArray, log_scale: float) -> FloatArray:
    """Return softmax(e^t * log p) (n, classes): the order of the classes stays, and 0 leaves all as it is.

    >>> rescale(np.array([[0.8, 0.2]]), np.log(0.5)).round(3)
    array([[0.667, 0.333]])
    """
    if log_scale == 0.0:
        return probs
    with np.errstate(divide="ignore"):
        return softmax(np.exp(log_scale) * np.maximum(np.log(probs), _LOWEST_LOG))


def rescale_scores(scores: FloatArray, log_scale: float) -> FloatArray:
    """Return scores (n,) whose odds are multiplied by e^t.

    >>> rescale_scores(np.array([0.8, 0.5]), np.log(0.5)).round(3)
    array([0.667, 0.333])
    """
    if log_scale == 0.0:
        return scores
    with np.errstate(divide="ignore"):
        log_probs = np.maximum(np.log(np.column_stack([1.0 - scores, scores])), _LOWEST_LOG)
    kept: FloatArray = softmax(log_probs + log_scale * _RIGHT)[:, 1]
    return kept


def fit_log_scale(labeled: LabeledScores, *, kappa: float = KAPPA) -> float:
    """Return the t that minimizes the sum of log-losses under e^t + (kappa / 2) t^2; 0 without any label."""
    from scipy.optimize import minimize_scalar

    if not len(labeled):
        return 0.0
    counts = labeled.counts()

    def objective(log_scale: float) -> float:
        return float(counts @ labeled.losses(log_scale)) + 0.5 * kappa * log_scale**2

    # Not convex in t where many rows are wrong at score 1: so the best cell of a grid is searched, and no other one.
    best = int(np.argmin([objective(t) for t in _GRID]))
    bounds = (_GRID[max(best - 1, 0)], _GRID[min(best + 1, len(_GRID) - 1)])
    return float(minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x)


def average_log_scale(labeled: LabeledScores, *, kappa: float = KAPPA, unchanged: float = UNCHANGED) -> float:
    """Return the mean of t over all that the labels leave possible; 0 has the prior probability `unchanged`.

    Else t is Normal(0, 1 / kappa) before the labels are seen. Few labels, or labels that the scores agree with, leave
    the mean near 0; many that disagree bring it to where `fit_log_scale` is.
    """
    if not len(labeled):
        return 0.0
    counts = labeled.counts()
    gains = np.array([counts @ (labeled.losses(0.0) - labeled.losses(t)) for t in _FINE])
    prior = np.exp(-0.5 * kappa * _FINE**2)
    log_evidence = np.log(prior / prior.sum()) + gains
    top = max(float(log_evidence.max()), 0.0)
    changed = (1 - unchanged) * np.exp(log_evidence - top)
    return float(changed @ _FINE / (changed.sum() + unchanged * np.exp(-top)))


def prior_unchanged(familiarity: float | None, n_rows: int, *, n_reference: int | None = None) -> float:
    """Return how probable it is, before any label is read, that the scores hold in the domain as they are.

    `familiarity` is the mean p-value of the `n_rows` labeled inputs (see `knn_ue.Familiarity`), None where there are
    none. They share the `n_reference` validation inputs, so that the mean of inputs like these is one half with a
    variance of 1 / 12 n + 1 / 12 m; more than three standard deviations below it, the inputs have moved. Without
    `n_reference` the validation inputs are taken to be very many.

    >>> prior_unchanged(0.47, 50), prior_unchanged(0.2, 50), prior_unchanged(None, 50)
    (0.75, 0.25, 0.5)
    """
    if familiarity is None:
        return UNCHANGED
    variance = (1 / n_rows + (1 / n_reference if n_reference else 0.0)) / 12
    moved = 0.5 - familiarity > _MOVED_Z * np.sqrt(variance)
    return UNCHANGED_MOVED if moved else UNCHANGED_FAMILIAR


def log_likelihood_gain(labeled: LabeledScores, log_scale: float) -> float:
    """Return twice the log-likelihood that the scale gains on these labels over leaving the scores as they are."""
    return float(2.0 * labeled.counts() @ (labeled.losses(0.0) - labeled.losses(log_scale)))

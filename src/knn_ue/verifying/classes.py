"""What the verifier would answer: P(class | x) from ridge and neighbors of each view, and the same left out.

Pure functions on inner products with the m labeled rows. Whatever a row's own label could leak into is left out for it,
so that the left-out distributions (m, classes) are what new rows get.
"""

import numpy as np

from knn_ue.arrays import FloatArray, IntArray

FLOOR = 0.02
NEIGHBOR_SHARE = 0.5  # how much the log-probabilities of neighbors count beside those of the ridge
_PRIOR_VOTES, _NEIGHBOR_VOTES = 2.0, 16.0
_KERNEL_WIDTH = 0.1
_FEWEST, _MOST = 5, 16
_GAMMAS = np.exp(np.linspace(np.log(0.4), np.log(2.5), 41))
_GAMMA_PENALTY = 4.0
_LEAST = 1e-3  # a class that no labeled row has is possible still


def class_prior(gold: IntArray, n_classes: int) -> FloatArray:
    """Return the share of each class among the gold labels, (classes,)."""
    share: FloatArray = np.bincount(gold, minlength=n_classes) / len(gold)
    return share


def one_hot(labels: IntArray, n_classes: int) -> FloatArray:
    """Return (n, classes), one 1 per row.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return np.eye(n_classes)[labels]


def ridge_probs(predicted: FloatArray, prior: FloatArray) -> FloatArray:
    """Return class probabilities (n, classes) of what a ridge predicts of one-hot labels minus the prior."""
    return normalized(np.maximum(predicted + prior, FLOOR))


def n_neighbors(n_labeled: int) -> int:
    """Return how many labeled rows vote."""
    return min(_MOST, max(_FEWEST, n_labeled // 8), n_labeled - 1)


def neighbor_probs(cosines: FloatArray, gold: IntArray, prior: FloatArray, *, left_out: bool) -> FloatArray:
    """Return the share of each class among the nearest labeled rows, near ones counting more, shrunk to the prior.

    `cosines` (n, m); with `left_out` they are those of the labeled rows among themselves, and none is its own neighbor.
    """
    k = n_neighbors(len(gold))
    similar = np.where(np.eye(len(gold), dtype=bool), -np.inf, cosines) if left_out else cosines
    nearest = np.argpartition(-similar, k - 1, axis=1)[:, :k]
    found = np.take_along_axis(similar, nearest, axis=1)
    weights = np.exp((found - found.max(axis=1, keepdims=True)) / _KERNEL_WIDTH)
    weights /= weights.sum(axis=1, keepdims=True)
    share = np.zeros((len(similar), len(prior)))
    np.add.at(share, (np.arange(len(similar))[:, None], gold[nearest]), weights)
    return (_NEIGHBOR_VOTES * share + _PRIOR_VOTES * prior) / (_NEIGHBOR_VOTES + _PRIOR_VOTES)


def pooled_log_probs(by_ridge: list[FloatArray], by_neighbors: list[FloatArray]) -> FloatArray:
    """Return log P (n, classes), not normalized: geometric means over views, then of ridge and neighbors."""
    ridge = np.mean([np.log(probs) for probs in by_ridge], axis=0)
    neighbors = np.mean([np.log(np.maximum(probs, _LEAST)) for probs in by_neighbors], axis=0)
    pooled: FloatArray = (ridge + NEIGHBOR_SHARE * neighbors) / (1.0 + NEIGHBOR_SHARE)
    return pooled


def fit_gamma(log_probs: FloatArray, gold: IntArray) -> float:
    """Return the power of P with the smallest left-out log-loss; powers far from 1 need evidence."""
    rows = np.arange(len(gold))
    losses = [
        -np.log(tempered(log_probs, gamma)[rows, gold]).sum() + _GAMMA_PENALTY * np.log(gamma) ** 2 for gamma in _GAMMAS
    ]
    return float(_GAMMAS[int(np.argmin(losses))])


def tempered(log_probs: FloatArray, gamma: float) -> FloatArray:
    """Return probabilities proportional to P^gamma, (n, classes)."""
    shifted = gamma * (log_probs - log_probs.max(axis=1, keepdims=True))
    return normalized(np.exp(shifted))


def normalized(values: FloatArray) -> FloatArray:
    """Return rows divided by their sums."""
    shares: FloatArray = values / values.sum(axis=1, keepdims=True)
    return shares

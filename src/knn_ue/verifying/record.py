"""The record of the judged model: how often it said each answer where the truth was each class."""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.verifying.classes import normalized, one_hot

N_FOLDS = 5
_PRIOR_ROWS = 4.0


def folds_of(gold: IntArray, seed: int = 0) -> IntArray:
    """Return a fold number (m,) of each labeled row, each class spread over all folds."""
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    order = shuffled[np.argsort(gold[shuffled], kind="stable")]
    folds = np.empty(len(gold), dtype=np.int64)
    folds[order] = np.arange(len(gold)) % N_FOLDS
    return folds


def confusion(gold: IntArray, answers: IntArray, *, n_classes: int, n_answers: int) -> FloatArray:
    """Return P(answer | class), (classes, answers): counts, with four rows' worth of what a typical class looks like.

    A typical class is answered right as often as all rows are, and wrong by the shares of the other answers.
    """
    counts = one_hot(gold, n_classes).T @ one_hot(answers, n_answers)
    right = (np.count_nonzero(gold == answers) + 1.0) / (len(gold) + 2.0)
    share = (np.bincount(answers, minlength=n_answers) + 1.0) / (len(answers) + n_answers)
    typical = np.tile(share, (n_classes, 1))
    diagonal = np.arange(n_classes)
    typical[diagonal, diagonal] = 0.0
    typical = (1.0 - right) * normalized(typical)
    typical[diagonal, diagonal] = right
    said: FloatArray = (counts + _PRIOR_ROWS * typical) / (counts.sum(axis=1, keepdims=True) + _PRIOR_ROWS)
    return said


def posterior(probs: FloatArray, answers: IntArray, said: FloatArray) -> FloatArray:
    """Return P(class | x, the model said a), (n, classes): the verifier's `probs` times the confusion `said`.

    Also the better answer, where the verifier is surer than the model usually is right.
    """
    return normalized(probs * said[:, answers].T)


def agreement(probs: FloatArray, answers: IntArray, said: FloatArray) -> FloatArray:
    """Return the `posterior` probability (n,) of the given answers; 0 for one that is no class."""
    on_list = answers < probs.shape[1]
    of_given = posterior(probs, answers, said)[np.arange(len(answers)), np.where(on_list, answers, 0)]
    found: FloatArray = np.where(on_list, of_given, 0.0)
    return found


def left_out_agreement(probs: FloatArray, gold: IntArray, answers: IntArray, *, n_answers: int) -> FloatArray:
    """Return `agreement` of the labeled rows (m,), the confusion of each from the other four folds."""
    found = left_out_posterior(probs, gold, answers, n_answers=n_answers)
    on_list = answers < probs.shape[1]
    of_given: FloatArray = found[np.arange(len(answers)), np.where(on_list, answers, 0)]
    return np.where(on_list, of_given, 0.0)


def left_out_posterior(probs: FloatArray, gold: IntArray, answers: IntArray, *, n_answers: int) -> FloatArray:
    """Return the `posterior` of the labeled rows (m, classes), the confusion of each from the other four folds."""
    folds = folds_of(gold)
    found = np.empty_like(probs)
    for fold in range(N_FOLDS):
        inside: BoolArray = folds == fold
        if inside.any():
            n_classes = probs.shape[1]
            said = confusion(gold[~inside], answers[~inside], n_classes=n_classes, n_answers=n_answers)
            found[inside] = posterior(probs[inside], answers[inside], said)
    return found

"""Answered rows whose truth is known: what the judged model gets wrong, and what a reader can see of it."""

from dataclasses import dataclass

import numpy as np
import pytest

from tiny_models import one_thread, tiny_model


@dataclass(frozen=True)
class Answered:
    """Rows with a dense view, answers (3 is no class), gold labels, and an own score that knows something."""

    views: dict
    answers: np.ndarray
    gold: np.ndarray
    own: np.ndarray

    def part(self, rows):
        return Answered(
            {name: view[rows] for name, view in self.views.items()},
            self.answers[rows],
            self.gold[rows],
            self.own[rows],
        )

    @property
    def right(self):
        return self.answers == self.gold


def answered_rows(n, seed):
    """Three classes that a reader sees well; the model mixes up 0 and 1, and sometimes does not answer."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 3, n)
    answers = gold.copy()
    mixed = (gold < 2) & (rng.random(n) < 0.45)
    answers[mixed] = 1 - gold[mixed]
    answers[rng.random(n) < 0.05] = 3
    centers = 2.0 * np.eye(3, 12)
    views = {name: (centers[gold] + rng.normal(size=(n, 12))).astype(np.float32) for name in ("one", "two")}
    return Answered(views, answers, gold, np.where(answers == gold, 0.9, 0.8) + 0.05 * rng.normal(size=n))


@pytest.fixture(scope="session")
def labeled():
    return answered_rows(120, seed=0)


@pytest.fixture(scope="session")
def unlabeled():
    return answered_rows(600, seed=1)


__all__ = ["one_thread", "tiny_model"]

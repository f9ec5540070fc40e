"""Prediction sets: the labels among which the right one is, as often as was promised.

A set holds every label whose score is at most a threshold, the quantile of the scores of the right labels of held-out
rows (split conformal prediction). How a label is scored is the method: by its probability (LAC, Sadinle et al. 2019),
by the probability of all labels at least as likely (APS, Romano et al. 2020), by that and a penalty for long sets
(RAPS, Angelopoulos et al. 2021), or by its probability with a threshold for each label (class-conditional).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, check_choice
from knn_ue.decisions.contract import SET, Losses, Scored
from knn_ue.decisions.risk import check_share, percent
from knn_ue.errors import InvalidInputError
from knn_ue.folder import from_plain

SetMethod = Literal["lac", "aps", "raps", "class"]
_PENALTY, _FREE_RANKS = 0.01, 5  # of RAPS, as its authors use them for few labels
_MAX_ROWS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class PredictionSets:
    """A decision: each answer carries the set of labels that holds the right one in `coverage` of all rows.

    Fitted on `n` rows. `thresholds` has one value, or one for each label where `method` is "class"; None where the rows
    are too few to leave a label out. `str` is the promise: one sentence.
    """

    kind: ClassVar[str] = "set"

    coverage: float = 0.95
    method: SetMethod = "lac"
    thresholds: tuple[float | None, ...] = ()
    n: int = 0
    mean_size: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.coverage, "coverage", "0.95 for 95 %")
        check_choice(self.method, "set_method", get_args(SetMethod))

    def fit(self, held_out: Scored, /) -> Self:
        """Return the sets whose thresholds the right labels of `held_out` give."""
        probs, labels = _of_rows(held_out), held_out.labels
        if labels is None:
            raise InvalidInputError("prediction sets need held-out rows with labels: pass Scored(labels=...)")
        scores = label_scores(probs, self.method)
        own = scores[np.arange(len(labels)), labels]
        each_label = [own[labels == number] for number in range(probs.shape[1])]
        groups = each_label if self.method == "class" else [own]
        limits = tuple(conformal_quantile(group, self.coverage) for group in groups)
        fitted = replace(self, thresholds=limits, n=len(labels))
        return replace(fitted, mean_size=float(fitted._inside(probs).sum(axis=1).mean()) if len(labels) else 0.0)

    def fields(self, scored: Scored, /) -> list[dict[str, Any]]:
        """Return the set of each answer, the likeliest label first."""
        probs = _of_rows(scored)
        inside, order = self._inside(probs), np.argsort(-probs, axis=1, kind="stable")
        names = scored.class_names
        return [{SET: [names[column] for column in order[row] if inside[row, column]]} for row in range(len(probs))]

    def losses(self, scored: Scored, /) -> Losses:
        """Return which rows miss the right label; what a fit on `n` rows guarantees is a little less than `coverage`.

        With probability 90 % over the draw of the n rows, a share of at least 1 - `risk` of all rows is covered.
        """
        if scored.labels is None:
            raise InvalidInputError("a promise is watched on rows with labels: pass Scored(labels=...)")
        inside = self._inside(_of_rows(scored))[np.arange(len(scored)), scored.labels]
        one = np.ones(len(scored))
        return Losses(shown=one, wrong=one - inside, risk=self._guaranteed_risk(), cap=1)

    def _guaranteed_risk(self) -> float:
        from scipy.stats import beta

        n_out = math.floor(round((self.n + 1) * (1 - self.coverage), 9))
        return float(beta.ppf(0.9, n_out, self.n + 1 - n_out)) if n_out else 1 - self.coverage

    def to_plain(self) -> dict[str, Any]:
        """Return the numbers as plain JSON."""
        return asdict(self) | {"thresholds": list(self.thresholds)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], /) -> Self:
        """Read what `to_plain` wrote."""
        stored = from_plain(cls, plain)
        if not 0 <= stored.n <= _MAX_ROWS or not 0 <= stored.mean_size <= _MAX_ROWS:
            raise ValueError(f"n and mean_size must not be negative, got {stored.n} and {stored.mean_size}")
        if not stored.thresholds or (stored.method != "class" and len(stored.thresholds) != 1):
            raise ValueError(f"{len(stored.thresholds)} thresholds do not go with the method {stored.method}")
        return stored

    def __str__(self) -> str:
        each = "for each label " if self.method == "class" else ""
        promise = (
            f"{each}the set of labels of an answer holds the right one for at least {percent(self.coverage)} of the "
            f"rows drawn like the {self.n} held-out ones, on the mean over their draw; {self.mean_size:.3g} labels are "
            "in a set on the mean"
        )
        none = sum(limit is None for limit in self.thresholds)
        if none and self.method == "class":
            least = rows_for(self.coverage)
            promise += f", and labels with fewer than {least} held-out rows ({none}) are in every one"
        elif none:
            promise += f", all of them, since fewer than {rows_for(self.coverage)} rows can leave none out"
        return f"{promise}; void for other kinds of rows and once the model, its examples or its scores change"

    def _inside(self, probs: FloatArray) -> BoolArray:
        limits = np.array([np.inf if limit is None else limit for limit in self.thresholds])
        if len(limits) not in (1, probs.shape[1]):
            raise InvalidInputError(
                f"the sets were fitted for {len(limits)} labels, these rows have {probs.shape[1]}: refit"
            )
        inside: BoolArray = label_scores(probs, self.method) <= limits
        return inside


def label_scores(probs: FloatArray, method: SetMethod) -> FloatArray:
    """Return how ill each label fits each row (n, classes): what a threshold is put on.

    >>> label_scores(np.array([[0.5, 0.3, 0.2]]), "aps").round(6).tolist()
    [[0.5, 0.8, 1.0]]
    """
    if method in ("lac", "class"):
        return 1.0 - probs
    order = np.argsort(-probs, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    total = np.cumsum(np.take_along_axis(probs, order, axis=1), axis=1)
    if method == "raps":
        total += _PENALTY * np.maximum(0, np.arange(1, probs.shape[1] + 1) - _FREE_RANKS)
    scores: FloatArray = np.take_along_axis(total, rank, axis=1)
    return scores


def conformal_quantile(scores: FloatArray, coverage: float) -> float | None:
    """Return the ceil((n + 1) coverage)-th smallest of n scores; None where there are not so many.

    >>> conformal_quantile(np.arange(1.0, 20.0), 0.9), conformal_quantile(np.arange(5.0), 0.9)
    (18.0, None)
    """
    rank = math.ceil(round((len(scores) + 1) * coverage, 9))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else None


def rows_for(coverage: float) -> int:
    """Return how many rows allow a threshold.

    >>> rows_for(0.95)
    19
    """
    return math.ceil(round(coverage / (1 - coverage), 9))


def _of_rows(scored: Scored) -> FloatArray:
    if scored.probs is None or scored.sentence is not None:
        raise InvalidInputError(
            "prediction sets are for texts and pairs, where rows are independent and every label has a probability: "
            "leave out coverage in tagging"
        )
    return scored.probs

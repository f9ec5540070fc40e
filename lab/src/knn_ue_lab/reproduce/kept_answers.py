"""Answers in few bytes: what paired tests need of every row, small enough to be committed beside the cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray
from knn_ue_lab.reproduce.answers import Answers

# Probabilities as log-odds in half precision: 0.9998 and 0.9999 stay apart, and no probability moves by 0.001. Where
# that makes many different ones equal, as those near 1 / classes, ranking would change: they keep more digits.
_LOG_ODDS = "log_odds"
_MERGED = 0.01  # the share of all rows that may become one value
_FEW = 8  # rows of which a few are equal by chance
# Confidences of so few rows are kept as they are, and those of which more than this share would change their bin:
# isotonic's are often 0.5 or 0.8, at the very edge of one.
_EXACT_ROWS = 500
_MOVED = 0.002
_AS_THEY_ARE = ("correct", "missed", "labels")


def pack(answers: Answers) -> dict[str, npt.NDArray[Any]]:
    """Return the answers as small arrays by name; `proximity`, which no test reads, is left out.

    Scores of detectors, which are no probabilities, keep single precision, and confidences of few rows all digits: one
    row that ties or changes its bin would show in their numbers. Of two classes one is kept. Groups that are just the
    numbers of the rows are left out.

    >>> packed = pack(Answers(confidence=np.tile([0.25, 1.0], 300), group=np.arange(600)))
    >>> packed["confidence.log_odds"].dtype, unpack(packed).confidence[:2].round(3).tolist()
    (dtype('float16'), [0.25, 1.0])
    """
    packed: dict[str, npt.NDArray[Any]] = {}
    scores = answers.confidence
    if len(scores) and not (scores.min() >= 0 and scores.max() <= 1):
        packed["confidence"] = scores.astype(np.float32)
    elif 0 < len(scores) <= _EXACT_ROWS:
        packed["confidence"] = scores.astype(np.float64)
    else:
        short = _short(_log_odds(scores))
        moved = _bins(_probabilities(short)) != _bins(scores)
        exact = moved.sum() > _MOVED * len(scores)
        packed |= {"confidence": scores.astype(np.float64)} if exact else {f"confidence.{_LOG_ODDS}": short}
    for name in _AS_THEY_ARE:
        values = getattr(answers, name)
        if values is not None:
            packed[name] = _small(np.asarray(values))
    if not np.array_equal(answers.group, np.arange(len(answers.group))):
        packed["group"] = _small(np.asarray(answers.group))
    if answers.probs is not None:
        kept = answers.probs[:, :1] if answers.probs.shape[1] == 2 else answers.probs
        packed[f"probs.{_LOG_ODDS}"] = _log_odds(kept).astype(np.float16)
    if answers.human is not None:
        packed["human"] = answers.human.astype(np.float16)
    return packed


def unpack(arrays: Mapping[str, npt.NDArray[Any]]) -> Answers:
    """Return the answers that `pack` made these arrays of, rounded."""
    found: dict[str, Any] = {}
    for stored, values in arrays.items():
        name, _, form = stored.partition(".")
        if form == _LOG_ODDS:
            found[name] = _probabilities(values)
        elif values.dtype == np.bool_:
            found[name] = values
        else:
            found[name] = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    found.setdefault("group", np.arange(len(found["confidence"])))
    if "probs" in found:
        probs = found["probs"]
        found["probs"] = np.hstack([probs, 1 - probs]) if probs.shape[1] == 1 else probs / probs.sum(1, keepdims=True)
    return Answers(**found)


def _log_odds(probs: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.log(probs) - np.log1p(-np.asarray(probs, dtype=np.float64))
    return odds


def _probabilities(odds: npt.NDArray[np.floating[Any]]) -> FloatArray:
    with np.errstate(over="ignore"):  # exp overflows to infinity where a probability is 0, which is right
        probs: FloatArray = 1 / (1 + np.exp(-odds.astype(np.float64)))
    return probs


def _bins(probs: FloatArray) -> FloatArray:
    """Return which of ten bins, open below, each probability is in."""
    found: FloatArray = np.ceil(10 * np.asarray(probs, dtype=np.float64))
    return found


def _short(odds: FloatArray) -> npt.NDArray[np.floating[Any]]:
    """Return the log-odds of answers (n,) in as few digits as keep apart what is different."""
    for precision in (np.float16, np.float32):
        shorter: npt.NDArray[np.floating[Any]] = odds.astype(precision)
        if not _merges(shorter, odds):
            return shorter
    return odds


def _merges(shorter: npt.NDArray[np.floating[Any]], values: FloatArray) -> bool:
    """Say whether more than a few different values became the same one."""
    _, same = np.unique(shorter, return_inverse=True)
    different = np.unique(np.stack([same, values]), axis=1)[0]
    largest = np.bincount(different.astype(np.int64)).max(initial=0)
    return bool(largest > max(_FEW, _MERGED * len(values)))


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers in the fewest bytes that hold them, and bools as they are."""
    if values.dtype == np.bool_ or not len(values):
        return values
    return values.astype(np.min_scalar_type(int(values.max())))

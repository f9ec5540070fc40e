"""How low an error of calibration can be: even a perfectly calibrated model has some, in bins of a few answers."""

import math
from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import BoolArray
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.claims import Claim
from knn_ue_lab.reproduce.comparisons import found_jobs
from knn_ue_lab.reproduce.measures import AnswerMeasure, measure_of
from knn_ue_lab.reproduce.run import Outcome
from knn_ue_lab.reproduce.score import read_answers
from knn_ue_lab.reproduce.statistics import PairedTest
from knn_ue_lab.reproduce.task_runner import TaskRunner

_DRAWS = 20


def floor_of(measure: AnswerMeasure, answers: Sequence[Answers]) -> float:
    """Return the mean of the measure if each answer were right as often as its confidence says."""
    assert measure.function is not None
    rng = np.random.default_rng(0)
    values = []
    for one in answers:
        given = one.given()
        for _ in range(_DRAWS):
            right: BoolArray = rng.random(len(given.confidence)) < given.confidence
            values.append(measure.function(Answers(confidence=given.confidence, group=given.group, correct=right)))
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else 0.0


def kept_floor(runner: TaskRunner, outcome: Outcome, claim: Claim, found: PairedTest) -> float:
    """Return the floor of the claim's sides, the lower one, from the answers they were compared by.

    It is 0 where those are not here.
    """
    measure = measure_of(claim.measure)
    if not isinstance(measure, AnswerMeasure) or not measure.has_floor:
        return 0.0
    first, second = (found_jobs(outcome, claim.block.setup, side).keys() for side in (claim.first, claim.second))
    seeds = first & second
    floors = []
    for side in (claim.first, claim.second):
        read = [read_answers(runner, side, seed, claim.block.part) for seed in sorted(seeds)]
        answers = [one if found.n_texts is None else one.first(found.n_texts) for one in read if one is not None]
        floors.append(floor_of(measure, answers))
    return min(floors)

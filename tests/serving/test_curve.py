"""The slider's curve, row by row."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.serving.curve import risk_curve
from pipelines import TEXT, WORDS


@pytest.mark.parametrize("task", [TEXT, WORDS])
@pytest.mark.parametrize("kept_apart", [False, True])
def test_coverage_and_risk_are_counted_right(task, kept_apart, folders):
    fitted = UncertaintyPipeline.load(folders(task), device="cpu").fitted_
    rows = fitted.validation
    if kept_apart:
        mask = (rows.groups if rows.groups is not None else np.arange(len(rows))) % 2 == 0
        fitted, rows = replace(fitted, held_out=mask), rows.take(mask)
    confidence, correct = scored_answers(rows, fitted.calibrator)

    curve = risk_curve(fitted)

    assert curve.n == len(confidence) and curve.kept_apart is kept_apart
    for threshold, coverage, risk in zip(curve.thresholds, curve.coverage, curve.risk, strict=True):
        given = confidence >= threshold
        assert coverage == pytest.approx(given.mean())
        assert risk == (pytest.approx(1 - correct[given].mean()) if given.any() else None)


def test_it_names_what_it_counts(folders):
    units = [risk_curve(UncertaintyPipeline.load(folders(task), device="cpu").fitted_).unit for task in (TEXT, WORDS)]

    assert units == ["rows", "entities"]

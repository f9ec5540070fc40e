"""The slider's curve, row by row."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.decisions import RiskThreshold
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.serving.work.curve import risk_curve
from pipelines import TEXT, WORDS


@pytest.mark.parametrize(("task", "method"), [(TEXT, "knn-ue"), (WORDS, "knn-ue"), (WORDS, "knn-ue-entity")])
@pytest.mark.parametrize("kept_apart", [False, True])
def test_coverage_and_risk_are_counted_right(task, method, kept_apart, folders):
    fitted = UncertaintyPipeline.load(folders(task, method), device="cpu").fitted_
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


def test_the_fitted_threshold_has_the_numbers_it_was_chosen_by(folders):
    from knn_ue.pipeline.fitting import fit_outputs

    pipe = UncertaintyPipeline.load(folders(TEXT), device="cpu")
    rows = np.arange(len(pipe.validation_))
    labels = np.where(rows % 8 == 0, 1 - pipe.validation_.predicted, pipe.validation_.predicted)
    validation = replace(pipe.validation_, labels=labels)
    fitted = fit_outputs(
        "knn-ue", pipe.calibrator_, validation, rows % 2 == 0, [RiskThreshold(target_risk=0.6, delta=0.3)]
    )
    assert fitted.threshold.found

    curve = risk_curve(fitted)

    place = curve.thresholds.index(fitted.threshold.threshold)
    assert curve.coverage[place] == pytest.approx(fitted.threshold.coverage)
    assert curve.risk[place] == pytest.approx(fitted.threshold.n_errors / fitted.threshold.n_answered)

"""Every method works; what cannot work is said in one sentence."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.methods import METHODS
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.training.method import TrainingMethod
from marks import slow_but
from pipelines import N_NEIGHBORS, PAIR, TEXT, fit
from tiny_models import ROWS

pytest.importorskip("torch")
pytest.importorskip("transformers")

READ_TEXTS = ("verdict", "span-verdict")  # learn from at least 50 rows
PLAIN = [name for name, row in METHODS.items() if row.training is TrainingMethod and name not in READ_TEXTS]


@pytest.mark.parametrize("method", slow_but(("knn-ue", "temperature"), PLAIN))
def test_every_method_for_a_plain_model_can_be_fitted_saved_and_loaded(method, models, tmp_path):
    task = METHODS[method].tasks[0]
    pipe = fit(models[task], task, method=method)
    expected = pipe(ROWS[task](4, start=300))
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert loaded(ROWS[task](4, start=300)) == expected


def test_the_encoder_gives_layers_only_to_the_method_that_needs_them(models):
    pipe = fit(models[TEXT], TEXT, method="dac")
    n_layers = len(pipe.validation_.layers)

    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), method="temperature")

    assert (n_layers, pipe.validation_.layers) == (4, None)


def test_an_unfitted_pipeline_says_so(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    with pytest.raises(
        NotFittedError, match=r"UncertaintyPipeline is not fitted: call fit\(train_rows, validation_rows\) first"
    ):
        pipe("a film")


@pytest.mark.parametrize(
    ("train", "validation", "options", "message"),
    [
        ([], ROWS[TEXT](9), {}, "the training set is empty"),
        (ROWS[TEXT](9), [], {}, "the validation set is empty"),
        (ROWS[TEXT](9), ROWS[TEXT](9), {"n_neighbors": 10}, "n_neighbors=10 exceeds the 9 stored examples"),
        (ROWS[TEXT](9), [("a film", "meh")], {}, "validation row 0 has the label 'meh', which the model does not know"),
        (["a film"], ROWS[TEXT](9), {}, "training row 0 has no label"),
        (ROWS[TEXT](9), ROWS[TEXT](9), {"method": "magic"}, "method must be one of"),
        (ROWS[TEXT](9), ROWS[TEXT](9), {"target_risk": 5}, "target_risk must lie strictly between 0 and 1"),
        (ROWS[TEXT](9), ROWS[TEXT](1, start=50), {"target_risk": 0.1, "n_neighbors": 2}, "at least 2 validation rows"),
        ({"text": "a"}, ROWS[TEXT](9), {}, "rows must be a list of rows or the name of a file, got one dict"),
        (5, ROWS[TEXT](9), {}, "rows must be a list of rows or the name of a file, got one int"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_sentence(train, validation, options, message, models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    with pytest.raises(InvalidInputError, match=message):
        pipe.fit(train, validation, **options)


def test_a_failed_fit_leaves_the_fitted_pipeline_as_it_was(models):
    pipe = fit(models[TEXT], TEXT)
    expected = pipe("a great film")

    with pytest.raises(InvalidInputError):
        pipe.fit(ROWS[TEXT](60), [("a film", "meh")], method="dac")

    assert pipe("a great film") == expected


def test_outputs_may_stand_for_the_rows_they_are_of(models, fitted):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")
    train, validation = pipe.outputs(ROWS[TEXT](60)), pipe.outputs(ROWS[TEXT](40, start=100))

    pipe.fit(train, validation, n_neighbors=N_NEIGHBORS)

    assert pipe("a great film") == fitted[TEXT]("a great film")


def test_outputs_of_one_pass_are_no_outputs_of_mc_dropout(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")
    train, validation = pipe.outputs(ROWS[TEXT](60)), pipe.outputs(ROWS[TEXT](40, start=100))

    with pytest.raises(InvalidInputError, match="mc-dropout needs outputs made with passes=20, these have passes=1"):
        pipe.fit(train, validation, method="mc-dropout")


def test_outputs_of_a_pipeline_made_for_the_method_are_taken(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu", passes=3)
    train, validation = pipe.outputs(ROWS[TEXT](60)), pipe.outputs(ROWS[TEXT](40, start=100))

    pipe.fit(train, validation, method="mc-dropout")

    assert pipe.encoder.options.passes == 3


def test_outputs_of_a_model_with_other_classes_are_refused(fitted, models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    with pytest.raises(InvalidInputError, match="the training outputs have 3 classes, the model has 2"):
        pipe.fit(fitted[PAIR].validation_, fitted[PAIR].validation_)


def test_progress_reaches_the_end_of_both_sets(models):
    seen = []

    fit(models[TEXT], TEXT, progress=lambda *step: seen.append(step))

    assert ("training", 60, 60) in seen and seen[-1] == ("validation", 40, 40)


def test_drift_percentiles_are_of_the_validation_rows(fitted):
    pipe = fitted[TEXT]
    neighbors = pipe.calibrator_.store.search(pipe.validation_.features, N_NEIGHBORS)

    levels, method = [0.0, 0.5, 1.0], "inverted_cdf"
    means = neighbors.distances.mean(axis=1)
    agreement = (neighbors.labels == pipe.validation_.predicted[:, None]).mean(axis=1)
    assert pipe.drift_.distance[[0, 50, 100]] == pytest.approx(np.quantile(means, levels, method=method))
    assert pipe.drift_.agreement[[0, 50, 100]] == pytest.approx(np.quantile(agreement, levels, method=method))

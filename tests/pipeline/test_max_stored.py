"""Not all training examples need be stored: at most so many, of every class as many."""

from collections import Counter

import numpy as np
import pytest

from cli_files import run, write_rows
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import balanced_rows
from marks import slow_but
from pipelines import N_NEIGHBORS, TEXT, WORDS
from tiny_models import ROWS

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("method", slow_but("dac", ["knn-ue", "dac"]))
@pytest.mark.parametrize("task", [TEXT, WORDS])
def test_the_store_holds_a_balanced_sample(task, method, models):
    pipe = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu", all_layers=method == "dac")
    train, validation = pipe.outputs(ROWS[task](60)), pipe.outputs(ROWS[task](40, start=100))
    limit = 20

    pipe.fit(train, validation, method=method, n_neighbors=N_NEIGHBORS, max_stored=limit)

    chosen = balanced_rows(train.labels, limit)
    for store in list(pipe.calibrator_.stores.values()):
        assert len(store) == limit
        assert Counter(store.arrays()[1].tolist()) == Counter(train.labels[chosen].tolist())
    if method == "knn-ue":
        whole = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")
        whole.fit(train.take(chosen), validation, n_neighbors=N_NEIGHBORS)
        np.testing.assert_array_equal(
            pipe.calibrator_.predict_proba(validation), whole.calibrator_.predict_proba(validation)
        )


@pytest.mark.parametrize(("task", "n_encoded"), [(TEXT, 20), (WORDS, 60)])
def test_texts_that_are_not_stored_do_not_go_through_the_model(task, n_encoded, models):
    rows, validation = ROWS[task](60), ROWS[task](40, start=100)
    pipe = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")
    seen = {}

    pipe.fit(
        rows,
        validation,
        n_neighbors=N_NEIGHBORS,
        max_stored=20,
        seed=1,
        progress=lambda name, _done, total: seen.update({name: total}),
    )

    assert seen["training"] == n_encoded
    train = pipe.outputs(rows)
    chosen = balanced_rows(train.labels, 20, seed=1)
    vectors, labels = next(iter(pipe.calibrator_.stores.values())).arrays()
    np.testing.assert_array_equal(labels, train.labels[chosen])
    np.testing.assert_allclose(vectors, train.features[chosen], atol=1e-4)


def test_a_limit_that_all_meet_changes_nothing(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), n_neighbors=N_NEIGHBORS, max_stored=1000)

    assert len(next(iter(pipe.calibrator_.stores.values()))) == 60


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_stored": 3, "n_neighbors": 4}, "max_stored=3 must be at least n_neighbors=4"),
        ({"max_stored": 100, "method": "temperature"}, "temperature stores no examples"),
        ({"index": "PQ4", "method": "mahalanobis"}, "mahalanobis uses no neighbors, index 'PQ4' would do nothing"),
    ],
)
def test_an_option_without_sense_is_refused_before_the_model_runs(options, sentence, models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    with pytest.raises(InvalidInputError, match=sentence):
        pipe.fit(
            ROWS[TEXT](60),
            ROWS[TEXT](40, start=100),
            progress=lambda *_: pytest.fail("the model ran"),
            **options,
        )


def test_the_command_takes_it(models, tmp_path):
    train = write_rows(tmp_path / "train.jsonl", ROWS[TEXT](60))
    validation = write_rows(tmp_path / "validation.jsonl", ROWS[TEXT](40, start=100))
    options = ("--train", train, "--validation", validation, "--neighbors", N_NEIGHBORS, "--device", "cpu")

    done = run("fit", models[TEXT], *options, "--task", "text", "--max-stored", 12, "--out", tmp_path / "ue")

    assert done.exit_code == 0, done.output
    assert len(UncertaintyPipeline.load(tmp_path / "ue", device="cpu").calibrator_.store) == 12

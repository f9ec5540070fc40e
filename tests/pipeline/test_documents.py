"""Promises over documents: rows of one document stay together, and each document counts once for all it holds."""

import numpy as np
import pytest

from cli_files import run, write_rows
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import N_NEIGHBORS, TEXT, WORDS, said_by_the_model
from tiny_models import ROWS, one_thread, save_tiny_model

__all__ = ["one_thread"]


def of_documents(rows, size=4):
    return [row | {"document": f"letter {number // size}"} for number, row in enumerate(rows)]


def fitted(models, task, **options):
    pipe = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")
    validation = of_documents(said_by_the_model(pipe, 240, start=100, wrong_every=1000))
    pipe.fit(ROWS[task](60), validation, n_neighbors=N_NEIGHBORS, unit="document", **options)
    return pipe


@pytest.mark.parametrize("task", [TEXT, WORDS])
def test_a_document_is_held_out_as_a_whole_and_the_promise_names_it(task, models, tmp_path):
    pipe = fitted(models, task, target_precision=0.4, delta=0.4)

    documents, held_out = pipe.validation_.documents, pipe.fitted_.held_out
    assert not set(documents[held_out]) & set(documents[~held_out])
    assert (pipe.threshold_.unit, pipe.threshold_.n_units) == ("document", 30)
    assert "in documents drawn like the 30 held-out documents" in pipe.promises[0]
    pipe.save(tmp_path / "ue")
    again = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")
    assert again.promises == pipe.promises
    np.testing.assert_array_equal(again.validation_.documents, documents)


def test_a_promise_over_documents_is_watched_by_rows_that_name_theirs(models):
    pipe = fitted(models, TEXT, target_precision=0.4, delta=0.4)
    rows = said_by_the_model(pipe, 40, start=600, wrong_every=1000)

    (found,) = pipe.watch(of_documents(rows))

    assert (found.n_units, found.holds) == (10, True)
    with pytest.raises(InvalidInputError, match="a promise over documents needs the document of every row"):
        pipe.watch(rows)


def test_rows_without_a_document_are_refused(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")
    rows = [*of_documents(ROWS[TEXT](20, start=100)), *ROWS[TEXT](1, start=200)]

    with pytest.raises(InvalidInputError, match="needs the field document in every row, row 20 has none"):
        pipe.fit(ROWS[TEXT](20), rows, n_neighbors=4, target_precision=0.5, unit="document")
    with pytest.raises(InvalidInputError, match="unit must be 'document' or be left out"):
        pipe.fit(ROWS[TEXT](20), rows, n_neighbors=4, unit="page")


def test_the_command_reads_documents_from_files(tmp_path):
    model = save_tiny_model(tmp_path / "model", family="bert", task=TEXT)
    train = write_rows(tmp_path / "train.jsonl", ROWS[TEXT](40))
    validation = write_rows(tmp_path / "validation.jsonl", of_documents(ROWS[TEXT](80, start=100)))
    data = ("--train", train, "--validation", validation, "--task", "text", "--neighbors", 8)

    found = run("fit", model, *data, "--out", tmp_path / "ue", "--target-precision", 0.9, "--unit", "document")

    assert found.exit_code == 0, found.output
    assert "with these 10 held-out documents" in found.stdout

"""Every answer says how much its input is like the training data, from the one forward pass, and after a save too."""

import numpy as np
import pytest

from knn_ue import InvalidInputError, UncertaintyPipeline
from knn_ue.pipeline import fitting
from pipelines import PAIR, TEXT, WORDS, fit
from tiny_models import ROWS, TASKS

pytest.importorskip("torch")

STRANGE = {
    TEXT: "zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz",
    PAIR: ("zzz zzz zzz zzz zzz zzz zzz", "zzz zzz zzz zzz zzz zzz"),
    WORDS: ["zzz"] * 15,
}


@pytest.mark.parametrize("task", TASKS)
def test_answers_say_how_familiar_their_input_is(models, task):
    pipe = fit(models[task], task, false_alarm_rate=0.03, index="exact")

    usual = pipe(ROWS[task](20, start=300))
    (strange,) = pipe([STRANGE[task]])

    assert all(0 < answer.familiarity <= 1 for answer in usual)
    assert strange.familiarity <= min(answer.familiarity for answer in usual)
    assert strange.unfamiliar
    assert {"familiarity", "unfamiliar"} <= strange.to_dict().keys()


def test_p_values_of_answers_are_those_of_the_arrays(fitted):
    pipe = fitted[TEXT]
    rows = ROWS[TEXT](9, start=200)

    found = [answer.familiarity for answer in pipe(rows)]

    np.testing.assert_allclose(found, pipe.familiarity_.p_value(pipe.outputs(rows)))


def test_entities_have_a_familiarity_of_their_own(fitted):
    pipe = fitted[WORDS]

    answers = pipe(ROWS[WORDS](20, start=300))

    entities = [entity for answer in answers for entity in answer.entities]
    assert entities
    assert all(0 < entity.familiarity <= 1 and entity.unfamiliar is not None for entity in entities)


def test_a_sentence_without_words_has_no_familiarity(fitted):
    pipe = fitted[WORDS]

    empty, full = pipe([[], ROWS[WORDS](1)[0]["tokens"]])

    assert empty.familiarity is None and full.familiarity is not None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "knn-ue"])
def test_familiarity_is_saved_and_read_again(models, tmp_path, method):
    pipe = fit(models[TEXT], TEXT, method=method, false_alarm_rate=0.2, index="exact")
    pipe.save(tmp_path / "ue")

    read = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    rows = ROWS[TEXT](9, start=200)
    assert [x.familiarity for x in read(rows)] == [x.familiarity for x in pipe(rows)]
    assert read.familiarity_.false_alarm_rate == 0.2


def test_many_windows_give_what_one_gives(models, fitted, monkeypatch):
    whole = fitted[WORDS]
    monkeypatch.setattr("knn_ue.encoding.inputs.WINDOW_BATCHES", 1)
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu", batch_size=7)

    pipe.fit(ROWS[WORDS](60), ROWS[WORDS](40, start=100), n_neighbors=8, index="exact")

    np.testing.assert_allclose(pipe.validation_.features, whole.validation_.features, atol=1e-5)
    np.testing.assert_array_equal(pipe.validation_.groups, whole.validation_.groups)
    assert pipe.validation_.texts == whole.validation_.texts
    expected = whole.familiarity_.reference_["sentences"]
    np.testing.assert_allclose(pipe.familiarity_.reference_["sentences"], expected, atol=2e-2)


def test_views_are_neither_kept_nor_saved(models, monkeypatch):
    monkeypatch.setattr(fitting, "MAX_MEASURED", 10)
    pipe = fit(models[TEXT], TEXT, index="exact")

    assert pipe.validation_.views is None
    assert pipe.familiarity_ is not None


def test_without_views_answers_have_no_familiarity(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu", views=False)
    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), n_neighbors=8, index="exact")

    (answer,) = pipe("a text")

    assert pipe.familiarity_ is None and answer.familiarity is None
    assert "familiarity" not in answer.to_dict()


def test_outputs_of_the_pipeline_fit_the_same_familiarity(models, fitted):
    by_rows = fitted[TEXT]
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    pipe.fit(pipe.outputs(ROWS[TEXT](60)), pipe.outputs(ROWS[TEXT](40, start=100)), n_neighbors=8, index="exact")

    expected = by_rows.familiarity_.reference_["rows"]
    np.testing.assert_allclose(pipe.familiarity_.reference_["rows"], expected, atol=1e-4)


def test_an_impossible_rate_is_refused_before_the_model_runs(models):
    with pytest.raises(InvalidInputError, match="false_alarm_rate must lie between 0 and 1, got 2"):
        fit(models[TEXT], TEXT, false_alarm_rate=2)

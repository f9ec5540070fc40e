"""Answers below the threshold become abstentions, and the threshold keeps its promise."""

import numpy as np
import pytest

from knn_ue.decisions.risk import choose_threshold
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import N_NEIGHBORS, PAIR, TEXT, WORDS, fit, said_by_the_model
from tiny_models import ROWS, TASKS

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_below_the_threshold_the_answer_moves_to_would_be(fitted):
    rows = ROWS[TEXT](10, start=300)
    usual = fitted[TEXT](rows)
    middle = float(np.median([answer.score for answer in usual]))

    answers = fitted[TEXT](rows, abstain_below=middle)

    assert [a.label is None for a in answers] == [a.abstained for a in answers] == [a.score < middle for a in usual]
    assert [a.would_be if a.abstained else a.label for a in answers] == [a.label for a in usual]


def test_without_a_threshold_nothing_abstains(fitted):
    assert not any(answer.abstained for answer in fitted[TEXT](ROWS[TEXT](10)))


def test_an_abstained_entity_takes_its_words_along(fitted):
    (answer,) = fitted[WORDS](ROWS[WORDS](1), abstain_below=1.0)

    inside = {n for e in answer.entities for n in range(e.start, e.end)}
    assert inside and all(entity.type is None for entity in answer.entities)
    assert {n for n, word in enumerate(answer.words) if word.tag is None} == inside


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), True])
def test_a_threshold_that_is_no_probability_is_refused(value, fitted):
    with pytest.raises(InvalidInputError, match=r"abstain_below must lie within \[0, 1\]"):
        fitted[TEXT]("a film", abstain_below=value)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_target_risk_gives_a_threshold_that_the_answers_obey(task, models):
    pipe = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")
    validation = said_by_the_model(pipe, 200, start=100, wrong_every=100)

    pipe.fit(ROWS[task](60), validation, n_neighbors=N_NEIGHBORS, target_risk=0.6)

    answers = pipe(ROWS[task](20, start=900))
    given = [unit for answer in answers for unit in getattr(answer, "entities", [answer])]
    assert pipe.threshold_.found
    assert all(x.abstained for x in given if x.score < pipe.threshold_.threshold)
    assert not all(x.abstained for x in given)


@pytest.mark.filterwarnings("ignore:a precision of")
def test_the_threshold_rows_take_no_part_in_the_fit(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")
    validation = said_by_the_model(pipe, 100, start=100, wrong_every=10)
    pipe.fit(ROWS[TEXT](60), validation, n_neighbors=N_NEIGHBORS, target_risk=0.6)
    held_out = pipe.fitted_.held_out
    kept = [row for row, held in zip(validation, held_out, strict=True) if not held]

    alone = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")
    alone.fit(ROWS[TEXT](60), kept, n_neighbors=N_NEIGHBORS)

    assert held_out.sum() == 50
    assert alone.calibrator_.params_.tau == pytest.approx(pipe.calibrator_.params_.tau, rel=1e-3)


@pytest.mark.filterwarnings("ignore:a precision of")
def test_the_threshold_is_chosen_by_the_calibrated_confidence_of_the_held_out_rows(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")
    validation = said_by_the_model(pipe, 100, start=100, wrong_every=10)

    pipe.fit(ROWS[TEXT](60), validation, n_neighbors=N_NEIGHBORS, target_risk=0.3)

    unseen = pipe.validation_.take(pipe.fitted_.held_out)
    said = pipe.calibrator_.predict(unseen)
    correct = said.predicted == unseen.labels
    assert pipe.threshold_ == choose_threshold(confidence=said.confidence, correct=correct, target_risk=0.3)


def test_in_tagging_the_threshold_is_chosen_by_the_entities_of_the_held_out_sentences(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")
    validation = said_by_the_model(pipe, 30, start=100, wrong_every=30)

    pipe.fit(ROWS[WORDS](20), validation, n_neighbors=N_NEIGHBORS, target_risk=0.5)

    sentences = np.unique(pipe.validation_.groups[pipe.fitted_.held_out])
    answers = pipe([validation[number] for number in sentences])
    assert pipe.threshold_.n == sum(len(answer.entities) for answer in answers)


def test_the_split_keeps_sentences_whole(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")
    validation = said_by_the_model(pipe, 30, start=100, wrong_every=30)

    pipe.fit(ROWS[WORDS](20), validation, n_neighbors=N_NEIGHBORS, target_risk=0.5)

    groups, held_out = pipe.validation_.groups, pipe.fitted_.held_out
    assert not set(groups[held_out]) & set(groups[~held_out])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a precision of")
def test_only_the_seed_decides_which_rows_are_held_out(models):
    held_out = [
        fit(models[TEXT], TEXT, method="temperature", target_risk=0.5, seed=seed).fitted_.held_out.tolist()
        for seed in (0, 0, 1)
    ]

    assert held_out[0] == held_out[1] != held_out[2]


def test_where_no_threshold_qualifies_a_warning_says_so_and_everything_abstains(models):
    with pytest.warns(
        UserWarning, match=r"about [\d,]+ more are needed for 99 %; the model will abstain on every input"
    ):
        pipe = fit(models[TEXT], TEXT, target_risk=0.01)

    assert all(answer.abstained for answer in pipe(ROWS[TEXT](10)))


@pytest.mark.parametrize("task", [TEXT, PAIR])
def test_with_coverage_answers_carry_a_set_of_labels_that_survives_saving(task, models, tmp_path):
    pipe = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")
    validation = said_by_the_model(pipe, 100, start=100, wrong_every=100)

    promises = {"target_precision": 0.5, "delta": 0.4, "coverage": 0.9, "set_method": "aps"}
    pipe.fit(ROWS[task](60), validation, n_neighbors=N_NEIGHBORS, **promises)

    pipe.save(tmp_path / "ue")
    given = pipe(ROWS[task](5, start=900))
    again = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")(ROWS[task](5, start=900))
    assert all(set(answer.set) <= set(pipe.class_names) for answer in given)
    assert [answer.to_dict()["set"] for answer in again] == [list(answer.set) for answer in given]
    assert ["at least 50 %" in pipe.promises[0], "at least 90 % of the rows" in pipe.promises[1]] == [True, True]


def test_in_tagging_a_coverage_is_refused_before_anything_is_read(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")

    with pytest.raises(InvalidInputError, match="coverage is for texts and pairs"):
        pipe.fit([], [], coverage=0.9)

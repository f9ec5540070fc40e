"""Answers of a model that cannot be opened, from rows to scores: in Python and from the shell."""

import csv
import json
import warnings

import numpy as np
import pytest

from cli_files import read_lines, run, write_rows
from knn_ue import metrics
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.toy import given_answers


def rows_of(outputs, **more):
    names = outputs.class_names
    return [
        {"text": text, "answer": names[answer], "label": names[label], "id": number, **more}
        for number, (text, answer, label) in enumerate(
            zip(outputs.texts, outputs.predicted, outputs.labels, strict=True)
        )
    ]


@pytest.fixture(scope="module")
def rows():
    labeled, test = given_answers(n_labeled=240, n_test=200, seed=2)
    return rows_of(labeled), rows_of(test)


@pytest.fixture(scope="module")
def pipe(rows):
    return UncertaintyPipeline.from_answers().fit(rows[0])


def asked(row):
    return {key: row[key] for key in ("text", "answer")}


def test_scores_rank_answers_that_were_never_seen(pipe, rows):
    answers = pipe([asked(row) for row in rows[1]])

    right = np.array([row["answer"] == row["label"] for row in rows[1]])
    assert metrics.auroc(confidence=np.array([answer.score for answer in answers]), correct=right) > 0.9
    assert [answer.label for answer in answers] == [row["answer"] for row in rows[1]]
    assert answers[0].raw_score is None and answers[0].alternatives


def test_an_answer_outside_the_list_is_scored_under_its_own_words(pipe):
    (refusal,) = pipe({"text": "a new match by goal", "answer": "I cannot say"})

    assert refusal.label == "I cannot say"
    assert refusal.score < 0.2


def test_a_folder_gives_the_same_answers_and_adapts(pipe, rows, tmp_path):
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue")

    assert loaded(asked(rows[1][0])) == pipe(asked(rows[1][0]))
    assert loaded.adapt(rows[1][:60], domain="later").main.n == 60


def test_evaluate_has_every_metric_beside_trusting_all_answers(pipe, rows):
    found = pipe.evaluate(rows[1])

    assert list(found) == ["raw", "constant", "regression", "regression per answer", "verdict"]
    assert found["raw"]["auroc"] == 0.5
    assert found.notes[0].startswith("the verifier pays: E-AURC ×1000") and found.notes[0] in str(found)


def test_rows_that_were_sampled_keep_what_was_answered_so_that_they_can_be_adapted_to(pipe, rows):
    (drawn, *_) = pipe.sample(rows[1], 5)

    line = drawn.to_dict(pipe.task)
    assert line["answer"] in pipe.class_names and line["label"] is None


def test_an_explanation_has_the_words_that_were_answered(pipe):
    (why,) = pipe.explain({"text": "a new match by goal", "answer": "I cannot say", "confidence": 0.9})

    assert why.label == "I cannot say" and why.raw_score == pytest.approx(0.9)


def test_what_is_about_something_else_is_unfamiliar(rows):
    pipe = UncertaintyPipeline.from_answers().fit(rows[0], false_alarm_rate=0.05)
    strange = {"text": "the committee resumed its negotiations about the annual budget", "answer": "food"}

    answers = pipe([strange, *map(asked, rows[1])])

    assert answers[0].unfamiliar
    assert np.mean([answer.unfamiliar for answer in answers[1:]]) < 0.15
    assert "Unlike the labeled inputs" in str(pipe.explain(strange)[0])


def test_a_likelier_label_is_suggested_where_it_is_asked_for(pipe, rows):
    before, after = pipe.calibrator_.suggestion_gain()

    plain, suggesting = pipe([asked(row) for row in rows[1]]), pipe([asked(row) for row in rows[1]], suggest=True)

    corrected = [answer.suggested or answer.label for answer in suggesting]
    right = np.mean([label == row["label"] for label, row in zip(corrected, rows[1], strict=True)])
    assert after > before and right > np.mean([row["answer"] == row["label"] for row in rows[1]])
    assert right == pytest.approx(after, abs=0.08)
    assert all(answer.suggested is None for answer in plain)


def test_several_samples_say_how_sure_a_model_is(pipe, rows):
    sampled = [{**row, "samples": [row["answer"]] * (3 if number % 2 else 5)} for number, row in enumerate(rows[0])]
    del sampled[0]["answer"]

    answers = UncertaintyPipeline.from_answers().fit(sampled)(sampled[:2])

    assert [answer.raw_score for answer in answers] == [pytest.approx(5.5 / 6), pytest.approx(3.5 / 4)]


def test_answers_that_are_wrong_by_case_alone_are_named(rows):
    loud = [{**row, "answer": f"{row['answer'].title()}."} for row in rows[0]]

    with pytest.warns(
        FitWarning, match=r"240 answers are a label in other case .* and count as wrong: write them alike"
    ):
        UncertaintyPipeline.from_answers().fit(loud)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ""])
def test_rows_without_a_label_are_left_out_and_counted(rows, tmp_path, suffix):
    some = [{**row, "label": row["label"] if number % 3 else None} for number, row in enumerate(rows[0])]
    given = some
    if suffix == ".jsonl":
        given = write_rows(tmp_path / "some.jsonl", some)
    elif suffix:
        given = tmp_path / "some.csv"
        with given.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, some[0])
            table.writeheader()
            table.writerows(some)

    with pytest.warns(FitWarning, match="80 rows have no label and are left out of the fit"):
        pipe = UncertaintyPipeline.from_answers().fit(given)

    assert len(pipe.validation_) == 160


def test_another_fault_of_a_row_is_not_left_out(rows, tmp_path):
    faulty = write_rows(tmp_path / "faulty.jsonl", [*rows[0], {"text": "", "answer": "food", "label": "food"}])

    with pytest.raises(InvalidInputError, match="text must not be empty"):
        UncertaintyPipeline.from_answers().fit(faulty)


def test_too_few_rows_are_refused_with_the_number_that_is_needed(rows):
    with pytest.raises(InvalidInputError, match=r"49 labeled answers are too few .* at least 50 are needed"):
        UncertaintyPipeline.from_answers().fit(rows[0][:49])
    with pytest.raises(InvalidInputError, match="so 100 in all"):
        UncertaintyPipeline.from_answers().fit(rows[0][:60], target_risk=0.1)


def test_two_sets_or_outputs_are_refused(rows, pipe):
    with pytest.raises(InvalidInputError, match=r"one set of labeled rows, got two: pass fit\(rows\)"):
        UncertaintyPipeline.from_answers().fit(rows[0], rows[1])
    with pytest.raises(InvalidInputError, match="got Outputs: pass rows"):
        UncertaintyPipeline.from_answers().fit(pipe.validation_)


def test_pairs_have_answers_too(rows):
    pairs = [{**row, "premise": row["text"], "hypothesis": "it is about " + row["label"]} for row in rows[0]]

    pipe = UncertaintyPipeline.from_answers(task="pair").fit(pairs)

    (answer,) = pipe({key: pairs[0][key] for key in ("premise", "hypothesis", "answer")})
    assert 0 <= answer.score <= 1


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    place = tmp_path_factory.mktemp("answers")
    with (place / "answered.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["id", "text", "reply", "label"])
        table.writeheader()
        for row in rows[0]:
            table.writerow({"id": row["id"], "text": row["text"], "reply": row["answer"], "label": row["label"]})
    fitted = run("fit", "--answers", place / "answered.csv", "--answer-column", "reply", "--out", place / "ue")
    assert fitted.exit_code == 0, fitted.output
    return place


def test_the_shell_fits_on_a_table_and_scores_a_file_row_by_row(folder, rows, pipe):
    new = write_rows(folder / "new.jsonl", [{"id": row["id"], **asked(row)} for row in rows[1][:5]])

    result = run("predict", folder / "ue", "--input", new, "--output", folder / "scored.jsonl")

    lines = read_lines(folder / "scored.jsonl")
    assert result.exit_code == 0
    assert [line["id"] for line in lines] == [0, 1, 2, 3, 4]
    assert {"answer", "score", "alternatives", "abstained"} <= lines[0].keys()
    assert lines[0]["score"] == pipe(asked(rows[1][0]))[0].score


def test_the_shell_suggests_where_it_is_asked_to_and_not_on_a_cluster(folder, rows):
    new = write_rows(folder / "doubtful.jsonl", [asked(row) for row in rows[1]])
    arguments = ("predict", folder / "ue", "--input", new, "--output", folder / "suggested.jsonl", "--suggest")

    assert "leave it out with --engine ray" in run(*arguments, "--engine", "ray").output
    assert run(*arguments).exit_code == 0

    lines = read_lines(folder / "suggested.jsonl")
    suggested = [line for line in lines if "suggested" in line]
    assert suggested and all(line["alternatives"][line["suggested"]] > line["score"] for line in suggested)


def test_the_shell_explains_a_given_answer(folder):
    result = run("explain", folder / "ue", "a new match by goal", "--answer", "food", "--json")

    (why,) = json.loads(result.stdout)
    assert why["in_words"]["verdict"].startswith("Of the labeled answers")
    assert why["in_words"]["own"] == "The model that gave the answer did not say how sure it is."
    assert "pass --answer A for each" in run("explain", folder / "ue", "a text").output


def test_the_shell_says_what_a_fit_needs(folder):
    missing = run("fit", "--out", folder / "other")
    both = run("fit", "model", "--answers", folder / "answered.csv", "--out", folder / "other")

    assert "fit needs MODEL, --train and --validation, or --answers" in missing.output
    assert "--answers takes the place of MODEL" in both.output


def test_a_threshold_is_fitted_on_rows_that_the_verifier_has_not_seen(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = UncertaintyPipeline.from_answers().fit(rows[0], target_risk=0.2)

    assert pipe.threshold_.n == 120 and int((~pipe.fitted_.held_out).sum()) == 120


@pytest.mark.filterwarnings("ignore:a precision of")
def test_equal_texts_are_held_out_together_or_not_at_all():
    rng = np.random.default_rng(5)
    words = [
        " ".join(rng.choice(["good", "bad", "film", "story", "great", "awful", "actor", "plot", "slow", "funny"], 8))
        for _ in range(80)
    ]
    tossed = [{"text": x, "answer": str(rng.integers(2)), "label": str(rng.integers(2))} for x in words]

    pipe = UncertaintyPipeline.from_answers().fit([*tossed, *tossed], target_precision=0.8)

    texts, held_out = np.array(pipe.validation_.texts), pipe.fitted_.held_out
    assert held_out.sum() == 80
    assert not set(texts[held_out]) & set(texts[~held_out])

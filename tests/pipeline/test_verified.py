"""The verifier beside a model that one can open: what it adds, when it is left out, and that a folder keeps it."""

import json

import numpy as np
import pytest

from cli_files import run, write_rows
from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.verifying import READERS, WordVectors
from pipelines import PAIR, TEXT, WORDS
from tiny_models import ROWS, pair_rows, text_rows

FEW = {"n_neighbors": 8}


def noisy(rows, seed=0):
    flips = np.random.default_rng(seed).random(len(rows)) < 0.5
    return [row | {"label": "pos" if flip else "neg"} for row, flip in zip(rows, flips, strict=True)]


def fitted(model, task=TEXT, **options):
    pipe = UncertaintyPipeline.from_pretrained(model, task, device="cpu")
    rows = ROWS[task]
    return pipe.fit(rows(80), rows(80, start=100), **(FEW | {"verifier": "instant"} | options))


@pytest.fixture(scope="module")
def model(models):
    return models[TEXT]


@pytest.fixture(scope="module")
def pipe(model):
    return fitted(model)


def test_right_answers_of_a_model_that_guesses_score_higher(pipe):
    rows = text_rows(60, start=300)
    answers = pipe(rows)

    right = np.array([answer.label == row["label"] for answer, row in zip(answers, rows, strict=True)])
    scores = np.array([answer.score for answer in answers])
    assert 0.2 < right.mean() < 0.8
    assert metrics.auroc(confidence=scores, correct=right) > 0.95


def test_predictions_stay_the_models_own(pipe, model):
    rows = text_rows(20, start=300)

    plain = fitted(model, verifier=None)(rows)

    assert [answer.label for answer in pipe(rows)] == [answer.label for answer in plain]
    assert [answer.neighbors for answer in pipe(rows)] == [answer.neighbors for answer in plain]


def test_a_folder_gives_the_same_answers(pipe, tmp_path):
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    rows = text_rows(10, start=300)
    assert [answer.to_dict() for answer in loaded(rows)] == [answer.to_dict() for answer in pipe(rows)]
    assert loaded.calibrator_.gain == pipe.calibrator_.gain


def test_examples_that_are_added_to_a_folder_are_found_beside_the_verifier(pipe, tmp_path):
    pipe.save(tmp_path / "ue")
    added = text_rows(1, start=500)

    run("index", "add", tmp_path / "ue", "--input", write_rows(tmp_path / "more.jsonl", added))

    (answer,) = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")(added[0]["text"])
    assert answer.neighbors[0].text == added[0]["text"]


def test_evaluate_shows_the_method_with_and_without_it(pipe):
    table = pipe.evaluate(text_rows(60, start=300)).tables["test"]

    assert list(table.scores) == ["raw", "knn-ue", "knn-ue + verifier"]
    assert table["knn-ue + verifier"]["e_aurc"] < table["knn-ue"]["e_aurc"]


def test_the_explanation_says_what_the_verifier_would_answer(pipe):
    (why,) = pipe.explain("the film number 7 was brilliant indeed")

    words = why.to_dict()["in_words"]
    assert "answer" in words["verifier"] and "pos" in words["verifier"]
    assert why.verifier["pos"] > 0.8
    assert f"from {100 * why.unverified_score:.1f} %" in words["verifier"]


def test_another_index_keeps_the_verifier(pipe):
    before = pipe.calibrator_.join_.params

    pipe.use_index("exact")

    assert pipe.calibrator_.kind == "verified"
    assert pipe.calibrator_.join_.params == before


def other_topic(n_rows, *, start=0):
    """Return rows of a domain whose words the training rows do not have."""
    words = {"pos": ("sturdy", "silent"), "neg": ("leaky", "noisy")}
    return [
        {"text": f"kettle {number} is {words[label][number // 2 % 2]}", "label": label}
        for number, label in ((n, "pos" if n % 2 else "neg") for n in range(start, start + n_rows))
    ]


def scores_of(pipe, rows, **options):
    answers = pipe(rows, **options)
    right = np.array([answer.label == row["label"] for answer, row in zip(answers, rows, strict=True)])
    return np.array([answer.score for answer in answers]), right


def test_labels_of_another_domain_teach_its_verifier(pipe, tmp_path):
    pipe.save(tmp_path / "ue")
    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")
    adaptation = loaded.adapt(other_topic(60), domain="kettles")
    loaded.save(tmp_path / "ue")

    again = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    rows = other_topic(40, start=200)
    scores, right = scores_of(again, rows, domain="kettles")
    assert adaptation.verifier.applied and "verifier: E-AURC" in str(adaptation)
    assert metrics.auroc(confidence=scores, correct=right) > 0.95
    np.testing.assert_array_equal(scores, scores_of(loaded, rows, domain="kettles")[0])
    np.testing.assert_array_equal(scores_of(again, rows)[0], scores_of(pipe, rows)[0])


def test_a_domain_may_have_a_verifier_where_the_folder_has_none(model):
    plain = fitted(model, verifier=None)

    plain.adapt(other_topic(60), domain="kettles", verifier="instant")

    scores, right = scores_of(plain, other_topic(40, start=200), domain="kettles")
    assert metrics.auroc(confidence=scores, correct=right) > 0.95
    (why,) = plain.explain("kettle 300 is silent", domain="kettles")
    assert why.verifier["pos"] > 0.8


def test_labels_that_come_later_join_those_of_the_domain(model):
    plain = fitted(model, verifier=None)
    first = plain.adapt(other_topic(30), domain="kettles", verifier="instant")
    both = plain.adapt(other_topic(30, start=30), domain="kettles", verifier="instant", add=True)

    assert first.verifier is None
    assert both.verifier.n == 60 and both.verifier.applied


def test_where_labels_are_noise_auto_leaves_it_out(model):
    pipe = UncertaintyPipeline.from_pretrained(model, TEXT, device="cpu")

    pipe.fit(noisy(text_rows(80)), noisy(text_rows(80, start=100), seed=1), verifier="auto", **FEW)

    assert pipe.calibrator_.kind == "knn-ue"
    assert not pipe.fitted_.verifier_gain.pays


def test_where_it_ranks_better_auto_keeps_it(model):
    pipe = fitted(model, verifier="auto", method="temperature")

    assert pipe.calibrator_.kind == "verified"
    assert pipe.calibrator_.gain.after < pipe.calibrator_.gain.before
    assert str(pipe.calibrator_.gain).startswith("verifier: E-AURC x1000 ")


def test_pairs_are_read_too(models):
    pipe = fitted(models[PAIR], PAIR)

    answers = pipe(pair_rows(9, start=300))

    assert all(0 < answer.score < 1 for answer in answers)


def test_a_threshold_is_chosen_on_scores_with_the_verifier(model):
    pipe = fitted(model, target_risk=0.2)

    scores = pipe.calibrator_.predict(pipe.validation_).confidence
    assert pipe.threshold_.found
    assert (scores >= pipe.threshold_.threshold).any()


@pytest.fixture(scope="module")
def letters():
    """A reader of words that sees their letters, known by its name."""

    def counted(sentences):
        return [
            [float(word.count(chr(97 + n))) for n in range(26)] + [float(word[0].isupper())]
            for words in sentences
            for word in words
        ]

    READERS["letters"] = lambda: WordVectors("letters", counted)
    yield "letters"
    del READERS["letters"]


@pytest.mark.parametrize("method", ["knn-ue-entity", "entity-scores"])
def test_a_tagger_s_entities_are_verified_too(models, letters, method, tmp_path):
    pipe = fitted(models[WORDS], WORDS, method=method, verifier=letters, index="exact")
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    rows = ROWS[WORDS](20, start=300)
    assert loaded.calibrator_.kind == "verified-entities"
    assert [one.to_dict() for one in loaded(rows)] == [one.to_dict() for one in pipe(rows)]
    said = [
        reason for one in pipe(rows) for entity in one.entities for reason in (*entity.raised_by, *entity.lowered_by)
    ]
    assert any(reason.startswith("the verifier reads ") for reason in said)
    plain = pipe.calibrator_.plain.read(pipe.outputs(rows)).scores
    assert not np.array_equal(plain, pipe.calibrator_.read(pipe.outputs(rows)).scores)


def test_the_verifier_of_a_tagger_needs_scores_of_entities(models, letters):
    with pytest.raises(InvalidInputError, match="such as knn-ue-entity"):
        fitted(models[WORDS], WORDS, method="temperature", verifier=letters)


def test_a_reader_of_texts_cannot_read_words(models):
    with pytest.raises(InvalidInputError, match="gives no word vectors"):
        fitted(models[WORDS], WORDS, method="entity-scores", verifier="instant")


def test_the_command_says_what_it_gains(model, tmp_path):
    train, validation = (write_rows(tmp_path / f"{n}.jsonl", text_rows(80, start=n)) for n in (0, 100))
    arguments = ["--train", train, "--validation", validation, "--out", tmp_path / "ue", "--neighbors", "8"]

    said = run("fit", model, *arguments, "--verifier", "instant").stdout
    record = json.loads(run("fit", model, *arguments, "--verifier", "auto", "--json", "--overwrite").stdout)

    assert "verifier: E-AURC x1000 " in said
    assert record["verifier"]["pays"]

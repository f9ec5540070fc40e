"""`UncertaintyPipeline` on tiny models: equal to the arrays path, abstaining, streaming, safe on disk."""

import json
import os
import shutil
from collections.abc import Iterator

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.arrays import softmax
from knn_ue.calibrators import KnnUE
from knn_ue.data import PairRow, TaggedRow, TextRow
from knn_ue.datastore import Datastore
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import InvalidInputError, NotFittedError, StorageError
from knn_ue.methods import METHODS
from knn_ue.pipeline import UncertaintyPipeline
from tiny_models import CLASS_NAMES, ROWS, TASKS, save_tiny_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
torch.set_num_threads(1)

TEXT, PAIR, WORDS = TASKS
N_NEIGHBORS = 8


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Model folders by task: BERT for texts and words, RoBERTa for pairs."""
    folder = tmp_path_factory.mktemp("models")
    families = {TEXT: "bert", PAIR: "roberta", WORDS: "bert"}
    return {task: save_tiny_model(folder / task, family=families[task], task=task) for task in TASKS}


@pytest.fixture(scope="module")
def fitted(models):
    """Pipelines by task, fitted by kNN-UE; tests that refit or save in place make their own."""
    return {task: fit(models[task], task) for task in TASKS}


def fit(model, task, **options):
    pipe = UncertaintyPipeline.from_pretrained(model, task, device="cpu")
    rows = ROWS[task]
    return pipe.fit(rows(60), rows(40, start=100), **({"n_neighbors": N_NEIGHBORS} | options))


def said_by_the_model(pipe, n_rows, *, start, wrong_every):
    """Return rows labelled with the model's own answers, but every `wrong_every`-th row with another one."""
    rows = [dict(row) for row in ROWS[pipe.task](n_rows, start=start)]
    predicted = iter(pipe.outputs(rows).predicted.tolist())
    for number, row in enumerate(rows):
        off = number % wrong_every == 0
        names = [pipe.class_names[next(predicted) - off] for _ in row.get("tokens", [0])]
        row["tags" if "tokens" in row else "label"] = names if "tokens" in row else names[0]
    return rows


def scores_of(answers):
    return [word["score"] for answer in answers for word in answer.get("words", [answer])]


# --- what it answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_scores_equal_those_computed_by_hand_from_arrays(task, models, fitted):
    encoder = HuggingFaceEncoder.from_pretrained(models[task], task, device="cpu")
    rows = ROWS[task]
    train, validation, test = (encoder.encode(part) for part in (rows(60), rows(40, start=100), rows(12, start=300)))
    by_hand = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=N_NEIGHBORS).fit(validation)

    answers = fitted[task](rows(12, start=300))

    np.testing.assert_allclose(scores_of(answers), by_hand.predict_proba(test).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_raw_scores_are_the_models_own_softmax(task, fitted):
    rows = ROWS[task](12, start=300)

    answers = fitted[task](rows)

    raw = [word["raw_score"] for answer in answers for word in answer.get("words", [answer])]
    np.testing.assert_allclose(raw, softmax(fitted[task].outputs(rows).logits).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("task", [TEXT, PAIR])
def test_the_label_is_the_models_own(task, fitted):
    rows = ROWS[task](12, start=300)

    answers = fitted[task](rows)

    expected = [CLASS_NAMES[task][number] for number in fitted[task].outputs(rows).predicted]
    assert [answer["label"] for answer in answers] == expected


@pytest.mark.parametrize("task", TASKS)
def test_answers_can_be_written_as_json(task, fitted):
    answers = fitted[task](ROWS[task](3), abstain_below=0.5)

    assert json.loads(json.dumps(answers)) == answers


@pytest.mark.parametrize("task", TASKS)
def test_streaming_equals_calling(task, fitted):
    rows = ROWS[task](9, start=300)

    streamed = list(fitted[task].predict_stream(iter(rows)))

    np.testing.assert_allclose(scores_of(streamed), scores_of(fitted[task](rows)), rtol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_windows_of_any_size_give_the_same_answers(task, fitted, monkeypatch):
    rows = ROWS[task](9, start=300)
    expected = fitted[task](rows)
    monkeypatch.setattr("knn_ue.pipeline.core._BATCHES_AT_ONCE", 1 / 16)

    streamed = list(fitted[task].predict_stream(rows))

    np.testing.assert_allclose(scores_of(streamed), scores_of(expected), rtol=1e-5)


def test_a_stream_reads_no_more_than_one_window_ahead(fitted):
    read = []

    def endless() -> Iterator[str]:
        while True:
            read.append("a great film")
            yield read[-1]

    next(fitted[TEXT].predict_stream(endless()))

    assert len(read) == 32 * 32


def test_one_string_gives_a_list_with_one_answer(fitted):
    assert len(fitted[TEXT]("a great film")) == 1


def test_no_input_gives_no_answer(fitted):
    assert [fitted[task]([]) for task in TASKS] == [[], [], []]


def test_pairs_may_be_dicts_tuples_or_records(fitted):
    pair = ("Ada was great", "Ada was not great")
    as_dict = {"premise": pair[0], "hypothesis": pair[1]}

    answers = [fitted[PAIR](inputs) for inputs in (pair, [pair], as_dict, PairRow(*pair))]

    assert answers[0] == answers[1] == answers[2] == answers[3]


@pytest.mark.parametrize(
    ("task", "as_dicts", "as_tuples", "as_records"),
    [
        (TEXT, {"text": "a film", "label": "neg"}, ("a film", "neg"), TextRow("a film", "neg")),
        (
            PAIR,
            {"premise": "Ada was", "hypothesis": "great", "label": "neutral"},
            ("Ada was", "great", "neutral"),
            PairRow("Ada was", "great", "neutral"),
        ),
        (
            WORDS,
            {"tokens": ["Ada", "was"], "tags": ["B-PER", "O"]},
            (["Ada", "was"], ["B-PER", "O"]),
            TaggedRow(("Ada", "was"), ("B-PER", "O")),
        ),
    ],
)
def test_labelled_rows_may_be_dicts_tuples_or_records(task, as_dicts, as_tuples, as_records, fitted):
    labels = [fitted[task].outputs([row]).labels.tolist() for row in (as_dicts, as_tuples, as_records)]

    assert labels[0] == labels[1] == labels[2] != []


def test_rows_may_be_the_name_of_a_file(tmp_path, fitted):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[TEXT](4)), encoding="utf-8")

    streamed = list(fitted[TEXT].predict_stream(path))

    assert streamed == fitted[TEXT](ROWS[TEXT](4))


def test_neighbors_are_training_texts_with_their_labels(fitted):
    (answer,) = fitted[TEXT](ROWS[TEXT](1)[0]["text"], top=3)

    first = answer["neighbors"][0]
    assert len(answer["neighbors"]) == 3
    assert (first["id"], first["label"], first["text"]) == (0, "neg", ROWS[TEXT](1)[0]["text"])
    assert first["distance"] == pytest.approx(0, abs=1e-4)


def test_top_zero_leaves_the_neighbors_out(fitted):
    assert fitted[TEXT]("a great film", top=0)[0]["neighbors"] == []


def test_a_neighbor_agrees_when_it_carries_the_answer(fitted):
    (answer,) = fitted[TEXT]("a great film")

    assert all(near["agrees"] == (near["label"] == answer["label"]) for near in answer["neighbors"])


# --- tagging ---------------------------------------------------------------------------------------------------


def test_every_word_of_every_sentence_comes_back_in_order(fitted):
    sentences = [["Ada", "went"], [], ["to", "Oslo", "Oslo"], ["\u200b"], ["word"] * 90]

    answers = fitted[WORDS](sentences)

    assert [[word["word"] for word in answer["words"]] for answer in answers] == sentences


def test_a_sentence_may_be_a_string(fitted):
    (answer,) = fitted[WORDS]("Ada went to Oslo")

    assert [word["word"] for word in answer["words"]] == ["Ada", "went", "to", "Oslo"]


def test_entities_are_those_of_the_tags(fitted):
    answers = fitted[WORDS](ROWS[WORDS](5, start=300))

    for answer in answers:
        expected = metrics.extract_entities([word["tag"] for word in answer["words"]])
        assert [(e["type"], e["start"], e["end"] - 1) for e in answer["entities"]] == expected


def test_an_entity_scores_the_product_of_its_words(fitted):
    entities = [(e, a["words"][e["start"] : e["end"]]) for a in fitted[WORDS](ROWS[WORDS](5)) for e in a["entities"]]

    assert len(entities) > 0
    for entity, words in entities:
        assert entity["score"] == pytest.approx(np.prod([word["score"] for word in words]))
        assert entity["text"] == " ".join(word["word"] for word in words)


def test_an_entity_shows_the_neighbors_of_its_first_word(fitted):
    sentence = ROWS[WORDS](1)[0]["tokens"]

    (answer,) = fitted[WORDS]([sentence], top=1)

    nearest = [entity["neighbors"][0] for entity in answer["entities"]]
    assert [near["id"] for near in nearest] == [entity["start"] for entity in answer["entities"]]


def test_a_sentence_without_entities_has_none(models, fitted):
    pipe = fitted[WORDS]

    (answer,) = pipe([[]])

    assert answer == {"words": [], "entities": []}


def test_words_of_a_tagger_without_entities_abstain_one_by_one(tmp_path):
    names = ("DET", "NOUN", "VERB")
    model = save_tiny_model(tmp_path / "pos", family="bert", task=WORDS, class_names=names)
    rows = [{"tokens": ["the", "film", "was"], "tags": list(names)}] * 5
    pipe = UncertaintyPipeline.from_pretrained(model, WORDS, device="cpu").fit(rows, rows, n_neighbors=2)

    (answer,) = pipe([["the", "film"]], abstain_below=1.0)

    assert [(word["tag"], word["abstained"]) for word in answer["words"]] == [(None, True)] * 2
    assert answer["entities"] == []


# --- abstention ------------------------------------------------------------------------------------------------


def test_below_the_threshold_the_answer_moves_to_would_be(fitted):
    rows = ROWS[TEXT](10, start=300)
    usual = fitted[TEXT](rows)
    middle = float(np.median([answer["score"] for answer in usual]))

    answers = fitted[TEXT](rows, abstain_below=middle)

    assert (
        [a["label"] is None for a in answers]
        == [a["abstained"] for a in answers]
        == [a["score"] < middle for a in usual]
    )
    assert [a["would_be"] if a["abstained"] else a["label"] for a in answers] == [a["label"] for a in usual]


def test_without_a_threshold_nothing_abstains(fitted):
    assert not any(answer["abstained"] for answer in fitted[TEXT](ROWS[TEXT](10)))


def test_an_abstained_entity_takes_its_words_along(fitted):
    (answer,) = fitted[WORDS](ROWS[WORDS](1), abstain_below=1.0)

    inside = {n for e in answer["entities"] for n in range(e["start"], e["end"])}
    assert inside and all(entity["type"] is None for entity in answer["entities"])
    assert {n for n, word in enumerate(answer["words"]) if word["tag"] is None} == inside


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), True])
def test_a_threshold_that_is_no_probability_is_refused(value, fitted):
    with pytest.raises(InvalidInputError, match=r"abstain_below must lie within \[0, 1\]"):
        fitted[TEXT]("a film", abstain_below=value)


@pytest.mark.parametrize("task", TASKS)
def test_target_risk_gives_a_threshold_that_the_answers_obey(task, models):
    pipe = UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")
    validation = said_by_the_model(pipe, 200, start=100, wrong_every=100)

    pipe.fit(ROWS[task](60), validation, n_neighbors=N_NEIGHBORS, target_risk=0.6)

    answers = pipe(ROWS[task](20, start=900))
    given = [unit for answer in answers for unit in answer.get("entities", [answer])]
    assert pipe.threshold_.found
    assert [x["abstained"] for x in given] == [x["score"] < pipe.threshold_.threshold for x in given]


@pytest.mark.filterwarnings("ignore:no threshold")
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


def test_the_split_keeps_sentences_whole(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")
    validation = said_by_the_model(pipe, 30, start=100, wrong_every=30)

    pipe.fit(ROWS[WORDS](20), validation, n_neighbors=N_NEIGHBORS, target_risk=0.5)

    groups, held_out = pipe.validation_.groups, pipe.fitted_.held_out
    assert not set(groups[held_out]) & set(groups[~held_out])


@pytest.mark.filterwarnings("ignore:no threshold")
def test_only_the_seed_decides_which_rows_are_held_out(models):
    held_out = [
        fit(models[TEXT], TEXT, method="temperature", target_risk=0.5, seed=seed).fitted_.held_out.tolist()
        for seed in (0, 0, 1)
    ]

    assert held_out[0] == held_out[1] != held_out[2]


def test_where_no_threshold_qualifies_a_warning_says_so_and_everything_abstains(models):
    with pytest.warns(UserWarning, match=r"20 rows are too few, at least 230 are needed; every answer will be"):
        pipe = fit(models[TEXT], TEXT, target_risk=0.01)

    assert all(answer["abstained"] for answer in pipe(ROWS[TEXT](10)))


# --- evaluate and explain --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_evaluate_measures_the_method_beside_the_raw_model(task, fitted):
    rows = ROWS[task](12, start=300)

    evaluation = fitted[task].evaluate(rows, out_of_domain={"far": ROWS[task](6, start=900)})

    outputs = fitted[task].outputs(rows)
    assert evaluation["knn-ue"]["accuracy"] == pytest.approx((outputs.predicted == outputs.labels).mean())
    assert {"raw", "knn-ue"} == set(evaluation.tables["far"].scores)


def test_an_out_of_domain_set_with_other_labels_is_only_told_apart(fitted):
    far = [{"text": "a great film", "label": "sarcastic"}, {"text": "a boring film", "label": "neg"}]

    evaluation = fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain=far)

    assert set(evaluation.tables) == {"test", "out_of_domain/detection"}


def test_an_out_of_domain_set_may_be_unlabelled(fitted):
    evaluation = fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain={"far": iter(["a film", "a dog"])})

    assert set(evaluation.tables) == {"test", "far/detection"}


def test_a_broken_line_out_of_domain_is_no_missing_label(fitted, tmp_path):
    (tmp_path / "far.jsonl").write_text('{"text": "fine", "label": "pos"}\n{"text": 5}\n', encoding="utf-8")

    with pytest.raises(InvalidInputError, match=r"far\.jsonl.*line 2.*text must be a string"):
        fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain=tmp_path / "far.jsonl")


def test_test_rows_with_an_unknown_label_are_refused(fitted):
    with pytest.raises(InvalidInputError, match="test row 0 has the label 'meh', which the model does not know"):
        fitted[TEXT].evaluate([("a film", "meh")])


def test_explain_agrees_with_the_answers(fitted):
    (explained,) = fitted[TEXT].explain("a great film")

    (answer,) = fitted[TEXT]("a great film")
    assert (explained.predicted_name, explained.confidence) == (answer["label"], answer["score"])


def test_explain_says_which_methods_have_explanations(models):
    pipe = fit(models[TEXT], TEXT, method="temperature")

    with pytest.raises(InvalidInputError, match="explain needs the method knn-ue or knn-ue-no-label"):
        pipe.explain("a film")


# --- methods and errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_fitted_saved_and_loaded(method, models, tmp_path):
    pipe = fit(models[TEXT], TEXT, method=method)
    expected = pipe(ROWS[TEXT](4, start=300))
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert loaded(ROWS[TEXT](4, start=300)) == expected


def test_the_encoder_gives_layers_only_to_the_method_that_needs_them(models):
    pipe = fit(models[TEXT], TEXT, method="dac")
    n_layers = len(pipe.validation_.layers)

    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40), method="temperature")

    assert (n_layers, pipe.validation_.layers) == (4, None)


def test_an_unfitted_pipeline_says_so(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    with pytest.raises(NotFittedError, match="UncertaintyPipeline is not fitted"):
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
        (ROWS[TEXT](9), ROWS[TEXT](1), {"target_risk": 0.1, "n_neighbors": 2}, "at least 2 validation rows"),
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

    means = neighbors.distances.mean(axis=1)
    agreement = (neighbors.labels == pipe.validation_.predicted[:, None]).mean(axis=1)
    assert pipe.drift_.distance[[0, 50, 100]] == pytest.approx([means.min(), np.median(means), means.max()])
    assert pipe.drift_.agreement[[0, 50, 100]] == pytest.approx(
        [agreement.min(), np.median(agreement), agreement.max()]
    )


# --- on disk ---------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(models, tmp_path):
    """Return a UE folder and the answers of the pipeline that wrote it; its model folder may be changed."""
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    pipe = fit(model, TEXT)
    pipe.save(tmp_path / "ue")
    return tmp_path / "ue", pipe(ROWS[TEXT](5, start=300))


def reload(folder):
    return UncertaintyPipeline.load(folder, device="cpu")(ROWS[TEXT](5, start=300))


@pytest.mark.parametrize("task", TASKS)
def test_a_moved_folder_gives_identical_answers_without_the_model_folder(task, models, tmp_path):
    model = shutil.copytree(models[task], tmp_path / "model")
    pipe = fit(model, task)
    expected = pipe(ROWS[task](5, start=300))
    pipe.save(tmp_path / "ue")
    shutil.rmtree(model)
    (tmp_path / "ue").rename(tmp_path / "moved")

    loaded = UncertaintyPipeline.load(tmp_path / "moved", device="cpu")

    assert loaded(ROWS[task](5, start=300)) == expected


def test_loading_brings_back_what_fit_left(models, tmp_path):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu", max_length=16, context_words=1)
    validation = said_by_the_model(pipe, 40, start=100, wrong_every=40)
    pipe.fit(ROWS[WORDS](20), validation, n_neighbors=4, target_risk=0.5)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert (loaded.threshold_, loaded.encoder.options) == (pipe.threshold_, pipe.encoder.options)
    assert loaded.validation_.texts == pipe.validation_.texts
    for name in ("logits", "features", "labels", "groups"):
        np.testing.assert_array_equal(getattr(loaded.validation_, name), getattr(pipe.validation_, name))
    np.testing.assert_array_equal(loaded.fitted_.held_out, pipe.fitted_.held_out)
    np.testing.assert_array_equal(loaded.drift_.distance, pipe.drift_.distance)


def test_a_loaded_pipeline_can_be_saved_in_place(saved):
    folder, expected = saved

    UncertaintyPipeline.load(folder, device="cpu").save(folder)

    assert reload(folder) == expected


def test_a_loaded_pipeline_can_be_saved_elsewhere(saved, tmp_path):
    folder, expected = saved
    UncertaintyPipeline.load(folder, device="cpu").save(tmp_path / "copy")

    shutil.rmtree(folder)

    assert reload(tmp_path / "copy") == expected


def test_a_refitted_pipeline_replaces_what_the_folder_held(saved):
    folder, _ = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), method="temperature")

    pipe.save(folder)

    assert UncertaintyPipeline.load(folder, device="cpu").method_ == "temperature"
    assert len(list(folder.glob("calibrator.*"))) == len(list(folder.glob("model.*"))) == 1


def test_examples_added_to_a_loaded_store_are_there_after_saving_in_place(saved):
    folder, _ = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    pipe.calibrator_.store.add(np.zeros((1, 24)), [0], texts=["new"])

    pipe.save(folder)

    assert len(UncertaintyPipeline.load(folder, device="cpu").calibrator_.store) == 61


def test_large_files_of_the_model_take_no_space_twice(models, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.pipeline.model_files._COPIED_BYTES", 0)
    fit(models[TEXT], TEXT).save(tmp_path / "ue")

    (weights,) = tmp_path.glob("ue/model.*/files/model.safetensors")

    assert weights.samefile(models[TEXT] / "model.safetensors")


def test_where_links_are_impossible_the_model_is_copied(models, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr("knn_ue.pipeline.model_files._COPIED_BYTES", 0)
    monkeypatch.setattr(os, "link", refuse)
    pipe = fit(models[TEXT], TEXT)

    pipe.save(tmp_path / "ue")

    assert reload(tmp_path / "ue") == pipe(ROWS[TEXT](5, start=300))


def test_states_of_a_training_run_are_not_copied(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    for name in ("optimizer.pt", "training_args.bin", "pytorch_model.bin", ".hidden"):
        (model / name).write_bytes(b"x")
    fit(model, TEXT).save(tmp_path / "ue")

    (files,) = tmp_path.glob("ue/model.*/files")

    assert {path.name for path in files.iterdir()} == {path.name for path in models[TEXT].iterdir()}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_an_altered_model_file_is_found_out(name, saved):
    (file,) = saved[0].glob(f"model.*/files/{name}")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)

    with pytest.raises(StorageError, match="does not match its checksum"):
        reload(saved[0])


def test_a_file_slipped_into_the_model_is_found_out(saved):
    (files,) = saved[0].glob("model.*/files")
    (files / "modeling.py").write_text("", encoding="utf-8")

    with pytest.raises(StorageError, match=r"should not hold modeling\.py"):
        reload(saved[0])


def test_a_link_out_of_the_folder_is_found_out(saved):
    (file,) = saved[0].glob("model.*/files/config.json")
    file.rename(saved[0].parent / "config.json")
    file.symlink_to(saved[0].parent / "config.json")

    with pytest.raises(StorageError, match="does not match its checksum"):
        reload(saved[0])


def test_a_file_missing_from_the_model_is_found_out(saved):
    (file,) = saved[0].glob("model.*/files/config.json")
    file.unlink()

    with pytest.raises(StorageError, match=r"should hold config\.json"):
        reload(saved[0])


def test_a_model_that_changed_after_loading_is_not_saved(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    pipe = fit(model, TEXT)
    (model / "config.json").write_text("{}", encoding="utf-8")

    with pytest.raises(StorageError, match="was changed after it was loaded"):
        pipe.save(tmp_path / "ue")


def test_an_interrupted_save_leaves_what_was_there(saved, monkeypatch):
    folder, expected = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), method="temperature")
    before = sorted(path.name for path in folder.iterdir())

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("knn_ue.calibrators.base.write_folder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pipe.save(folder)
    monkeypatch.undo()

    assert sorted(path.name for path in folder.iterdir()) == before
    assert reload(folder) == expected


def test_a_folder_of_another_kind_is_refused(tmp_path):
    Datastore.build([[0.0], [1.0]], [0, 1]).save(tmp_path / "store")

    with pytest.raises(StorageError, match="holds a 'datastore', not a 'pipeline'"):
        UncertaintyPipeline.load(tmp_path / "store", device="cpu")


def test_a_model_of_the_hub_is_recorded_by_name(models, tmp_path, monkeypatch):
    monkeypatch.chdir(models[TEXT].parent)
    pipe = fit(models[TEXT], TEXT)
    pipe.source = type(pipe.source)(name=str(models[TEXT]), commit="abc")
    pipe.save(tmp_path / "ue")

    meta = json.loads((tmp_path / "ue" / "meta.json").read_text(encoding="utf-8"))

    assert meta["options"]["model"] == {"name": str(models[TEXT]), "commit": "abc"}
    assert set(meta["folders"]) == {"calibrator"}

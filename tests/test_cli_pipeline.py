"""train, fit, predict, evaluate, explain and index, on tiny models of all three tasks."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_files import TASKS, data_of, read_lines, run, write_rows
from marks import slow_but
from tiny_models import ROWS, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

__all__ = ["tiny_model"]


@dataclass(frozen=True)
class Files:
    name: str
    folder: Path
    train: Path
    validation: Path
    test: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def ue(self) -> Path:
        return self.folder / "ue"


@pytest.fixture(scope="module", params=slow_but("text", TASKS))
def files(request, tiny_model, tmp_path_factory) -> Files:
    """A model and a UE folder made by the commands themselves; no test may change them."""
    folder = tmp_path_factory.mktemp(request.param)
    made = Files(request.param, folder, *data_of(request.param, folder))
    encoder = tiny_model("bert", TASKS[request.param])
    options = ["--fast", "--epochs", 2, "--learning-rate", 0.01, "--max-length", 32, "--json"]
    trained = run("train", "--task", made.name, "--encoder", encoder, *_data(made), "--out", made.model, *options)
    assert trained.exit_code == 0, trained.output
    fitted = run("fit", made.model, *_data(made), "--out", made.ue, "--neighbors", 8, "--json")
    assert fitted.exit_code == 0, fitted.output
    return made


@pytest.fixture(scope="module")
def text(tiny_model, tmp_path_factory) -> Files:
    """A text classifier that was never trained, which is enough for most tests."""
    folder = tmp_path_factory.mktemp("text")
    made = Files("text", folder, *data_of("text", folder))
    model = tiny_model("bert", "text-classification")
    fitted = run("fit", model, *_data(made), "--out", made.ue, "--task", "text", "--neighbors", 8)
    assert fitted.exit_code == 0, fitted.output
    return made


def _data(files: Files) -> list[object]:
    return ["--train", files.train, "--validation", files.validation]


def _predict(files: Files, rows: list[object], tmp_path: Path, *options: object):
    source = write_rows(tmp_path / "input.jsonl", rows)
    result = run("predict", files.ue, "--input", source, "--output", tmp_path / "answers.jsonl", *options)
    assert result.exit_code == 0, result.output
    return read_lines(tmp_path / "answers.jsonl")


def test_predict_answers_every_row_in_order(files, tmp_path):
    rows = ROWS[TASKS[files.name]](20, start=200)

    answers = _predict(files, rows, tmp_path)

    keys = {"text": ["text"], "pair": ["premise", "hypothesis"], "ner": ["tokens"]}[files.name]
    given = [[row[key] for key in keys] for row in rows]
    if files.name == "ner":
        assert [[[word["word"] for word in answer["words"]]] for answer in answers] == given
    else:
        assert [[answer[key] for key in keys] for answer in answers] == given


def test_evaluate_prints_the_raw_model_beside_the_method_as_json(files):
    result = run("evaluate", files.ue, "--test", files.test, "--ood", files.train, "--json")

    tables = json.loads(result.stdout)["tables"]
    assert list(tables["test"]["scores"]) == ["raw", "temperature", "knn-ue"]
    assert "piece" in tables["test"]["scores"]["knn-ue"]
    assert {"test", "train", "train/detection"} <= set(tables)


@pytest.mark.parametrize(
    ("method", "shown"), [("softmax", ["raw", "temperature", "softmax"]), ("temperature", ["raw", "temperature"])]
)
def test_evaluate_shows_temperature_scaling_beside_every_method(text, tmp_path, method, shown):
    run("fit", text.ue, *_data(text), "--out", tmp_path / "ue", "--method", method)

    result = run("evaluate", tmp_path / "ue", "--test", text.test, "--json")

    assert list(json.loads(result.stdout)["tables"]["test"]["scores"]) == shown


def test_evaluate_prints_the_intervals_that_were_asked_for(text):
    tables = json.loads(run("evaluate", text.ue, "--test", text.test, "--bootstrap", 5, "--json").stdout)["tables"]
    low, high = tables["test"]["intervals"]["knn-ue"]["nll"]

    result = run("evaluate", text.ue, "--test", text.test, "--bootstrap", 5)

    assert f"{tables['test']['scores']['knn-ue']['nll']:.4f} ({low:.4f} to {high:.4f})" in result.stdout
    assert " to " not in run("evaluate", text.ue, "--test", text.test).stdout


def test_evaluate_counts_rows_by_their_sample_weight(text, tmp_path):
    rows = [row | {"sample_weight": 1 + number % 3} for number, row in enumerate(read_lines(text.test))]
    repeated = [row for number, row in enumerate(read_lines(text.test)) for _ in range(1 + number % 3)]
    files = [write_rows(tmp_path / "weighted.jsonl", rows), write_rows(tmp_path / "repeated.jsonl", repeated)]

    weighted, expected = (run("evaluate", text.ue, "--test", file, "--json") for file in files)

    found, whole = (json.loads(result.stdout)["tables"]["test"] for result in (weighted, expected))
    assert found["weighted"] and found["caption"] == "test: 30 rows, weighted"
    assert found["scores"]["knn-ue"]["ece"] == pytest.approx(whole["scores"]["knn-ue"]["ece"])


def test_explain_shows_neighbors_of_each_text(files):
    texts = {"text": ["a great film"], "pair": ["Ada was great", "Ada was not great"], "ner": ["Ada went to Oslo"]}

    result = run("explain", files.ue, *texts[files.name], "--top", 2, "--json")

    explained = json.loads(result.stdout)
    assert [len(row["neighbors"]) for row in explained] == [2] * (4 if files.name == "ner" else 1)


def test_index_add_remove_and_compact_change_what_is_stored(files, tmp_path):
    ue = tmp_path / "ue"
    run("fit", files.model, *_data(files), "--out", ue, "--neighbors", 8)
    n_before = _stored(ue)
    new = write_rows(tmp_path / "new.jsonl", ROWS[TASKS[files.name]](2, start=500))

    ids = json.loads(run("index", "add", ue, "--input", new, "--json").stdout)["ids"]
    n_added = _stored(ue)
    removed = run("index", "remove", ue, "--ids", f"0,{ids[0]}-{ids[1]}")
    n_removed = _stored(ue)
    compacted = run("index", "compact", ue)

    assert (n_added - n_before, n_removed - n_added, _stored(ue)) == (len(ids), -3, n_removed)
    assert (removed.exit_code, compacted.exit_code) == (0, 0)
    assert run("evaluate", ue, "--test", files.test).exit_code == 0


def _stored(ue: Path) -> int:
    (store,) = json.loads(run("index", "info", ue, "--json").stdout)["datastores"]
    return store["examples"]


def test_train_writes_a_folder_that_fit_knows_the_task_of(files):
    record = json.loads((files.model / "knn_ue_training.json").read_text(encoding="utf-8"))

    assert record["task"] == TASKS[files.name]


def test_train_leaves_the_half_untouched_that_fit_chooses_the_threshold_on(files):
    record = json.loads((files.model / "knn_ue_training.json").read_text(encoding="utf-8"))

    assert record["result"]["n_validation"] == 15


def test_train_does_not_replace_a_model_unless_told(files, tiny_model):
    encoder = tiny_model("bert", TASKS[files.name])

    result = run("train", "--task", files.name, "--encoder", encoder, *_data(files), "--out", files.model)

    assert result.exit_code == 1
    assert "already holds a model: pass --overwrite" in result.stderr


def test_fit_does_not_replace_a_folder_unless_told(text, tiny_model):
    model = tiny_model("bert", "text-classification")

    result = run("fit", model, *_data(text), "--out", text.ue, "--task", "text")

    assert (result.exit_code, result.stderr) == (
        1,
        f"knn-ue: {text.ue} already exists: pass --overwrite or choose another folder\n",
    )


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_folder_that_cannot_be_made_is_found_before_the_work(text, tiny_model, command, monkeypatch):
    place = text.train / "folder"
    monkeypatch.setattr("knn_ue.encoding.huggingface.HuggingFaceEncoder.encode", None)
    model = tiny_model("bert", "text-classification")
    fit = [model, *_data(text), "--task", "text", "--out", place]

    result = run(command, *(fit if command == "fit" else [text.ue, "--test", text.test, "--report", place]))

    assert (result.exit_code, result.stderr) == (
        1,
        f"knn-ue: {place} cannot be written, since {text.train} is a file: choose another folder\n",
    )


def test_a_folder_one_may_not_write_to_is_found_before_the_work(text, tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.cli.options.os.access", lambda _path, _mode: False)  # root may write everywhere
    model = tiny_model("bert", "text-classification")

    result = run("fit", model, *_data(text), "--task", "text", "--out", tmp_path / "ue")

    assert result.exit_code == 1
    assert f"since {tmp_path} does not allow it: choose another folder" in result.stderr


def test_fit_never_replaces_a_folder_of_other_files(text, tiny_model, tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("important")
    monkeypatch.setattr("knn_ue.encoding.huggingface.HuggingFaceEncoder.encode", None)
    model = tiny_model("bert", "text-classification")

    result = run("fit", model, *_data(text), "--task", "text", "--out", tmp_path, "--overwrite")

    assert result.exit_code == 1
    assert "holds other files (thesis.tex and 0 more)" in result.stderr


def test_predict_says_how_many_texts_it_cut(text, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", [{"text": "a film " * 5000}, {"text": "a film"}])
    options = ["--input", source, "--output", tmp_path / "answers.jsonl", "--overwrite"]

    shown = run("predict", text.ue, *options).stdout
    data = json.loads(run("predict", text.ue, *options, "--json").stdout)

    assert "1 texts cut at 32 sub-words" in shown
    assert data["truncated"] == 1


def test_evaluate_and_fit_say_how_many_texts_they_cut(text, tiny_model, tmp_path):
    rows = [row | {"text": f"{row['text']} " * 50} for row in ROWS[TASKS["text"]](4)]
    source = write_rows(tmp_path / "long.jsonl", rows)
    model = tiny_model("bert", "text-classification")
    options = ["--task", "text", "--neighbors", 2, "--out", tmp_path / "ue"]

    evaluated = run("evaluate", text.ue, "--test", source)
    fitted = run("fit", model, "--train", source, "--validation", text.validation, *options)

    assert "note: 4 texts cut at 32 sub-words" in evaluated.stderr
    assert "validation rows, 4 texts cut at 32 sub-words" in fitted.stdout


def test_fit_finds_the_task_of_a_model_by_itself(text, tiny_model, tmp_path):
    options = ["--out", tmp_path / "new", "--neighbors", 8, "--json"]
    result = run("fit", tiny_model("bert", "text-classification"), *_data(text), *options)

    assert json.loads(result.stdout)["task"] == "text-classification"


def test_fit_refuses_another_task_with_the_right_one(text, tiny_model, tmp_path):
    options = ["--out", tmp_path / "new", "--task", "token-classification"]
    result = run("fit", tiny_model("bert", "text-classification"), *_data(text), *options)

    assert result.exit_code == 1
    assert "cannot do token-classification: use task='text-classification' or task='text-pair'" in result.stderr


def test_fit_asks_for_the_task_of_a_model_that_does_not_tell(text, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model("bert", "text-classification"), tmp_path / "model")
    config = model / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("BertForSequenceClassification", "BertModel"))

    result = run("fit", model, *_data(text), "--out", tmp_path / "new")

    assert result.exit_code == 1
    assert "does not record what it was trained for: choose --task text, pair or ner" in result.stderr


def test_fit_says_that_no_threshold_keeps_the_risk(text, tiny_model, tmp_path):
    model = tiny_model("bert", "text-classification")

    result = run(
        "fit", model, *_data(text), "--out", tmp_path / "ue", "--task", "text", "--neighbors", 8, "--target-risk", 0.01
    )

    assert result.exit_code == 0
    assert "a precision of 99 % cannot be promised" in result.stdout


def test_predict_abstains_below_the_confidence_asked_for(text, tmp_path):
    answers = _predict(text, ROWS["text-classification"](4), tmp_path, "--abstain-below", 1.0, "--top", 0)

    assert [(answer["label"], answer["abstained"]) for answer in answers] == [(None, True)] * 4


@pytest.mark.parametrize(
    "content",
    ["great " * 10_000, "🎬🍿 great 👍🏽", "فيلم رائع جدا", "סרט נפלא", "e\u0301 \u202e evil \u202c", "𝔤𝔯𝔢𝔞𝔱"],
    ids=["10,000 words", "emoji", "Arabic", "Hebrew", "direction marks", "beyond the basic plane"],
)
def test_predict_answers_any_text_and_repeats_it_unchanged(text, tmp_path, content):
    (answer,) = _predict(text, [{"text": content}], tmp_path)

    assert answer["text"] == content
    assert 0 <= answer["score"] <= 1


def test_predict_tags_every_word_of_a_sentence_of_10000_words(files, tmp_path):
    if files.name != "ner":
        pytest.skip("for taggers")

    (answer,) = _predict(files, [{"tokens": ["Ada", "went"] * 5000}], tmp_path)

    assert len(answer["words"]) == 10_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("broken.csv", "text,label\nfine,pos\nawful,neg,what\n", "broken.csv, line 3: "),
        ("empty.jsonl", "", "empty.jsonl is empty"),
        ("unknown.csv", "text,label\nfine,splendid\n", "has the label 'splendid', which the model does not know"),
        ("bad.jsonl", '{"text": "fine", "label": "pos"}\n{"text"\n', "bad.jsonl, line 2: "),
    ],
)
def test_bad_data_is_one_sentence_that_says_where(text, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)

    result = run("evaluate", text.ue, "--test", tmp_path / name)

    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_nothing_is_added_to_the_index_from_a_file_with_an_unknown_label(text, tmp_path):
    (tmp_path / "new.csv").write_text("text,label\nfine,pos\nwell,splendid\n")
    n_before = _stored(text.ue)

    result = run("index", "add", text.ue, "--input", tmp_path / "new.csv")

    assert (result.exit_code, _stored(text.ue)) == (1, n_before)


def test_nothing_is_removed_if_an_id_is_unknown(text):
    n_before = _stored(text.ue)

    result = run("index", "remove", text.ue, "--ids", "0,99999")

    assert (result.exit_code, _stored(text.ue)) == (1, n_before)
    assert "id 99999 is not stored" in result.stderr


def test_a_method_without_neighbors_has_no_index_to_change(text, tiny_model, tmp_path):
    ue = tmp_path / "ue"
    model = tiny_model("bert", "text-classification")
    run("fit", model, *_data(text), "--out", ue, "--task", "text", "--method", "temperature")

    result = run("index", "compact", ue)

    assert (result.exit_code, json.loads(run("index", "info", ue, "--json").stdout)["datastores"]) == (1, [])
    assert "with the method knn-ue, knn-ue-no-label or dac" in result.stderr


@pytest.mark.slow
def test_evaluate_writes_the_report_it_is_asked_for(text, tmp_path):
    result = run("evaluate", text.ue, "--test", text.test, "--report", tmp_path / "report", "--bootstrap", 5)

    assert result.exit_code == 0, result.output
    assert f"report: {tmp_path / 'report' / 'report.html'}\n" in result.stderr
    assert "raw" in result.stdout


def _report_into(text, place, *more):
    """Evaluate without a bootstrap draw and without pictures: what is tested is the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knn_ue.report.report.draw_pictures", lambda *_: ())
        return run("evaluate", text.ue, "--test", text.test, "--report", place, "--bootstrap", 0, *more)


def test_a_report_is_not_written_among_the_files_of_others_unless_told_to(text, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")

    refused = _report_into(text, tmp_path)
    found = sorted(path.name for path in tmp_path.iterdir())
    written = _report_into(text, tmp_path, "--overwrite")

    assert (refused.exit_code, refused.stderr, found) == (
        1,
        f"knn-ue: {tmp_path} already exists: pass --overwrite or choose another folder\n",
        ["thesis.txt"],
    )
    assert written.exit_code == 0 and (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json"])
def test_a_report_that_knn_ue_did_not_write_is_never_replaced(text, tmp_path, name):
    (tmp_path / name).write_text("{}")

    result = _report_into(text, tmp_path, "--overwrite")

    assert (result.exit_code, (tmp_path / name).read_text()) == (1, "{}")
    assert f"{tmp_path} has a {name} that knn-ue evaluate did not write: choose another folder" in result.stderr


def test_an_earlier_report_is_written_again(text, tmp_path):
    _report_into(text, tmp_path / "report")
    (tmp_path / "report" / "report.html").write_text("old")

    result = _report_into(text, tmp_path / "report")

    assert result.exit_code == 0, result.output
    assert (tmp_path / "report" / "report.html").read_text(encoding="utf-8") != "old"


def test_explain_refuses_half_a_pair(files):
    if files.name != "pair":
        pytest.skip("for pairs")

    result = run("explain", files.ue, "Ada was great")

    assert (result.exit_code, result.stderr) == (
        1,
        "knn-ue: this folder is for pairs, got 1 texts: give premise and hypothesis\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "odd", "label": "posi"}, "line 2 has the label 'posi'"),
        ({"text": "odd"}, "line 2: the key 'label' is"),
    ],
)
def test_evaluate_says_why_an_out_of_domain_set_is_not_measured(text, tmp_path, row, reason):
    far = write_rows(tmp_path / "far.jsonl", [{"text": "fine", "label": "pos"}, row])

    result = run("evaluate", text.ue, "--test", text.test, "--ood", far)

    assert result.exit_code == 0
    assert "far: only OOD metrics are reported, because " in result.stderr and reason in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("n_watched", "told"), [(15, False), (30, True)])
def test_fit_says_when_the_rows_of_the_promise_may_have_chosen_the_model(files, tmp_path, n_watched, told):
    model = shutil.copytree(files.model, tmp_path / "model")
    record = json.loads((model / "knn_ue_training.json").read_text())
    record["result"]["n_validation"] = n_watched  # of 30; the train command watches one half unless told otherwise
    (model / "knn_ue_training.json").write_text(json.dumps(record))

    result = run("fit", model, *_data(files), "--out", tmp_path / "ue", "--neighbors", 8, "--target-risk", 0.5)

    assert result.exit_code == 0
    assert ("the guarantee may not hold" in result.stderr) == told


@pytest.mark.slow
def test_tune_chooses_an_index_and_the_answers_stay_as_good(files, tmp_path):
    ue = tmp_path / "ue"
    shutil.copytree(files.ue, ue)

    told = run("index", "tune", ue, "--thorough", "--tolerance", 1000, "--json")

    found = json.loads(told.stdout)
    assert told.exit_code == 0
    stored = json.loads(run("index", "info", ue, "--json").stdout)["datastores"][0]["index"]
    assert stored == found["chosen"]
    assert found["trials"][0]["options"]["factory"] == "Flat"
    assert run("predict", ue, "--input", files.test, "--output", tmp_path / "answers.jsonl").exit_code == 0


@pytest.mark.slow
def test_a_dry_run_of_tune_changes_nothing(files, tmp_path):
    ue = tmp_path / "ue"
    shutil.copytree(files.ue, ue)
    before = {path: path.read_bytes() for path in ue.rglob("*") if path.is_file()}

    told = run("index", "tune", ue, "--thorough", "--dry-run", "--picture", tmp_path / "frontier.svg")

    assert told.exit_code == 0
    assert "would choose" in told.stdout
    assert (tmp_path / "frontier.svg").read_text().startswith("<?xml")
    assert {path: path.read_bytes() for path in ue.rglob("*") if path.is_file()} == before


def test_tune_of_a_small_store_says_that_nothing_was_tried(files, tmp_path):
    ue = tmp_path / "ue"
    shutil.copytree(files.ue, ue)

    told = run("index", "tune", ue, "--picture", tmp_path / "frontier.png")

    assert "chose the exact search: the store is small, so nothing else was tried and no picture drawn" in told.stdout
    assert not (tmp_path / "frontier.png").exists()


@pytest.mark.slow
def test_a_method_is_trained_and_fitted_by_its_name(files, tmp_path):
    brief = ["--max-steps", 2, "--set", "n_features=16", "--json"]
    trained = run(
        *["train", "--task", files.name, "--encoder", files.model, *_data(files), "--out", tmp_path / "model"],
        *["--method", "sngp", *brief],
    )
    fitted = run("fit", tmp_path / "model", *_data(files), "--out", tmp_path / "ue", "--method", "sngp")
    refused = run("fit", tmp_path / "model", *_data(files), "--out", tmp_path / "other", "--method", "knn-ue")

    assert trained.exit_code == 0, trained.output
    assert fitted.exit_code == 0, fitted.output
    assert "sngp for" in fitted.stdout
    assert refused.exit_code == 1
    assert "run knn-ue train --method knn-ue" in refused.stderr


def test_an_option_the_method_does_not_have_is_named(files, tmp_path):
    told = run(
        *["train", "--task", files.name, "--encoder", files.model, *_data(files), "--out", tmp_path / "model"],
        *["--method", "sngp", "--set", "epsilon=1"],
    )

    assert told.exit_code == 1
    assert "sngp has no option 'epsilon': it has bound, n_features" in told.stderr


@pytest.mark.slow
def test_tune_counts_what_was_added_meanwhile(text, tmp_path, monkeypatch):
    from knn_ue.pipeline import UncertaintyPipeline, adjusting

    ue = tmp_path / "ue"
    shutil.copytree(text.ue, ue)
    more = write_rows(tmp_path / "more.jsonl", ROWS[TASKS["text"]](1, start=900))
    choose = adjusting.tune_fitted

    def tune_while_another_adds(fitted, **options):
        tuned = choose(fitted, **options)
        assert run("index", "add", ue, "--input", more).exit_code == 0
        return tuned

    monkeypatch.setattr(adjusting, "tune_fitted", tune_while_another_adds)
    told = run("index", "tune", ue)

    assert told.exit_code == 0, told.stderr
    after = UncertaintyPipeline.load(ue, device="cpu")
    assert after.calibrator_.store.ids.tolist() == list(range(61))
    # Fitted with it: as if it had been there from the start.
    assert after.calibrator_.params_ == after.use_index("exact").calibrator_.params_


@pytest.mark.slow
def test_add_continues_what_was_stored_while_it_encoded(text, tmp_path, monkeypatch):
    from knn_ue.cli import index

    ue = tmp_path / "ue"
    shutil.copytree(text.ue, ue)
    mine, theirs = (write_rows(tmp_path / f"{n}.jsonl", ROWS[TASKS["text"]](1, start=n)) for n in (900, 901))
    encode = index._encoded

    def encode_while_another_adds(pipe, rows, *columns):
        monkeypatch.undo()
        assert run("index", "add", ue, "--input", theirs).exit_code == 0
        assert run("index", "compact", ue).exit_code == 0
        return encode(pipe, rows, *columns)

    monkeypatch.setattr(index, "_encoded", encode_while_another_adds)
    told = run("index", "add", ue, "--input", mine, "--json")

    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout) == {"ids": [61], "examples": 62}


@pytest.mark.slow
def test_nothing_is_added_where_the_model_was_exchanged_while_it_encoded(text, tiny_model, tmp_path, monkeypatch):
    from knn_ue.cli import index
    from knn_ue.pipeline import UncertaintyPipeline

    ue = tmp_path / "ue"
    shutil.copytree(text.ue, ue)
    rows = write_rows(tmp_path / "new.jsonl", ROWS[TASKS["text"]](1, start=900))
    encode = index._encoded

    def encode_while_another_fits(pipe, rows, *columns):
        other = UncertaintyPipeline.from_pretrained(tiny_model("roberta", "text-classification"), "text-classification")
        other.fit(str(text.train), str(text.validation), index="exact", n_neighbors=8).save(ue)
        return encode(pipe, rows, *columns)

    monkeypatch.setattr(index, "_encoded", encode_while_another_fits)
    told = run("index", "add", ue, "--input", rows)

    assert told.exit_code == 1
    assert "was given another model meanwhile: nothing was changed" in told.stderr
    assert json.loads(run("index", "info", ue, "--json").stdout)["datastores"][0]["examples"] == 60


@pytest.mark.parametrize(
    ("method", "views", "stages"),
    [
        ("temperature", False, {"validation"}),
        ("temperature", True, {"training", "validation"}),  # familiarity asks what the training data are like
        ("knn-ue", False, {"training", "validation"}),
    ],
)
def test_training_rows_are_encoded_only_where_someone_reads_them(text, tiny_model, method, views, stages):
    from knn_ue.pipeline import UncertaintyPipeline

    model = tiny_model("bert", "text-classification")
    pipe = UncertaintyPipeline.from_pretrained(model, "text-classification", views=views)
    seen = set()

    pipe.fit(
        str(text.train),
        str(text.validation),
        method=method,
        n_neighbors=4,
        progress=lambda stage, done, _: seen.add(stage) if done else None,
    )

    assert seen == stages


@pytest.mark.slow
def test_a_table_is_never_cut_to_a_narrow_terminal(files, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")

    told = run("index", "tune", files.ue, "--thorough", "--dry-run")

    assert "…" not in told.stdout
    assert "PQ" in told.stdout

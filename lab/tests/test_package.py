"""The package as a whole: an add-on of the library, light until it is used."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[1] / "src" / "knn_ue_lab" / "reproduce").glob("*.py"))
REPORT_NAMES = {"Measure", "Table", "Comparison", "Verdict", "Bench", "Report", "Evaluation"}


def test_the_command_is_an_entry_point_of_the_library():
    (entry,) = [entry for entry in entry_points(group="knn_ue.commands") if entry.name == "reproduce"]

    assert entry.value == "knn_ue_lab.reproduce.command:reproduce"


@pytest.mark.slow
def test_the_command_loads_nothing_heavy_before_it_runs():
    heavy = ("torch", "transformers", "faiss", "matplotlib", "scipy")
    code = f"import sys, knn_ue_lab.reproduce.command; print([name for name in {heavy} if name in sys.modules])"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "[]"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_class_has_a_name_that_means_something_else_in_the_library(path):
    classes = {
        line.removeprefix("class ").split("(")[0].rstrip(":")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("class ")
    }

    assert not classes & REPORT_NAMES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_source_file_is_longer_than_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400

"""The reliability picture of docs/spacy_results.md shows the committed numbers."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_picture_is_drawn_from_the_committed_numbers():
    drawing = runpy.run_path(str(ROOT / "benchmarks" / "spacy_reliability.py"))

    report = json.loads((ROOT / "benchmarks" / "spacy_entities.json").read_text())
    if not drawing["has_bins"](report):
        pytest.skip("the committed numbers were measured without bins: run benchmarks/spacy_entities.py again")

    current = (ROOT / "docs" / "spacy_reliability.svg").read_text()
    assert drawing["draw"](report) == current, "run python benchmarks/spacy_reliability.py"

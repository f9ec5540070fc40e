"""Every Python block of the README and the docs runs, in order, in an empty folder."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from marks import slow_but

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Their blocks train, tune or cross-validate for a second or more.
LONG = {"arrays_results.md", "gotcha_results.md", "sklearn.md", "sklearn_reference.md"}
QUICK = tuple(page for page in PAGES if page.name not in LONG)


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", slow_but(QUICK, PAGES), ids=lambda page: page.name)
def test_every_python_block_on_the_page_runs(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    if "sklearn" in text:
        pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}

    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_on_the_page_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that the site gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_anchor_on_the_page_is_a_heading(page):
    links = re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))

    found = [(target, anchor, anchors_of(page.parent / target if target else page)) for target, anchor in links]

    assert [f"{target}#{anchor}" for target, anchor, anchors in found if anchor not in anchors] == []


@pytest.fixture
def tiny_model(tmp_path, monkeypatch):
    """Run in a folder that holds a model and its rows, under the names that the pages use."""
    pytest.importorskip("torch")
    from tiny_models import save_tiny_model, text_rows

    save_tiny_model(tmp_path / "model", family="bert", task="text-classification")
    for name, start in (("train", 0), ("validation", 200)):
        rows = "\n".join(json.dumps(row) for row in text_rows(100, start=start))
        (tmp_path / f"{name}.jsonl").write_text(rows)
    monkeypatch.chdir(tmp_path)


def pipeline_block(page: Path) -> str:
    (block,) = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return block


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_model")
def test_the_pipeline_of_the_readme_runs_on_a_tiny_model(capsys):
    exec(compile(pipeline_block(ROOT / "README.md"), "README.md", "exec"), {})

    label, score, raw_score = capsys.readouterr().out.split()
    assert label in ("neg", "pos") and 0.5 <= float(score) <= 1 and 0.5 <= float(raw_score) <= 1


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_model")
def test_the_pipeline_of_the_page_on_hugging_face_runs_on_a_tiny_model():
    found: dict[str, object] = {}

    exec(compile(pipeline_block(ROOT / "docs" / "hugging_face.md"), "hugging_face.md", "exec"), found)

    assert {"label", "score", "familiarity", "neighbors"} <= found["answer"].to_dict().keys()
    assert Path("ue", "changes.db").exists()


@pytest.mark.parametrize("table", ["entities", "rivals", "detectors"])
def test_the_tables_of_the_readme_are_those_the_results_give(table):
    command = [sys.executable, str(ROOT / "benchmarks" / "readme_table.py"), "--table", table]

    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert found
    assert found in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_two_encoders_is_the_one_their_pages_give():
    command = [sys.executable, str(ROOT / "benchmarks" / "larger_encoder.py")]

    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert found.count("\n") > 10
    assert found in (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")


def test_the_table_of_sdm_with_its_adaptor_is_the_one_its_results_give():
    command = [sys.executable, str(ROOT / "benchmarks" / "sdm_adaptor.py")]

    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert found.count("\n") > 10
    assert found in (ROOT / "docs" / "methods_results.md").read_text(encoding="utf-8")


def test_the_choice_of_a_method_repeats_the_tables_of_the_results():
    command = [sys.executable, str(ROOT / "benchmarks" / "readme_table.py"), "--table", "temperature"]
    text = (ROOT / "docs" / "choosing_a_method.md").read_text(encoding="utf-8")

    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert found in text
    # What the page says of it in words.
    inside, outside = (
        [int(n) for n in cell.split(" / ")] for cell in found.splitlines()[2].strip("| ").split(" | ")[2:4]
    )
    wins, total = inside[0] + outside[0], sum(inside) + sum(outside)
    assert inside[2] == outside[2] == 0
    assert f"better than `temperature` in {wins} of {total} comparisons on texts and worse in none" in text


def test_the_readme_is_read_in_a_minute():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def pages_under(*tabs: str) -> list[Path]:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    parts = re.findall(r"^  - (\w+):\n((?:      .*\n)+)", nav, flags=re.MULTILINE)
    return [ROOT / "docs" / name for tab, pages in parts if tab in tabs for name in re.findall(r"\w+\.md", pages)]


@pytest.mark.parametrize("page", pages_under("Start", "Guides"), ids=lambda page: page.name)
def test_a_guide_is_one_screen(page):
    lines = page.read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 80, "move details to a page under Reference, and numbers to one under Evidence"


@pytest.mark.parametrize("page", pages_under("Evidence"), ids=lambda page: page.name)
def test_evidence_begins_with_the_sentences_that_matter(page):
    first = [line for line in page.read_text(encoding="utf-8").splitlines() if line and not line.startswith(("#", "*"))]

    assert [line.split(" ", 1)[0] for line in first[:3]] == ["1.", "2.", "3."]


def test_the_guides_are_found_in_the_navigation():
    assert {"index.md", "spacy.md", "scaling.md"} <= {page.name for page in pages_under("Start", "Guides")}
    assert not pages_under("Guide")

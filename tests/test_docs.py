"""Every Python block of the README and the docs runs, in order, in an empty folder."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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

"""The tables of a page that `knn-ue reproduce all --page` wrote, as rows of text."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
LEAGUE = "League: ECE, E-AURC and Brier score"
DETECTORS = "League of OOD detection"


def rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page."""
    found = re.search(
        rf"^\*\*{re.escape(heading)}.*?\*\*\n\n((?:^\|.*\n)+)", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise SystemExit(f"{page.name} has no table {heading!r}: write it with knn-ue reproduce all --page")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines()[2:]]


def seeds(page: Path) -> str:
    """Return how many seeds the page has, in its own words."""
    found = re.search(r"with (\d+(?: to \d+)? seeds?)", page.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{page.name} does not say how many seeds it has")
    return found[1]

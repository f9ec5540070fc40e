"""The tables of a page that `knn-ue reproduce all --page` wrote, as rows of text."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
LEAGUE = "League: ECE, E-AURC and Brier score"
DETECTORS = "League of OOD detection"
_TABLE = r"((?:^\|.*\n)+)"


def rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page."""
    found = re.search(rf"^\*\*{re.escape(heading)}.*?\*\*\n\n{_TABLE}", page.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{page.name} has no table {heading!r}: write it with knn-ue reproduce all --page")
    return [_cells(line) for line in found[1].splitlines()[2:]]


def numbers(page: Path, section: str, measure: str) -> dict[str, dict[str, float]]:
    """Return a column of a section, by test set and method: our means, as far as there are any.

    `measure` is the title of the column, with or without "ours" behind it.
    """
    text = page.read_text(encoding="utf-8")
    body = re.search(rf"^## {re.escape(section)}: .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    found: dict[str, dict[str, float]] = {}
    for name, table in re.findall(
        rf"^\*\*([^,*]+), [\d,]+ texts.*?\*\*\n\n{_TABLE}", body[0] if body else "", re.MULTILINE
    ):
        head, _, *lines = (_cells(line) for line in table.splitlines())
        places = [head.index(title) for title in (f"{measure} ours", measure) if title in head]
        if places:
            # A method with fewer seeds has them behind its name.
            values = {re.sub(r" \(.*\)$", "", line[0].strip("*")): line[places[0]].strip("*") for line in lines}
            found[name] = {method: float(value.split()[0]) for method, value in values.items() if value[:1].isdigit()}
    return found


def seeds(page: Path) -> str:
    """Return how many seeds the page has, in its own words."""
    found = re.search(r"with (\d+(?: to \d+)? seeds?)", page.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{page.name} does not say how many seeds it has")
    return found[1]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]

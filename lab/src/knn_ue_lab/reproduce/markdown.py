"""The page to cite, as Markdown: sentences, leagues and pictures first, then every table, folded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from knn_ue_lab.reproduce.grids import Grid, counted, grids_of, overview_grid, topic_grid, verdict_grid
from knn_ue_lab.reproduce.results import ABOUT, Results
from knn_ue_lab.reproduce.summary import RULES
from knn_ue_lab.reproduce.tables import FilledTable


def to_markdown(results: Results, name: str = "results") -> str:
    """Return the page; its pictures are files beside it, as `picture_file` names them after the page's own `name`."""
    data, scale = results.facts.get("data"), results.facts.get("scale")
    lines = [f"# Results{f' on {data}' if data else ''}{f', {scale} scale' if scale else ''}", ""]
    if results.summary.missing:
        what = "times are" if results.summary.only_times else "some cells are"
        lines += [f"*In progress: {what} not measured yet. They are listed at the end.*", ""]
    lines += _first_page(results, name)
    lines += ["## The paper's claims", "", f"**{len(results.verdicts)} claims: {counted(results.verdicts)}.**", ""]
    lines += [*_grid(topic_grid(results.verdicts)), "", *(f"* {text}" for text in ABOUT), "", *_overview(results), ""]
    for filled in results.tables:
        lines += [f"## {_heading(filled)}", "", *_table(filled)]
    lines += ["## How it was made", ""]
    lines += [f"* {name}: {value}" for name, value in results.facts.items()]
    if results.summary.missing:
        missing = [f"* {text}" for text in results.summary.missing]
        lines += ["", *_folded("Cells that are not measured yet", missing)]
    if results.failed:
        lines += ["", "## Cells that failed", "", *(f"* {name}: {reason}" for name, reason in results.failed.items())]
    return "\n".join(lines).rstrip() + "\n"


def picture_file(page: str, setup: str) -> str:
    """Return the name of the file with the picture of a task.

    >>> picture_file("results", "ner")
    'results_ner.svg'
    """
    return f"{page}_{setup}.svg"


def _first_page(results: Results, name: str) -> Iterator[str]:
    summary = results.summary
    if summary.sentences:
        yield from (f"{number}. {text}" for number, text in enumerate(summary.sentences, start=1))
        yield ""
    for grid in summary.grids:
        yield from (f"**{grid.title}**", "", *_grid(grid), "")
    if summary.grids:
        yield from ("How to read this:", "", *(f"* {text}" for text in RULES), "")
    if summary.caveats:
        yield from ("Before you compare:", "", *(f"* {text}." for text in summary.caveats), "")
    if summary.unranked:
        yield from (f"Not in the league: {'; '.join(summary.unranked)}.", "")
    if summary.details:
        lines = [line for grid in summary.details for line in (f"**{grid.title}**", "", *_grid(grid), "")]
        yield from (*_folded("The league by measure, and ours against each method", lines), "")
    for picture in summary.pictures:
        yield from (f"![{picture.setup}]({picture_file(name, picture.setup)})", "", f"*{picture.caption}*", "")


def _overview(results: Results) -> Iterator[str]:
    grid = overview_grid(results.tables)
    linked = [
        (f"[{name}](#{_anchor(filled)})", *rest)
        for filled, (name, *rest) in zip(results.tables, grid.lines, strict=True)
    ]
    yield from _grid(replace(grid, lines=tuple(linked)))


def _table(filled: FilledTable) -> Iterator[str]:
    yield from (line for gap in filled.gaps for line in (gap, ""))
    if filled.verdicts:
        yield from (" ".join([f"Claims: {counted(filled.verdicts)}.", *filled.differs]), "")
    lines: list[str] = []
    for grid in grids_of(filled):
        lines += [f"**{grid.title}**", "", *_grid(grid), ""]
    if filled.verdicts:
        lines += ["**Verdicts**", "", *_grid(verdict_grid(filled.verdicts)), ""]
    lines += [f"* {note}" for note in filled.remaining_notes]
    if lines:
        yield from (*_folded("Numbers and verdicts" if filled.verdicts else "Numbers", lines), "")


def _heading(filled: FilledTable) -> str:
    return f"{filled.table.name}: {filled.table.title}"


def _anchor(filled: FilledTable) -> str:
    """Return the address that a heading has on the usual hosts: lower case, dashes for spaces, no punctuation."""
    heading = _heading(filled).lower()
    return "".join(sign for sign in heading if sign.isalnum() or sign in " -").replace(" ", "-")


def _folded(title: str, lines: Iterable[str]) -> Sequence[str]:
    """Return lines that show when their title is clicked; the attribute lets mkdocs read Markdown within."""
    return ('<details markdown="1">', f"<summary>{title}</summary>", "", *_trimmed(lines), "", "</details>")


def _trimmed(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    while found and not found[-1]:
        found.pop()
    return found


def _grid(grid: Grid) -> Iterator[str]:
    yield "| " + " | ".join(grid.heading) + " |"
    yield "|" + "|".join("---" if place in grid.text_columns else "--:" for place in range(len(grid.heading))) + "|"
    for number, line in enumerate(grid.lines):
        fields = [f"**{text}**" if (number, place) in grid.strong else text for place, text in enumerate(line)]
        yield "| " + " | ".join(field.replace("|", "\\|") for field in fields) + " |"

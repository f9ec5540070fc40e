"""Results as one HTML page: verdicts first, then every table and figure; no script, no outside address."""

from collections.abc import Iterator

from knn_ue.experiments.figures import figures_of
from knn_ue.experiments.grids import Grid, counted, grids_of, verdict_grid
from knn_ue.experiments.results import ABOUT, Results
from knn_ue.experiments.tables import FilledTable
from knn_ue.report.frame import page
from knn_ue.report.html_tables import box, plain, prose

_CLASSES = {"holds": "better", "does not hold": "worse"}


def to_html(results: Results) -> str:
    """Return the page."""
    facts = "".join(
        f"<div><dt>{plain(name)}</dt><dd>{plain(value)}</dd></div>" for name, value in results.facts.items()
    )
    body = [f'<section class="card lead"><p>{len(results.verdicts)} claims: {counted(results.verdicts)}.</p></section>']
    body += [f'<dl class="facts">{facts}</dl>', f"<p>{prose(ABOUT)}</p>"]
    for filled in results.tables:
        body += _section(filled)
    if results.failed:
        reasons = "".join(f"<li>{plain(name)}: {plain(reason)}</li>" for name, reason in results.failed.items())
        body.append(f"<h2>Cells that failed</h2><ul>{reasons}</ul>")
    return page(
        "The paper's tables, measured",
        links={filled.table.name: filled.table.name for filled in results.tables},
        body=body,
        footer="Made with knn-ue reproduce. The same numbers are in results.md, results.tex and results.csv.",
        name="results",
    )


def _section(filled: FilledTable) -> Iterator[str]:
    table = filled.table
    yield f'<section id="{table.name}"><h2>{plain(table.name)}: {plain(table.title)}</h2>'
    if table.missing:
        yield f"<p>Cannot be tested here: there are no data for {plain(', '.join(table.missing))}.</p>"
    elif not (filled.blocks or filled.times):
        yield "<p>Not measured yet.</p>"
    for caption, svg in figures_of(filled).items():
        yield f'<figure class="card"><div class="paper">{svg}</div><figcaption>{plain(caption)}</figcaption></figure>'
    if filled.verdicts:
        yield f"<p>{prose(' '.join([f'Claims: {counted(filled.verdicts)}.', *filled.differs]))}</p>"
        yield box(f"Verdicts of {table.name}", _grid(verdict_grid(filled.verdicts)))
    for grid in grids_of(filled):
        yield box(f"{table.name}: {grid.title}", _grid(grid))
    yield from (f'<p class="soft">{prose(note)}</p>' for note in filled.remaining_notes)
    yield "</section>"


def _grid(grid: Grid) -> str:
    heading = "".join(
        f'<th scope="col"{_text(grid, place)}>{prose(text)}</th>' for place, text in enumerate(grid.heading)
    )
    lines = []
    for number, line in enumerate(grid.lines):
        fields = [f'<th scope="row"{_text(grid, 0)}>{plain(line[0])}</th>']
        for place, text in enumerate(line[1:], start=1):
            shown = f"<strong>{plain(text)}</strong>" if (number, place) in grid.strong else plain(text)
            if text in ("holds", "does not hold", "cannot be tested here"):
                shown = f'<span class="tag {_CLASSES.get(text, "soft")}">{shown}</span>'
            fields.append(f"<td{_text(grid, place)}>{shown}</td>")
        lines.append(f"<tr>{''.join(fields)}</tr>")
    return (
        f"<table><caption><span>{plain(grid.title)}</span></caption><thead><tr>{heading}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _text(grid: Grid, place: int) -> str:
    if place in grid.sentences:
        return ' class="text wide"'
    return ' class="text"' if place in grid.text_columns else ""

"""Results as one HTML page: verdicts first, then every table and figure; no script, no outside address."""

import re
from collections.abc import Iterator
from typing import get_args

from knn_ue.report.html_page import page
from knn_ue.report.html_tables import box, plain, prose
from knn_ue_lab.reproduce.figures import figures_of
from knn_ue_lab.reproduce.grids import EMPTY, Grid, counted, grids_of, overview_grid, topic_grid, verdict_grid
from knn_ue_lab.reproduce.results import ABOUT, Results
from knn_ue_lab.reproduce.summary import RULES, Summary
from knn_ue_lab.reproduce.tables import FilledTable
from knn_ue_lab.reproduce.verdicts import Word

_CLASSES = {"holds": "better", "does not hold": "worse"}


def to_html(results: Results) -> str:
    """Return the page."""
    facts = "".join(
        f"<div><dt>{plain(name)}</dt><dd>{_code(value)}</dd></div>" for name, value in results.facts.items()
    )
    body = [*_first_page(results.summary)]
    body.append(
        f'<section class="card lead"><p>{len(results.verdicts)} claims: {counted(results.verdicts)}.</p></section>'
    )
    body.append(box("Claims by topic", _grid(topic_grid(results.verdicts))))
    body.append(f"<ul>{''.join(f'<li>{_code(text)}</li>' for text in ABOUT)}</ul>")
    body.append(box("Claims by table", _grid(overview_grid(results.tables), linked=True)))
    body.append(f'<details><summary>How it was made</summary><dl class="facts">{facts}</dl></details>')
    if results.summary.missing:
        lacking = "".join(f"<li>{plain(text)}</li>" for text in results.summary.missing)
        body.append(f"<details><summary>Cells that are not measured yet</summary><ul>{lacking}</ul></details>")
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


def _first_page(summary: Summary) -> Iterator[str]:
    if summary.sentences:
        yield f"<ol>{''.join(f'<li>{_code(text)}</li>' for text in summary.sentences)}</ol>"
    for grid in summary.grids:
        yield box(grid.title, _grid(grid))
    if summary.grids:
        yield f'<ul class="soft">{"".join(f"<li>{prose(text)}</li>" for text in RULES)}</ul>'
    yield from (f'<p class="soft">{prose(text)}.</p>' for text in summary.caveats)
    yield from (f'<p class="soft">Not in the league: {prose(text)}.</p>' for text in summary.unranked)
    if summary.details:
        yield "<details><summary>The league by measure, and ours against each method</summary>"
        yield from (box(grid.title, _grid(grid)) for grid in summary.details)
        yield "</details>"
    for picture in summary.pictures:
        yield f'<figure class="card broad"><div class="paper">{picture.svg}</div>'
        yield f"<figcaption>{plain(picture.caption)}</figcaption></figure>"


def _section(filled: FilledTable) -> Iterator[str]:
    table = filled.table
    yield f'<section id="{table.name}"><h2>{plain(table.name)}: {plain(table.title)}</h2>'
    yield from (f"<p>{plain(gap)}</p>" for gap in filled.gaps)
    for caption, svg in figures_of(filled).items():
        yield f'<figure class="card broad"><div class="paper">{svg}</div>'
        yield f"<figcaption>{plain(caption)}</figcaption></figure>"
    if filled.verdicts:
        yield f"<p>{prose(' '.join([f'Claims: {counted(filled.verdicts)}.', *filled.differs]))}</p>"
    yield "<details><summary>Numbers and verdicts</summary>"
    if filled.verdicts:
        yield box(f"Verdicts of {table.name}", _grid(verdict_grid(filled.verdicts)))
    for grid in grids_of(filled):
        yield box(f"{table.name}: {grid.title}", _grid(grid))
    yield from (f'<p class="soft">{prose(note)}</p>' for note in filled.remaining_notes)
    yield "</details>"
    yield "</section>"


def _grid(grid: Grid, *, linked: bool = False) -> str:
    """Return a table; with `linked` its first column names sections of the page."""
    shown = [place for place in range(len(grid.heading)) if place not in grid.details]
    heading = "".join(f'<th scope="col"{_text(grid, place)}>{prose(grid.heading[place])}</th>' for place in shown)
    lines = []
    for number, line in enumerate(grid.lines):
        fields = []
        for place in shown:
            text = _field(line[place], strong=(number, place) in grid.strong)
            if linked and not place:
                text = f'<a href="#{plain(line[0])}">{text}</a>'
            beneath = ", ".join(
                line[other] for other, of in grid.details.items() if of == place and line[other] != EMPTY
            )
            text += f'<span class="under">{plain(beneath)}</span>' if beneath else ""
            tag = 'th scope="row"' if not place else "td"
            fields.append(f"<{tag}{_text(grid, place)}>{text}</{tag[:2]}>")
        lines.append(f"<tr>{''.join(fields)}</tr>")
    return (
        f"<table><caption><span>{plain(grid.title)}</span></caption><thead><tr>{heading}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _field(text: str, *, strong: bool) -> str:
    shown = f"<strong>{plain(text)}</strong>" if strong else plain(text)
    if text in get_args(Word):
        return f'<span class="tag {_CLASSES.get(text, "soft")}">{shown}</span>'
    return shown


def _code(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", prose(text))


def _text(grid: Grid, place: int) -> str:
    if place in grid.sentences:
        return ' class="text wide"'
    return ' class="text"' if place in grid.text_columns else ""

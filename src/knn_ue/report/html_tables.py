"""The tables of a report as HTML: raw beside calibrated, in domain beside out of domain, each with its interval."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from knn_ue.evaluation import STYLES, TEST, UNDEFINED, Comparison, Evaluation, Kind, Table, bounds_of
from knn_ue.report.headline import NAMES, LeadTable
from knn_ue.report.wording import difference

if TYPE_CHECKING:
    from knn_ue.report.report import Report

# What is shown first: the suffix of the table, the metric, and the question it answers.
_KEY = (
    ("", "accuracy", "How often is the answer right?"),
    ("/entities", "f1", "Entities: are they found?"),
    ("", "ece", "Does the confidence match the accuracy?"),
    ("/entities", "ece", "Entities: does the confidence match the accuracy?"),
    ("", "e_aurc", "Do wrong answers have lower confidence than right ones?"),
    ("/entities", "e_aurc", "Entities: do wrong ones have lower confidence?"),
    ("/sentences", "ece", "Sentences: does the confidence match how often all is right?"),
    ("/sentences", "auroc", "Sentences: do those with an error have lower confidence?"),
    ("", "nll", "How good are all probabilities together?"),
    ("/detection", "fpr95", "How many OOD rows pass as in domain?"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return `text` with everything that HTML would read as markup, or not at all, made harmless.

    >>> plain('<b>&"')
    '&lt;b&gt;&amp;&quot;'
    """
    return escape(_CONTROL.sub("\ufffd", text))


def prose(text: str) -> str:
    """Return a sentence of ours as HTML, where no line begins with a percent sign."""
    return re.sub(r"(?<=\d) %", "\u00a0%", plain(text))


def name_of(text: str) -> str:
    """Return a name whose direction of writing must not disturb the words around it."""
    return f"<bdi>{plain(text)}</bdi>"


def box(label: str, table: str) -> str:
    """Return a table in a card that scrolls by itself, also with the keyboard."""
    return f'<div class="card scroll" role="region" tabindex="0" aria-label="{plain(label)}">{table}</div>'


def key_tables(report: "Report") -> Iterator[str]:
    """Yield one table for each of the most important metrics: methods down, sets across."""
    evaluation = report.evaluation
    for suffix, metric, question in _KEY:
        tables = {
            name: evaluation.tables[f"{name}{suffix}"]
            for name in report.sizes
            if f"{name}{suffix}" in evaluation.tables and metric in _metrics(evaluation.tables[f"{name}{suffix}"])
        }
        if not tables:
            continue
        style = STYLES[metric]
        better = "higher is better" if style.higher_is_better else "lower is better"
        unit = ", ".join(filter(None, (f"{style.title} {style.unit}".strip(), better)))
        caption = f'{plain(question)} <span class="unit">{plain(unit)}</span>'
        sets = [f"{name_of(name)}{_role(name)}" for name in tables]
        methods = dict.fromkeys(method for table in tables.values() for method in table.scores)
        cells = {method: [_cell(table, method, metric) for table in tables.values()] for method in methods}
        rows = [_row(name_of(method), shown, method == report.method) for method, shown in cells.items()]
        if len(set(map(tuple, cells.values()))) == 1:  # as the accuracy is, where no answer changes
            rows = [_row("every method", cells[report.method])]
        yield box(question, _table(caption, ["method", *sets], rows))


def lead_table(table: LeadTable) -> str:
    """Return a small table that stands beneath the first sentences; its first column may be long."""
    rows = []
    for heading, *cells in table.rows:
        shown = "".join(f"<td>{prose(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row" class="wide">{plain(heading)}</th>{shown}</tr>')
    return box(table.caption, _table(plain(table.caption), list(map(plain, table.headings)), rows))


def full_tables(evaluation: Evaluation, ours: str) -> Iterator[str]:
    """Yield every number there is: metrics down, methods across."""
    for table in evaluation.tables.values():
        methods = [f"{name_of(x)}{' (calibrated)' if x == ours else ''}" for x in table.scores]
        rows = [
            _row(plain(STYLES[metric].heading), [_cell(table, method, metric) for method in table.scores])
            for metric in _metrics(table)
        ]
        yield box(table.caption, _table(plain(table.caption), ["metric", *methods], rows))


def comparison_table(report: "Report") -> str:
    """Return the comparisons: a line for each metric of each set, a column for each other method."""
    others = list(dict.fromkeys(x.other for x in report.comparisons))
    found: dict[tuple[str, Kind], dict[str, Comparison]] = {}
    for x in report.comparisons:
        found.setdefault((x.set_name, x.kind), {})[x.other] = x
    rows = []
    for (set_name, kind), against in found.items():
        style = next(iter(against.values())).style
        ours = next(iter(against.values())).ours
        cells = [_comparison_cell(against[other]) if other in against else "<td></td>" for other in others]
        metric = f'<span class="under">{plain(NAMES[kind])}, {plain(style.heading)}</span>'
        rows.append(_row(f"{name_of(set_name)}{metric}", [f"<td>{style.show(ours)}</td>", *cells]))
    caption = f"{name_of(report.method)} against each other method"
    headings = ["set and metric", name_of(report.method), *map(name_of, others)]
    return box(f"{report.method} against each other method", _table(caption, headings, rows))


def neighbor_table(caption: str, lines: Iterable[Sequence[str]]) -> str:
    """Return what the nearest stored examples say; a line is agrees or differs, label, distance, text."""
    rows = [
        _row(
            f'<span class="{said}">{"✓" if said == "agrees" else "✗"} {said}</span>',
            [
                f'<td class="text">{name_of(label)}</td><td>{distance}</td>',
                f'<td class="text wide" dir="auto">{plain(text)}</td>',
            ],
        )
        for said, label, distance, text in lines
    ]
    table = _table(plain(caption), ["neighbor", "its label", "distance", "its text"], rows, text_columns=(0, 1, 3))
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{plain(caption)}">{table}</div>'


def _metrics(table: Table) -> Sequence[str]:
    return list(next(iter(table.scores.values())))


def _role(name: str) -> str:
    return f'<br><span class="soft">{"in domain" if name == TEST else "out of domain"}</span>'


def _cell(table: Table, method: str, metric: str) -> str:
    style = STYLES[metric]
    shown = style.show(table[method][metric])
    value = f'<span class="tag">best</span> <strong>{shown}</strong>' if shown == table.best(metric) else shown
    if not table.intervals or shown == UNDEFINED:
        return f"<td>{value}</td>"
    interval = table.intervals[method][metric]
    bounds = plain(bounds_of(style, interval))
    return f'<td>{value}<span class="unseen">, interval </span><span class="interval">{bounds}</span></td>'


def _comparison_cell(comparison: Comparison) -> str:
    verdict = comparison.verdict
    value, _, bounds = difference(comparison).partition(" (")
    return (
        f"<td>{comparison.style.show(comparison.theirs)}"
        f'<span class="interval"><span class="unseen">, difference </span>{value}</span>'
        f'<span class="interval">{bounds.rstrip(")")}</span>'
        f'<span class="tag {verdict.split()[0]}">{verdict}</span></td>'
    )


def _row(heading: str, cells: Sequence[str], ours: bool = False) -> str:
    mark = ' class="ours"' if ours else ""
    told = '<span class="unseen"> (the calibrated method)</span>' if ours else ""
    return f'<tr{mark}><th scope="row">{heading}{told}</th>{"".join(cells)}</tr>'


def _table(caption: str, headings: Sequence[str], rows: Sequence[str], text_columns: Sequence[int] = (0,)) -> str:
    cells = [
        f'<th scope="col" class="text">{heading}</th>' if place in text_columns else f'<th scope="col">{heading}</th>'
        for place, heading in enumerate(headings)
    ]
    return (
        f"<table><caption><span>{caption}</span></caption>\n<thead><tr>{''.join(cells)}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table>"
    )

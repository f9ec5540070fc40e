"""A report as Markdown: what the page says, without its pictures."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from knn_ue.evaluation import DEFINITIONS, escaped
from knn_ue.reasons import percent
from knn_ue.report.cards import Card, cards
from knn_ue.report.headline import NAMES, LeadTable
from knn_ue.report.mistakes import Mistake
from knn_ue.report.wording import (
    COMPARISONS,
    about_intervals,
    about_neighbors,
    difference,
    labeled,
    mistakes_heading,
    shortened,
)
from knn_ue.shown import visible

if TYPE_CHECKING:
    from knn_ue.report.report import Report


def to_markdown(report: "Report") -> str:
    """Return the whole report as Markdown."""
    parts = [f"# {escaped(report.title)}", *map(escaped, report.headline.lead)]
    parts.append("\n".join(["| | | |", "|---|--:|---|", *map(_card, cards(report))]))
    parts += map(_lead_table, report.headline.tables)
    parts.append("\n".join(f"- {escaped(verdict)}" for verdict in report.headline.verdicts))
    parts += [f"> {escaped(note)}" for note in report.notes]
    parts += ["## The numbers", report.evaluation.to_markdown().strip()]
    parts += [f"### {escaped(report.method)} against the others", COMPARISONS, _comparisons(report)]
    parts += ["## Pictures", report.no_pictures or "The pictures are in [report.html](report.html)."]
    parts += ["## Overconfident mistakes", *_mistakes(report)]
    parts += ["## How the numbers are defined"]
    parts.append("\n".join(f"- **{name}**: {meaning}" for name, meaning in DEFINITIONS.items()))
    parts.append(about_intervals(report.evaluation.options))
    parts += ["## How this report was made"]
    parts.append("\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in report.context.items()))
    return "\n\n".join(parts) + "\n"


def _lead_table(table: LeadTable) -> str:
    lines = [table.headings, ["---", *["--:"] * (len(table.headings) - 1)], *table.rows]
    return "\n".join(
        [f"**{escaped(table.caption)}**", "", *(f"| {' | '.join(map(escaped, line))} |" for line in lines)]
    )


def _card(card: Card) -> str:
    return f"| {escaped(card.title)} | {escaped(card.value)} | {escaped(card.note)} |"


def _comparisons(report: "Report") -> str:
    lines = ["| set | in | against | ours | theirs | difference | verdict |", "|---|---|---|--:|--:|--:|---|"]
    for x in report.comparisons:
        cells = (x.set_name, NAMES[x.kind], x.other, x.style.show(x.ours), x.style.show(x.theirs), difference(x))
        lines.append(f"| {' | '.join(map(escaped, (*cells, x.verdict)))} |")
    return "\n".join(lines)


def _mistakes(report: "Report") -> Iterator[str]:
    if not report.mistakes:
        yield "There are no wrong answers to show."
    shown: tuple[str, str] | None = None
    for mistake in report.mistakes:
        if (place := (mistake.set_name, mistake.side)) != shown:
            shown = place
            yield f"### {escaped(mistake.set_name)}: {escaped(mistakes_heading(mistake.side, report.method))}"
        yield "\n".join(f"    {line}" for line in _mistake(mistake))


def _mistake(mistake: Mistake) -> Sequence[str]:
    """Return the lines of a code block, where nothing in a text has a meaning."""
    text = "(no text)" if mistake.text is None else visible(shortened(mistake.text))
    lines = [
        text,
        f"answer {mistake.predicted}, true label {mistake.truth}: "
        f"confidence {percent(mistake.raw_confidence)} before, {percent(mistake.confidence)} after",
    ]
    if (explanation := mistake.explanation) is not None:
        lines.append(about_neighbors(explanation))
        for near in explanation.neighbors:
            said = "agrees " if near.agrees else "differs"
            shown = f"row {near.id}" if near.text is None else visible(shortened(near.text))
            lines.append(f"  {said} {near.distance:8.3f}  {labeled(near)}  {shown}")
    return [" ".join(line.split()) if not line.startswith("  ") else f"  {' '.join(line.split())}" for line in lines]

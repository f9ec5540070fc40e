"""A report as one HTML page that needs nothing else. Every text from outside passes `plain`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from knn_ue.evaluation import DEFINITIONS, RAW, TEST
from knn_ue.reasons import percent
from knn_ue.report.cards import cards
from knn_ue.report.headline import listed
from knn_ue.report.html_page import page
from knn_ue.report.html_tables import (
    comparison_table,
    full_tables,
    key_tables,
    lead_table,
    name_of,
    neighbor_table,
    plain,
    prose,
)
from knn_ue.report.mistakes import Mistake
from knn_ue.report.pictures import Picture, PictureKind
from knn_ue.report.wording import COMPARISONS, about_intervals, about_neighbors, labeled, mistakes_heading, shortened

if TYPE_CHECKING:
    from knn_ue.report.report import Report

_PICTURES: dict[PictureKind, tuple[str, str]] = {
    "reliability": (
        "Does 90 % sure mean 90 % right?",
        "On the dotted diagonal, confidence and accuracy agree. Points below it are overconfident, points above it "
        "underconfident. The bars show how many answers have that confidence.",
    ),
    "risk-coverage": (
        "What if only the most confident answers are used?",
        "Answers are taken from the most to the least confident. The curve is the share of wrong ones among those "
        "taken: the lower, and the later it rises, the better.",
    ),
    "confidence": (
        "How confident are right and wrong answers?",
        "Wrong answers (hatched) should be on the left. Those on the far right would go unchecked.",
    ),
}

_LINKS = {
    "summary": "In short",
    "numbers": "Numbers",
    "reliability": "Reliability",
    "risk-coverage": "Risk and coverage",
    "confidence": "Confidence",
    "mistakes": "Mistakes",
    "definitions": "Definitions",
    "making": "How this report was made",
}
_FEW_COLUMNS = 2  # tables with more sets do not stand side by side


def to_html(report: "Report") -> str:
    """Return the page."""
    sections: dict[str, tuple[str, Iterator[str]]] = {
        "summary": ("In short", _summary(report)),
        "numbers": ("The numbers", _numbers(report)),
        **{str(kind): (heading, _pictures(report, kind, text)) for kind, (heading, text) in _PICTURES.items()},
        "mistakes": ("Overconfident mistakes and their neighbors", _mistakes(report)),
        "definitions": ("How the numbers are defined", _definitions(report)),
        "making": ("How this report was made", _making(report)),
    }
    body = [
        f'<section id="{name}" aria-labelledby="{name}-heading">\n<h2 id="{name}-heading">{plain(heading)}</h2>\n'
        + "\n".join(content)
        + "\n</section>"
        for name, (heading, content) in sections.items()
    ]
    version = report.context.get("knn-ue", "")
    return page(
        report.title,
        links={name: _LINKS[name] for name in sections},
        body=body,
        footer=f"Made with knn-ue {version}. The same numbers are in report.json (fractions) and report.md.",
        name="report",
        about=_about(report),
    )


def _about(report: "Report") -> str:
    elsewhere = [f"{name_of(name)} ({size:,} rows)" for name, size in report.sizes.items() if name != TEST]
    parts = [f"{report.sizes[TEST]:,} test rows, {report.evaluation.n_classes} classes"]
    if elsewhere:
        parts.append(f"out of domain: {listed(elsewhere)}")
    parts.append(f"calibrated with {name_of(report.method)}")
    return " · ".join(parts)


def _summary(report: "Report") -> Iterator[str]:
    """Yield what everyone should see: the picture, a sentence per set, four cards; then tables and verdicts."""
    sentences = "".join(f"<p>{prose(sentence)}</p>" for sentence in report.headline.lead)
    first = _headline_picture(report)
    shown = "" if first is None else _figure(first, _PICTURES["reliability"])
    yield f'<div class="opening">{shown}<div><div class="card lead">{sentences}</div><dl class="tiles">'
    for card in cards(report):
        yield f'<div><dt>{plain(card.title)}</dt><dd class="big">{prose(card.value)}</dd>'
        yield f'<dd class="{card.verdict or "soft"}">{plain(card.note)}</dd></div>'
    yield "</dl></div></div>"
    yield from map(lead_table, report.headline.tables)
    verdicts = "".join(f"<li>{prose(verdict)}</li>" for verdict in report.headline.verdicts)
    yield f'<div class="card verdicts"><ul>{verdicts}</ul></div>'
    for note in report.notes:
        yield f'<div class="card note"><p>{plain(note)}</p></div>'


def _headline_picture(report: "Report") -> Picture | None:
    """Return the picture that stands at the head: whether confidence and accuracy agree in domain."""
    return next((x for x in report.pictures if (x.kind, x.set_name) == ("reliability", TEST)), None)


def _numbers(report: "Report") -> Iterator[str]:
    yield (
        f"<p>{name_of(RAW)} is the uncalibrated model. “Best” is marked only where it beats raw"
        f"{' and their intervals do not overlap' if report.evaluation.options.n_bootstrap else ''}. "
        "The small print under a number is its interval.</p>"
    )
    n_columns = sum(name in report.evaluation.tables for name in report.sizes)
    yield f'<div class="grid{" broad" if n_columns > _FEW_COLUMNS else ""}">{"".join(key_tables(report))}</div>'
    yield "<h3>Which differences are significant?</h3>"
    yield f"<p>{plain(COMPARISONS)}</p>{comparison_table(report)}"
    yield "<details><summary>Every number</summary>"
    yield from full_tables(report.evaluation, report.method)
    yield "</details>"


def _pictures(report: "Report", kind: PictureKind, text: str) -> Iterator[str]:
    first = _headline_picture(report)
    pictures = [picture for picture in report.pictures if picture.kind == kind and picture is not first]
    if not pictures and report.pictures and kind == "reliability" and first is not None:
        yield '<p>The picture is <a href="#summary">at the top of this report</a>.</p>'
        return
    yield f"<p>{plain(text if pictures else report.no_pictures or 'No set has labels.')}</p>"
    if pictures:
        yield '<div class="grid">'
        yield from map(_figure, pictures)
        yield "</div>"


def _figure(picture: Picture, introduced: tuple[str, str] | None = None) -> str:
    """Return a picture with its caption; the one at the head is `introduced` by a title and what to look for."""
    svg = picture.svg.replace("<svg ", f'<svg role="img" aria-label="{plain(picture.alt)}" ', 1)
    where = "in domain" if picture.set_name == TEST else "out of domain"
    caption = f"<strong>{name_of(picture.set_name)}</strong> ({where}). {prose(picture.description)}"
    if introduced is None:
        return f'<figure class="card"><div class="paper">{svg}</div>\n<figcaption>{caption}</figcaption></figure>'
    question, what_to_look_for = map(prose, introduced)
    return (
        f'<figure class="card headline"><p class="question">{question}</p><div class="paper">{svg}</div>\n'
        f"<figcaption>{what_to_look_for}<br>{caption}</figcaption></figure>"
    )


def _mistakes(report: "Report") -> Iterator[str]:
    if not report.mistakes:
        yield "<p>There are no wrong answers to show.</p>"
        return
    if report.explained_by is None:
        yield "<p>No neighbors are shown: that needs a method that explains, such as knn-ue, and row features.</p>"
    else:
        yield f"<p>Neighbors are the nearest examples with a label, found by {name_of(report.explained_by)}.</p>"
    for set_name in dict.fromkeys(mistake.set_name for mistake in report.mistakes):
        yield f"<h3>{name_of(set_name)}</h3>"
        for side in ("before", "after"):
            found = [x for x in report.mistakes if (x.set_name, x.side) == (set_name, side)]
            if found:
                heading = mistakes_heading(side, report.method)
                yield f"<details{' open' if set_name == TEST else ''}><summary>{plain(heading)}</summary>"
                yield from map(_mistake, found)
                yield "</details>"


def _mistake(mistake: Mistake) -> str:
    facts = {
        "answer": name_of(mistake.predicted),
        "true label": name_of(mistake.truth),
        "confidence before": prose(percent(mistake.raw_confidence)),
        "confidence after": prose(percent(mistake.confidence)),
    }
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    text = f"(row {mistake.row} has no text)" if mistake.text is None else shortened(mistake.text)
    table = ""
    if (explanation := mistake.explanation) is not None:
        caption = about_neighbors(explanation)
        lines = [
            (
                "agrees" if near.agrees else "differs",
                labeled(near),
                f"{near.distance:.3f}",
                f"(row {near.id})" if near.text is None else shortened(near.text),
            )
            for near in explanation.neighbors
        ]
        table = neighbor_table(caption, lines)
    label = f"mistake in row {mistake.row} of {mistake.set_name}"
    return (
        f'<article class="card" aria-label="{plain(label)}"><blockquote dir="auto">{plain(text)}</blockquote>\n'
        f'<dl class="facts">{shown}</dl>{table}</article>'
    )


def _definitions(report: "Report") -> Iterator[str]:
    terms = "".join(f"<dt>{plain(name)}</dt><dd>{plain(meaning)}</dd>" for name, meaning in DEFINITIONS.items())
    yield f'<dl class="terms">{terms}</dl>'
    yield f"<p>{plain(about_intervals(report.evaluation.options))}</p>"


def _making(report: "Report") -> Iterator[str]:
    facts = dict(report.context) | {f"rows of {name}": f"{size:,}" for name, size in report.sizes.items()}
    terms = "".join(f"<div><dt>{plain(name)}</dt><dd>{name_of(value)}</dd></div>" for name, value in facts.items())
    yield f'<dl class="facts">{terms}</dl>'

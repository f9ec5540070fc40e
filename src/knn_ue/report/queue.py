"""A review queue as one page: what is let through, and the rows that a person sees first, the surest errors on top."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from knn_ue.reasons import percent
from knn_ue.report.html_page import page
from knn_ue.report.html_tables import plain, prose
from knn_ue.report.wording import shortened

MOST_SHOWN = 500


def queue_page(
    title: str, sentences: Sequence[str], lines: Iterable[Mapping[str, Any]], *, more: int, made: str
) -> str:
    """Return the page; `lines` are those for a person, in order, and `more` how many of them are left out."""
    return page(
        title,
        links={"first": "What a person sees first"},
        body=_body(sentences, lines, more),
        footer=made,
        name="queue",
    )


def _body(sentences: Sequence[str], lines: Iterable[Mapping[str, Any]], more: int) -> Iterator[str]:
    said = "".join(f"<p>{prose(sentence[:1].upper() + sentence[1:])}.</p>" for sentence in sentences)
    yield f'<div class="card lead">{said}</div>'
    yield '<h2 id="first">What a person sees first</h2>'
    yield from map(_row, lines)
    if more:
        yield f"<p>{more:,} more rows are in the other formats of this queue: write it as .csv or .jsonl.</p>"


def _row(line: Mapping[str, Any]) -> str:
    facts = {"answer": _answer(line), "probably wrong": percent(line["probably_wrong"])}
    facts |= {"own score": percent(line["raw_score"])} if line.get("raw_score") is not None else {}
    facts |= {"likelier": str(line["suggested"])} if line.get("suggested") else {}
    shown = "".join(f"<div><dt>{plain(name)}</dt><dd>{prose(value)}</dd></div>" for name, value in facts.items())
    texts = "".join(f"<blockquote dir=auto>{plain(shortened(text))}</blockquote>" for text in _texts(line))
    return (
        f'<section class="card"><dl class="facts"><div><dt>place</dt><dd>{line["place"]}</dd></div>{shown}</dl>{texts}'
        f"{_warning(line)}</section>"
    )


def _warning(line: Mapping[str, Any]) -> str:
    return f'<p class="soft">{plain(line["why"])}</p>' if line.get("unfamiliar") else ""


def _answer(line: Mapping[str, Any]) -> str:
    if "entities" in line:
        found = [f"{entity['type'] or entity['would_be']}: {entity['text']}" for entity in line["entities"]]
        return "; ".join(found) or "no entity"
    label = line.get("label")
    return str(line.get("would_be") if label is None else label) or "nothing"


def _texts(line: Mapping[str, Any]) -> list[str]:
    if "words" in line and "text" not in line:
        return [" ".join(word["word"] for word in line["words"])]
    return [str(line[name]) for name in ("text", "premise", "hypothesis") if name in line]

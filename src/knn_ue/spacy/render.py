"""displaCy with confidence: color and number for each entity, a dashed frame for what may have been missed."""

from html import escape
from typing import Any

from knn_ue.spacy.attributes import AttributeNames

# From unsure to sure; light enough for black text, and apart in brightness too, for readers who do not see color.
_STEPS = ((0.5, "#f4a582"), (0.7, "#fddbc7"), (0.9, "#d1e5f0"), (1.01, "#a6dba0"))
_NOT_SCORED = "#dddddd"
_MARK = (
    '<mark class="entity" style="background: {color}; padding: 0.35em 0.5em; margin: 0 0.25em; line-height: 1; '
    'border-radius: 0.35em; border: {border};" title="{title}">{text}'
    '<span style="font-size: 0.8em; font-weight: bold; line-height: 1; margin-left: 0.5rem">{label}</span></mark>'
)


def render(doc: Any, *, attributes: AttributeNames | None = None, page: bool = False) -> str:
    """Return the doc as HTML: each entity in a color by its confidence, with the number beside its type.

    A dashed frame with a question mark is a span that may be an entity the model missed; hovering shows the reasons.
    """
    names = attributes or AttributeNames()
    marks = [(ent.start_char, ent.end_char, _entity(ent, names)) for ent in doc.ents]
    marks += [(span.start_char, span.end_char, _missed(span, names)) for span in doc._.get(names.likely_missed)]
    parts, at = [], 0
    for start, end, mark in sorted(marks):
        parts += [escape(doc.text[at:start]), mark]
        at = end
    parts.append(escape(doc.text[at:]))
    body = "".join(parts).replace("\n", "<br>")
    figure = f'<div class="entities" style="line-height: 2.5; direction: ltr">{body}{_summary(doc, names)}</div>'
    if not page:
        return figure
    head = '<meta charset="utf-8"><title>Entities</title>'
    return f'<!DOCTYPE html>\n<html lang="{escape(doc.lang_)}">{head}{figure}</html>\n'


def _entity(ent: Any, names: AttributeNames) -> str:
    confidence = ent._.get(names.confidence)
    if confidence is None:
        return _mark(ent, _NOT_SCORED, "none", ent.label_, "no score")
    raised, lowered = (ent._.get(name) or [] for name in (names.raised_by, names.lowered_by))
    reasons = [f"{verb} by {', '.join(found)}" for verb, found in (("raised", raised), ("lowered", lowered)) if found]
    color = next(color for limit, color in _STEPS if confidence < limit)
    return _mark(ent, color, "none", f"{ent.label_} {confidence:.2f}", "; ".join(reasons))


def _missed(span: Any, names: AttributeNames) -> str:
    label = f"{span.label_}? {span._.get(names.confidence):.2f}"
    return _mark(span, "transparent", "2px dashed #777777", label, "may be an entity that was missed")


def _mark(span: Any, color: str, border: str, label: str, title: str) -> str:
    return _MARK.format(color=color, border=border, title=escape(title), text=escape(span.text), label=escape(label))


def _summary(doc: Any, names: AttributeNames) -> str:
    confidence = doc._.get(names.confidence)
    if confidence is None:
        return ""
    return f'<p style="font-size: 0.8em">all entities right and none missed: {confidence:.2f}</p>'

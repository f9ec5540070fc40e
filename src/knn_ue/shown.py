"""How objects show themselves: a line at a prompt, a table in a notebook. Whatever comes from data is escaped."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape

# Control characters but tab and line end, marks that turn the direction of writing, line ends of other scripts.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_CELL = 'style="text-align: left; vertical-align: top"'


def visible(text: str) -> str:
    """Return `text` with what would steer a terminal written as escapes, which JSON reads as the characters they are.

    >>> visible(chr(27) + "[2J cleared")
    '\\\\u001b[2J cleared'
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def on_one_line(text: str) -> str:
    """Return `text` so that it can neither begin a line of its own nor steer a terminal."""
    return visible(" ".join(text.splitlines()))


class Shown(ABC):
    """An object that tells what it is by its `facts`."""

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """Return a summary, by name."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self.facts().items())})"

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self.facts())


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a table with a row per fact."""
    return table_html((), [(name, str(value)) for name, value in facts.items()], caption=title)


def table_html(heading: Sequence[str], lines: Sequence[Sequence[str]], *, caption: str = "", bold: str = "") -> str:
    """Return a table; a cell that begins with `bold`, if that is given, is set in bold without it.

    >>> table_html(["a"], [["<b>"]])
    '<table><thead><tr><th style="text-align: left; vertical-align: top">a</th></tr></thead>\
<tbody><tr><td style="text-align: left; vertical-align: top">&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in heading)
    title = f'<caption style="text-align: left; font-weight: bold">{escape(caption)}</caption>' if caption else ""
    body = "".join(f"<tr>{''.join(_cell(cell, bold) for cell in line)}</tr>" for line in lines)
    return f"<table>{title}{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def text_html(text: str) -> str:
    """Return a paragraph that keeps the lines of the text."""
    return f'<pre style="white-space: pre-wrap">{escape(text)}</pre>'


def _cell(text: str, bold: str) -> str:
    if bold and text.startswith(bold):
        return f"<td {_CELL}><b>{escape(text.removeprefix(bold))}</b></td>"
    return f"<td {_CELL}>{escape(text)}</td>"

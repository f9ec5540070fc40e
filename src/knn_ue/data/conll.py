"""CoNLL columns: one token a line, the tag in the last column, a blank line between sentences."""

import re
from collections.abc import Iterator
from pathlib import Path

from knn_ue.data.lines import RAISE_WORDS, Limits, Place, read_lines
from knn_ue.data.reading import check_text
from knn_ue.data.tags import Sentence, is_tag

# Not str.split(): a no-break space may be part of a token.
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT = "-DOCSTART-"


def read_conll(path: Path, *, labeled: bool, limits: Limits) -> Iterator[Sentence]:
    """Yield the sentences of a file of columns, separated by tabs or spaces, with the tags as they stand there.

    Lines that begin with `-DOCSTART-` part sentences and are no tokens. A comment begins with "# " and does not end in
    a tag: a token "#" with its tag is a token, and so is, inside a sentence, a line of as many columns as the others.
    All lines must have one number of columns.
    """
    tokens: list[str] = []
    tags: list[str] = []
    places: list[Place] = []
    n_columns = 0
    for place, line in read_lines(path, limits):
        columns = _columns(line)
        if not columns or columns[0] == _DOCUMENT:
            if tokens:
                yield Sentence(tuple(tokens), tuple(tags), tuple(places), {"place": places[0]})
                tokens, tags, places = [], [], []
            continue
        if _is_comment(line, columns) and not (tokens and len(columns) == n_columns):
            continue
        n_columns = n_columns or len(columns)
        _check_columns(columns, n_columns, place, labeled=labeled)
        if len(tokens) == limits.sentence_words:
            raise place.error(limits.words_rule, columns[0], RAISE_WORDS.python, shell=RAISE_WORDS.shell)
        tokens.append(check_text(columns[0], "a token", place))
        places.append(place)
        if labeled:
            tags.append(columns[-1])
    if tokens:
        yield Sentence(tuple(tokens), tuple(tags), tuple(places), {"place": places[0]})


def _columns(line: str) -> list[str]:
    line = line.rstrip("\r\n")
    if not line.strip(" \t"):
        return []
    return [column.strip(" ") for column in line.split("\t")] if "\t" in line else _BLANKS.split(line.strip(" "))


def _is_comment(line: str, columns: list[str]) -> bool:
    return line.startswith("# ") and not (len(columns) > 1 and is_tag(columns[-1]))


def _check_columns(columns: list[str], n_columns: int, place: Place, *, labeled: bool) -> None:
    if labeled and len(columns) < 2:
        raise place.error("a line must hold a token and its tag", columns[0], "add the tag as the last column")
    if len(columns) != n_columns:
        raise place.error(
            f"every line must have as many columns as the first ({n_columns}), this one has {len(columns)}",
            "\t".join(columns),
            "correct the line (a comment begins with '# ' and does not end in a tag)",
        )
    if labeled and not is_tag(columns[-1]):
        raise place.error(
            "the last column must be a tag such as O, B-PER or I-PER", columns[-1], "correct it or reorder the columns"
        )

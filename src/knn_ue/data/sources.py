"""Named sources, allowed wherever a file is: `vader:movies`, `hub:owner/name:split`, `paper:imdb:test`."""

from collections.abc import Iterator, Sequence
from typing import Any

from knn_ue.data.hub import HubName, read_hub
from knn_ue.data.lines import shorten
from knn_ue.data.presets import paper_split, read_paper
from knn_ue.data.reading import Reading
from knn_ue.data.rows import Row, without_label
from knn_ue.data.vader import read_vader
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import Task

NAMED = ("vader:", "hub:", "paper:")  # how the name of a source begins


def read_named(source: str, reading: Reading) -> Iterator[Row]:
    """Yield the rows of a named source.

    `vader:SET[:SPLIT][?ambiguous=drop]`, SET one of movies, amazon, nyt, tweets, SPLIT one of train, validation, test;
    `hub:OWNER/NAME[/CONFIG]:SPLIT[?unlabeled=drop]`; `paper:SET:SPLIT[?path=FILE]`.
    """
    prefix, _, rest = source.partition(":")
    if prefix == "hub":
        rest = rest.replace("?unlabelled=", "?unlabeled=")  # as earlier versions spelled it
        rest, options = _options(source, rest, ["unlabeled"])
        return read_hub(HubName.parse(rest), reading, **options)
    if prefix == "vader":
        rest, options = _options(source, rest, ["ambiguous"])
        _check_task(source, reading.task, "text-classification")
        name, colon, split = rest.partition(":")
        rows: Iterator[Row] = read_vader(name, split=split if colon else "all", **options)  # type: ignore[arg-type]
    else:
        rest, options = _options(source, rest, ["path"])
        name, _, split = rest.partition(":")
        _check_task(source, reading.task, paper_split(name, split)[0])
        rows = read_paper(name, split, scheme=reading.scheme, **options)
    return rows if reading.labeled else map(without_label, rows)


def _options(source: str, rest: str, known: Sequence[str]) -> tuple[str, dict[str, Any]]:
    name, question, query = rest.partition("?")
    if not question:
        return name, {}
    option, equals, value = query.partition("=")
    if option not in known or not equals:
        raise InvalidInputError(f"the option of {shorten(source)} must be ?{known[0]}=..., got {shorten(query)}")
    return name, {option: value}


def _check_task(source: str, task: Task, offered: Task) -> None:
    if task != offered:
        raise InvalidInputError(f"{shorten(source)} is a source for the task {offered}, got {task!r}")

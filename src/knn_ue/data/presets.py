"""The paper's data sets with the paper's splits, as data: `paper:imdb:test`, `paper:ontonotes-bn:train?path=FILE`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from knn_ue.data.conll import read_conll
from knn_ue.data.datasets import rows_of
from knn_ue.data.hub import HubName, load_split
from knn_ue.data.lines import check_file, default_limits, shorten
from knn_ue.data.reading import Reading, at_least_one
from knn_ue.data.rows import Row, TaggedRow
from knn_ue.data.splits import half_of
from knn_ue.data.tags import TagScheme, tagged_rows
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import Task

# The paper does not publish its draw: ours is `half_of` with this seed, so that everybody has the same halves.
HALVING_SEED = 0


@dataclass(frozen=True, kw_only=True)
class PaperSplit:
    """One split: where it comes from, which half of it, and how many rows the paper counts.

    `source` is None where the license forbids redistribution and the user names a file of columns. `labels` renames
    the labels of the source.
    """

    n_rows: int
    source: HubName | None = None
    half: Literal["first", "second"] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PaperSet:
    """The task of a set and its splits by name."""

    task: Task
    splits: Mapping[str, PaperSplit]


def _hub(dataset: str, split: str) -> HubName:
    return HubName(dataset, None, split)


PAPER_SETS: Mapping[str, PaperSet] = {
    "imdb": PaperSet(
        task="text-classification",
        splits={
            "train": PaperSplit(n_rows=25_000, source=_hub("stanfordnlp/imdb", "train")),
            "validation": PaperSplit(n_rows=12_500, source=_hub("stanfordnlp/imdb", "test"), half="first"),
            "test": PaperSplit(n_rows=12_500, source=_hub("stanfordnlp/imdb", "test"), half="second"),
        },
    ),
    # The hub's test part has 38,000 rows, twice the paper's number: we take the half that is the test half elsewhere.
    "yelp": PaperSet(
        task="text-classification",
        splits={
            "test": PaperSplit(
                n_rows=19_000,
                source=_hub("fancyzhx/yelp_polarity", "test"),
                half="second",
                labels={"1": "neg", "2": "pos"},
            )
        },
    ),
    "mnli": PaperSet(
        task="text-pair",
        splits={
            "train": PaperSplit(n_rows=392_702, source=_hub("nyu-mll/multi_nli", "train")),
            "validation": PaperSplit(
                n_rows=4_907, source=_hub("nyu-mll/multi_nli", "validation_matched"), half="first"
            ),
            "test": PaperSplit(n_rows=4_908, source=_hub("nyu-mll/multi_nli", "validation_matched"), half="second"),
        },
    ),
    # 10,000 pairs, of which 176 have no gold label (-1) and are left out.
    "snli": PaperSet(
        task="text-pair", splits={"test": PaperSplit(n_rows=9_824, source=_hub("stanfordnlp/snli", "test"))}
    ),
    "ontonotes-bn": PaperSet(
        task="token-classification",
        splits={
            "train": PaperSplit(n_rows=10_683),
            "validation": PaperSplit(n_rows=1_295),
            "test": PaperSplit(n_rows=1_357),
        },
    ),
    "ontonotes-nw": PaperSet(task="token-classification", splits={"test": PaperSplit(n_rows=2_327)}),
    "ontonotes-tc": PaperSet(task="token-classification", splits={"test": PaperSplit(n_rows=1_366)}),
}


def paper_split(name: str, split: str) -> tuple[Task, PaperSplit]:
    """Return the task and the split named `paper:name:split`.

    >>> task, split = paper_split("mnli", "test")
    >>> task, split.n_rows, str(split.source), split.half
    ('text-pair', 4908, 'hub:nyu-mll/multi_nli:validation_matched', 'second')
    """
    found = PAPER_SETS.get(name)
    if found is None:
        raise InvalidInputError(f"a paper set must be one of {', '.join(PAPER_SETS)}, got {name!r}")
    if split not in found.splits:
        raise InvalidInputError(f"paper:{name} has the splits {', '.join(found.splits)}, got {split!r}")
    return found.task, found.splits[split]


def read_paper(name: str, split: str, *, path: str | Path | None = None, scheme: TagScheme = "auto") -> Iterator[Row]:
    """Yield the rows of a split of the paper.

    A set of the hub must have exactly the paper's number of rows, else the last row is followed by an error. For the
    OntoNotes sets, which their license keeps off the hub, `path` names a file of CoNLL columns, taken as it is.
    """
    task, chosen = paper_split(name, split)
    if chosen.source is None:
        if path is None:
            raise InvalidInputError(
                f"paper:{name}:{split} cannot be fetched, because its license forbids it: "
                f"name your own file of columns, paper:{name}:{split}?path=FILE"
            )
        file = Path(path).expanduser()
        check_file(file)
        limits = default_limits()
        return at_least_one(tagged_rows(lambda: read_conll(file, labeled=True, limits=limits), scheme), str(file))
    if path is not None:
        raise InvalidInputError(f"paper:{name}:{split} comes from the hub and takes no path, got {shorten(str(path))}")
    return _counted(_from_hub(chosen, chosen.source, task), f"paper:{name}:{split}", chosen)


def _from_hub(chosen: PaperSplit, source: HubName, task: Task) -> Iterator[Row]:
    dataset = load_split(source)
    if chosen.half is not None:
        wanted = half_of(len(dataset), second=chosen.half == "second", seed=HALVING_SEED)
        dataset = dataset.select(sorted(wanted))
    rows = rows_of(dataset, str(source), Reading(task=task), unlabeled="drop")
    return (_renamed(row, chosen.labels, source) for row in rows)


def _renamed(row: Row, labels: Mapping[str, str], source: HubName) -> Row:
    if not labels or isinstance(row, TaggedRow) or row.label is None:
        return row
    if row.label not in labels:
        raise InvalidInputError(f"the labels of {source} must be {', '.join(labels)}, got {row.label!r}")
    return replace(row, label=labels[row.label])


def _counted(rows: Iterator[Row], name: str, chosen: PaperSplit) -> Iterator[Row]:
    n_rows = 0
    for row in rows:
        n_rows += 1
        yield row
    if n_rows != chosen.n_rows:
        raise InvalidInputError(
            f"{name} has {chosen.n_rows} rows in the paper but {n_rows} in {chosen.source}: "
            "the hub's version has changed, read it with hub: and state your own split"
        )

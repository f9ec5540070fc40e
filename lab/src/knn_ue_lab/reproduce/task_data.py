"""The rows of a setup: read, drawn, and made to fit the labels the model will know."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from knn_ue.data import Row, TaggedRow, Task, TextRow, read_rows
from knn_ue.data.splits import half_of, seeded_order
from knn_ue.demo.cache import key_of, key_of_rows
from knn_ue.errors import InvalidInputError
from knn_ue_lab.reproduce.scales import Scale
from knn_ue_lab.reproduce.setups import Role, ScoredSet, Setup

_SHOWN_LABELS = 3
_SEED = 0  # of every draw of rows: seeds of experiments change the training, never the data


@dataclass(frozen=True, kw_only=True, eq=False)
class SetRows:
    """The drawn rows of one test set.

    `labeled` says whether the model knows their labels. `ignored` are entity types that the set does not annotate:
    what the model finds of them counts as O. `n_dropped` rows of all `n_rows_read` had labels the model does not know;
    `unknown` are those labels, or the types of entities that were turned into O. Of the drawn rows, `n_trained_on`
    have the text of a training row.
    """

    name: str
    role: Role
    rows: list[Row]
    labeled: bool
    ignored: frozenset[str] = frozenset()
    n_rows_read: int = 0
    n_dropped: int = 0
    unknown: frozenset[str] = frozenset()
    n_trained_on: int = 0

    @cached_property
    def key(self) -> str:
        """A short name for all that the scores of this set depend on."""
        return key_of(key_of_rows(self.rows), self.labeled, sorted(self.ignored))


class TaskData:
    """All rows of a setup at a scale, read when they are first asked for."""

    def __init__(self, setup: Setup, scale: Scale) -> None:
        self.setup, self.scale = setup, scale
        self.task: Task = setup.task

    @cached_property
    def train(self) -> list[Row]:
        """The rows to learn from, which also fill the datastore."""
        return draw(read_rows(self.setup.train, self.task), self.scale.train_rows.get(self.setup.name))

    @cached_property
    def train_key(self) -> str:
        """A short name for the training rows and those that stop the training."""
        return key_of(key_of_rows(self.train), key_of_rows(self.stopping))

    @property
    def stopping(self) -> list[Row]:
        """The validation rows that decide when to stop training."""
        return self._validation[0]

    @property
    def fitting(self) -> list[Row]:
        """The validation rows that a method is fitted on."""
        return self._validation[1]

    @cached_property
    def known(self) -> frozenset[str]:
        """The labels of the training rows; in tagging the types of entities."""
        return labels_of(self.train)

    @cached_property
    def sets(self) -> dict[str, SetRows]:
        """The test sets by name."""
        return {one.name: self.read_set(one) for one in self.setup.sets}

    @cached_property
    def scores_key(self) -> str:
        """A short name for all rows that scores depend on beside the model."""
        return key_of(key_of_rows(self.fitting), {name: found.key for name, found in self.sets.items()})

    @cached_property
    def _seen(self) -> set[tuple[str, ...]]:
        return {input_of(row) for row in self.train}

    @cached_property
    def _validation(self) -> tuple[list[Row], list[Row]]:
        drawn = draw(read_rows(self.setup.validation, self.task), self.scale.validation_rows)
        rows, _ = fit_labels(drawn, self.known)
        if self.scale.shared_validation:
            return rows, rows
        first = half_of(len(rows), second=False, seed=_SEED)
        if not first:
            raise InvalidInputError(
                f"{self.setup.validation} has {len(rows)} rows with a label of the training rows (it has "
                f"{some(labels_of(drawn))}; they have {some(self.known)}): at least 2 are needed, add some"
            )
        return (
            [row for number, row in enumerate(rows) if number in first],
            [row for number, row in enumerate(rows) if number not in first],
        )

    def read_set(self, wanted: ScoredSet) -> SetRows:
        """Return the rows of a test set; one that uses none of the known labels is used only for OOD detection."""
        rows = [row for source in wanted.sources for row in read_rows(source, self.task)]
        usable, ignored = fit_labels(rows, self.known)
        labeled = bool(usable) and wanted.role != "outside" and not (ignored and ignored == self.known)
        drawn = draw(usable if labeled else rows, self.scale.test_rows.get(self.setup.name))
        return SetRows(
            name=wanted.name,
            role=wanted.role if labeled else "outside",
            rows=drawn,
            labeled=labeled,
            ignored=ignored if labeled else frozenset(),
            n_rows_read=len(rows),
            n_dropped=len(rows) - len(usable) if labeled else 0,
            unknown=labels_of(rows) - self.known if labeled else frozenset(),
            n_trained_on=sum(input_of(row) in self._seen for row in drawn),
        )


def draw(rows: Iterable[Row], n_rows: int | None) -> list[Row]:
    """Return at most `n_rows` rows in a random order that is the same everywhere: files may be sorted by label."""
    found = list(rows)
    return [found[number] for number in seeded_order(len(found), seed=_SEED)[:n_rows]]


def input_of(row: Row) -> tuple[str, ...]:
    """Return what a model sees of a row.

    >>> input_of(TaggedRow(("Ada", "wrote"), ("B-PER", "O")))
    ('Ada', 'wrote')
    """
    if isinstance(row, TaggedRow):
        return row.tokens
    return (row.text,) if isinstance(row, TextRow) else (row.premise, row.hypothesis)


def labels_of(rows: Sequence[Row]) -> frozenset[str]:
    """Return the labels of rows; of tagged ones the types of their entities.

    >>> sorted(labels_of([TaggedRow(("Ada", "in", "Oslo"), ("B-PER", "O", "B-LOC"))]))
    ['LOC', 'PER']
    """
    found: set[str] = set()
    for row in rows:
        if isinstance(row, TaggedRow):
            found |= {kind_of(tag) for tag in row.tags or ()} - {""}
        elif row.label is not None:
            found.add(row.label)
    return frozenset(found)


def some(labels: Collection[str]) -> str:
    """Return the first labels in words.

    >>> some({"neg", "pos"}), some(set("abcde")), some(())
    ('neg, pos', 'a, b, c and 2 more', 'none')
    """
    shown = sorted(labels)
    more = f" and {len(shown) - _SHOWN_LABELS} more" if len(shown) > _SHOWN_LABELS else ""
    return f"{', '.join(shown[:_SHOWN_LABELS])}{more}" if shown else "none"


def fit_labels(rows: Sequence[Row], known: frozenset[str]) -> tuple[list[Row], frozenset[str]]:
    """Return the rows as a model that knows only `known` labels can be scored on them, and the types they never use.

    A text whose label is not known is left out. In tagging nothing is left out: an entity of a type that is not known
    becomes O, and known types that no row uses are returned, since such a set does not annotate them.

    >>> rows, unused = fit_labels([TaggedRow(("Ada", "1st"), ("B-PER", "B-ORD"))], frozenset({"PER", "MISC"}))
    >>> rows[0].tags, unused
    (('B-PER', 'O'), frozenset({'MISC'}))
    """
    if not any(isinstance(row, TaggedRow) for row in rows):
        return [row for row in rows if not isinstance(row, TaggedRow) and row.label in known], frozenset()
    tagged = [row for row in rows if isinstance(row, TaggedRow)]
    usable: list[Row] = [
        replace(row, tags=tuple(tag if kind_of(tag) in known else "O" for tag in row.tags or ())) for row in tagged
    ]
    return usable, known - labels_of(tagged)


def kind_of(tag: str) -> str:
    """Return the type of an IOB2 tag, nothing for O.

    >>> kind_of("B-PER"), kind_of("O")
    ('PER', '')
    """
    return tag.partition("-")[2]

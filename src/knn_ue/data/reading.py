"""Records of any source -> rows: one way for files, frames and data sets."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from knn_ue.data.columns import Columns
from knn_ue.data.faults import OnError, stop
from knn_ue.data.fields import Fields, Record, origin_of, pair_row, text_row, tokens_and_tags
from knn_ue.data.limits import RAISE_WORDS, Limits, default_limits
from knn_ue.data.lines import Place
from knn_ue.data.rows import Row
from knn_ue.data.tags import Sentence, TagScheme, tagged_rows
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task

Records = Iterable[tuple[Place, Record]]
OPTIONAL = ("label_counts", "domain", "sample_weight")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How rows are read; see `knn_ue.data.read_rows`. With `extras` a row keeps the columns that are not ours."""

    task: Task
    labeled: bool = True
    scheme: TagScheme = "auto"
    columns: Columns = field(default_factory=Columns)
    limits: Limits = field(default_factory=default_limits)
    extras: bool = False
    on_error: OnError = stop

    @property
    def needed(self) -> dict[str, str]:
        """The column of each key that a row must have."""
        named = self.columns.of(self.task)
        return {key: named[key] for key in TASKS[self.task].keys(labeled=self.labeled)}

    @property
    def wanted(self) -> list[str]:
        """The columns that are read where not all of them are."""
        return [*self.needed.values(), *OPTIONAL]

    def rows(self, records: Callable[[], Records]) -> Iterator[Row]:
        """Yield a row for each record; `records` is called twice where the scheme of tags must be found first."""
        if TASKS[self.task].is_tagging:
            return tagged_rows(lambda: self._sentences(records()), self.scheme, labeled=self.labeled)
        return self._plain_rows(records())

    def _plain_rows(self, records: Records) -> Iterator[Row]:
        build = pair_row if TASKS[self.task].is_pair else text_row
        columns = self.columns.of(self.task)
        for place, record in records:
            try:
                row = build(Fields(record, place, columns), labeled=self.labeled, extra=self._extra(record, columns))
            except InvalidInputError as error:
                self.on_error(error)
                continue
            yield row

    def _sentences(self, records: Records) -> Iterator[Sentence]:
        columns = self.columns.of(self.task)
        for place, record in records:
            try:
                self.check_words(record.get(columns["tokens"]), place)
                tokens, tags = tokens_and_tags(Fields(record, place, columns), labeled=self.labeled)
                extra = self._extra(record, columns)
                origin = origin_of(record, place, labeled=self.labeled, extra=extra)
            except InvalidInputError as error:
                self.on_error(error)
                continue
            yield Sentence(tokens, tags, (place,) * len(tokens), origin)

    def check_words(self, words: object, place: Place) -> None:
        """Raise where a sentence is longer than the limit."""
        if isinstance(words, list) and len(words) > self.limits.sentence_words:
            raise place.error(self.limits.words_rule, len(words), RAISE_WORDS.python, shell=RAISE_WORDS.shell)

    def _extra(self, record: Record, columns: Mapping[str, str]) -> dict[str, Any] | None:
        if not self.extras:
            return None
        inputs = {columns[key] for key in TASKS[self.task].input_keys}
        return {str(name): value for name, value in record.items() if name not in inputs}

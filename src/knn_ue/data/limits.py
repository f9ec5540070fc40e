"""How large a row may be and how long a pipe is waited for: a file that is not what it seems must not take it all."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from knn_ue.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What `read_rows` accepts; the command line raises it with the options that stand before the command.

    `row_bytes` of one row, a CSV record of many lines included (`--max-row-mib`); `sentence_words` of one sentence
    (`--max-words`); `pipe_seconds` until a pipe gives its first byte (`--pipe-seconds`).
    """

    row_bytes: int = 4 << 20
    sentence_words: int = 100_000
    pipe_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InvalidInputError(f"{name} must be a number above 0, got {value!r}")

    @property
    def row_rule(self) -> str:
        """The rule that a long row breaks."""
        return f"a row must be shorter than {self.row_bytes / (1 << 20):g} MiB"

    @property
    def words_rule(self) -> str:
        """The rule that a long sentence breaks."""
        return f"a sentence must have at most {self.sentence_words} words"


@dataclass(frozen=True)
class WayOut:
    """How to go on where a limit is reached, in Python and at a command line."""

    python: str
    shell: str


RAISE_ROW = WayOut(
    "check line ends and quotes, or raise it: read_rows(limits=Limits(row_bytes=N))",
    "check line ends and quotes, or raise it: knn-ue --max-row-mib N ...",
)
RAISE_WORDS = WayOut(
    "split the sentence, or raise it: read_rows(limits=Limits(sentence_words=N))",
    "split the sentence with blank lines, or raise it: knn-ue --max-words N ...",
)
RAISE_PIPE = WayOut(
    "start its writer, or raise it: read_rows(limits=Limits(pipe_seconds=S))",
    "start its writer, or raise it: knn-ue --pipe-seconds S ...",
)

_default: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 (frozen)


def default_limits() -> Limits:
    """Return the limits where none are given."""
    return _default.get()


@contextmanager
def use_limits(limits: Limits) -> Iterator[None]:
    """Let readers that are started in the block, and are given no limits, have these."""
    token = _default.set(limits)
    try:
        yield
    finally:
        _default.reset(token)

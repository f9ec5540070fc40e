"""What is done about a row that breaks a rule: stop, or leave it out and say so."""

from collections.abc import Callable
from typing import NoReturn

from knn_ue.errors import InvalidInputError

OnError = Callable[[InvalidInputError], None]

_LISTED = 20


class UnlabeledError(InvalidInputError):
    """A row has the column of labels, and nothing in it."""


def stop(error: InvalidInputError) -> NoReturn:
    """Raise the error: the default, no row is dropped silently."""
    raise error


class Skipped:
    """Counts the rows that are left out, and remembers what was wrong with the first ones.

    >>> skipped = Skipped()
    >>> skipped(InvalidInputError("a.jsonl, line 3: text must not be empty, got ''"))
    >>> print(skipped)
    1 row was skipped:
      a.jsonl, line 3: text must not be empty, got ''
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self.reasons: list[str] = []

    def __call__(self, error: InvalidInputError) -> None:
        self.n_rows += 1
        if len(self.reasons) < _LISTED:
            self.reasons.append(error.shell)

    def __str__(self) -> str:
        rest = self.n_rows - len(self.reasons)
        lines = [f"  {reason}" for reason in self.reasons] + ([f"  and {rest} more"] if rest else [])
        return "\n".join([f"{self.n_rows} row{' was' if self.n_rows == 1 else 's were'} skipped:", *lines])

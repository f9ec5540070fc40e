"""What writers were told, on disk: every row of an acknowledged `add` must be found, every removed one must be gone."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torture.tally import Tally


class Ledger:
    """An append-only file of many processes; each event is one `write`, so that a kill leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def added(self, ids: Sequence[int], texts: Sequence[str]) -> None:
        """Note rows whose `add` has returned."""
        self._note([f"+ {number} {text}" for number, text in zip(ids, texts, strict=True)])

    def removing(self, ids: Iterable[int]) -> None:
        """Note ids that are about to be removed: from now on they may be gone."""
        self._note([f"? {number}" for number in ids])

    def removed(self, ids: Iterable[int]) -> None:
        """Note ids whose `remove` has returned."""
        self._note([f"- {number}" for number in ids])

    def broke(self, error: BaseException) -> None:
        """Note an error that no writer may meet."""
        self._note([f"e {type(error).__name__}: {str(error)[:300]}".replace("\n", " ")])

    def check(self, found: Mapping[int, str | None], tally: Tally, place: str) -> None:
        """Count what is missing from `found` (id -> text), and what should not be there."""
        added: dict[int, str] = {}
        maybe_gone, gone = set(), set()
        for line in self.path.read_text(encoding="utf-8").splitlines():
            kind, rest = line[0], line[2:]
            if kind == "e":
                tally.blame("wrong", f"{place}: a writer met {rest}")
            elif kind == "+":
                number, text = rest.split(" ", 1)
                if int(number) in added:
                    tally.blame("wrong", f"{place}: the id {number} was given twice")
                added[int(number)] = text
            else:
                (gone if kind == "-" else maybe_gone).add(int(rest))
        for number, text in added.items():
            if number not in maybe_gone and found.get(number) != text:
                tally.blame("lost", f"{place}: row {number} was acknowledged, found {found.get(number)!r}")
        for number in gone & found.keys():
            tally.blame("wrong", f"{place}: row {number} was removed and is back")

    def start_over(self, found: Mapping[int, str | None]) -> None:
        """Forget all events but the rows that are there now, so that a long storm stays quick to check."""
        os.ftruncate(self._file, 0)
        self.added(list(found), [text or "" for text in found.values()])

    def _note(self, lines: Sequence[str]) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())

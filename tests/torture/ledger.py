"""What writers were told, on disk: every row of an acknowledged `add` must be found, every removed one must be gone."""

import os
from collections import Counter
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

    def events(self) -> list[str]:
        """Return what was noted until now."""
        return self.path.read_text(encoding="utf-8").splitlines()

    def check(self, found: Mapping[int, str | None], tally: Tally, place: str) -> None:
        """Count what is missing from `found` (id -> text), and what should not be there."""
        events = self.events()
        for line in events:
            if line.startswith("e "):
                tally.blame("wrong", f"{place}: a writer met {line[2:]}")
        check_events(found, events, [], tally, place)

    def start_over(self, found: Mapping[int, str | None]) -> None:
        """Forget all events but the rows that are there now, so that a long storm stays quick to check."""
        os.ftruncate(self._file, 0)
        self.added(list(found), [text or "" for text in found.values()])

    def _note(self, lines: Sequence[str]) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


def check_events(
    found: Mapping[int, str | None], events: Sequence[str], later: Sequence[str], tally: Tally, place: str
) -> None:
    """Count what `events` say and `found` (id -> text) lacks, unless a removal that came `later` may be why."""
    added: dict[int, str] = {}
    maybe_gone, gone = set(), set()
    for line in events:
        kind, rest = line[0], line[2:]
        if kind == "+":
            number, text = rest.split(" ", 1)
            if int(number) in added:
                tally.blame("wrong", f"{place}: the id {number} was given twice")
            added[int(number)] = text
        elif kind in "-?":
            (gone if kind == "-" else maybe_gone).add(int(rest))
    maybe_gone |= {int(line[2:]) for line in later if line[0] == "?"}
    for number, text in added.items():
        if number not in maybe_gone and found.get(number) != text:
            tally.blame("lost", f"{place}: row {number} was acknowledged, found {found.get(number)!r}")
    for number in gone & found.keys():
        tally.blame("wrong", f"{place}: row {number} was removed and is back")
    n_times, own = Counter(found.values()), set(added.values())
    for text, n in n_times.items():
        if n > 1 and text in own and text.count(".") == 1:  # texts of ours end in a random number
            tally.blame("wrong", f"{place}: {text!r} is there {n} times")

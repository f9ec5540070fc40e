"""What an attack tried and what it broke, and the table of all attacks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_KEPT = 10_000  # faults per attack


@dataclass
class Tally:
    """One row of the table.

    `lost`: something acknowledged is gone. `wrong`: an answer, a content or an error that must not be. `crashed`: a
    process that ended by itself, hung or ran out of memory.
    """

    attack: str
    tried: int = 0
    lost: int = 0
    wrong: int = 0
    crashed: int = 0
    seconds: float = 0.0
    note: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, wrong or crashed."""
        return not (self.lost or self.wrong or self.crashed)

    def blame(self, what: str, fault: str) -> None:
        """Count a fault as "lost", "wrong" or "crashed", and keep how it can be seen again."""
        setattr(self, what, getattr(self, what) + 1)
        if len(self.faults) < _KEPT:
            self.faults.append(f"{what}: {fault}")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one attack may use: a folder, seconds, a seed, and where to count; `loads` of mutated folders, 0 for as
    many as the time allows."""

    folder: Path
    seconds: float
    seed: int
    tally: Tally
    loads: int = 0
    workers: int = 2
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.began + self.seconds - time.monotonic()


def table(tallies: Sequence[Tally]) -> str:
    """Return the results as a Markdown table."""
    lines = ["| attack | tried | lost | wrong | crashed | seconds |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for tally in tallies:
        if tally.note.startswith("skipped"):
            lines.append(f"| {tally.attack} | {tally.note} | | | | |")
            continue
        name = tally.attack + (f" ({tally.note})" if tally.note else "")
        counts = (f"{count:,}" for count in (tally.tried, tally.lost, tally.wrong, tally.crashed))
        lines.append(f"| {name} | {' | '.join(counts)} | {tally.seconds:.0f} |")
    return "\n".join(lines)

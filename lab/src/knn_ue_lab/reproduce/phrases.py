"""How the sentences of a page put records, ranks, names and numbers of seeds."""

from collections import Counter
from collections.abc import Sequence

from knn_ue.report.headline import listed
from knn_ue_lab.reproduce.league import Column, Standing, numbers_of
from knn_ue_lab.reproduce.ours import OURS, code

_SHOWN = 3  # names in a sentence


def together(leaders: Sequence[Standing]) -> str:
    """Return the methods that share a place, of many only ours by name."""
    if len(leaders) <= _SHOWN:
        return listed(code(one.method) for one in leaders)
    ours = [code(one.method) for one in leaders if one.method in OURS]
    return f"{len(leaders)} methods ({listed(ours) if ours else 'none of ours'} among them)"


def places_of(ranked: Sequence[Standing]) -> dict[str, int]:
    """Return the place of each method; equal ones share it."""
    return dict(zip((one.method for one in ranked), numbers_of([one.rank for one in ranked]), strict=True))


def shown_rank(one: Standing) -> str:
    """Return a mean rank in percent."""
    return f"{100 * one.rank:.0f} %"


def many(n: int, word: str) -> str:
    """Return how many there are of what."""
    return f"{n} {word}{'' if n == 1 else 's'}"


def seeds_of(columns: Sequence[Column]) -> str:
    """Return how many seeds most methods have, naming those with another number where they are few."""
    fewest: dict[str, int] = {}
    for column in columns:
        for method, found in column.values.items():
            fewest[method] = min(len(found), fewest.get(method, len(found)))
    counts = Counter(fewest.values())
    usual = max(counts, key=lambda number: (counts[number], number))
    by_number: dict[int, list[str]] = {}
    for method, number in fewest.items():
        if number != usual:
            by_number.setdefault(number, []).append(code(method))
    others = "; ".join(
        f"{listed(names) if len(names) <= _SHOWN else f'{len(names)} methods'} {'has' if len(names) == 1 else 'have'} "
        f"{number}"
        for number, names in sorted(by_number.items())
    )
    return many(usual, "seed") + (f" ({others})" if others else "")


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]

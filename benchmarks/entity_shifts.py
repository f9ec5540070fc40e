"""Other domains made of in-domain sentences alone: what knn-ue-entity was chosen on, so that no real one was needed.

Each function turns {"tokens", "tags"} rows into rows of another style; the tags stay right.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, list[str]]


@dataclass(frozen=True, kw_only=True)
class World:
    """What a change may draw from: chance, and the mentions (words) of each type in all rows."""

    draw: random.Random
    mentions: dict[str, list[list[str]]]


_TYPO_SHARE = 0.3
_SHORTEST_WITH_TYPO = 4
_WINDOW = 6  # words of a fragment, more where an entity would be cut
_SYLLABLES = tuple(a + b for a in ("b", "d", "gr", "k", "l", "m", "n", "p", "r", "st", "t", "v", "z") for b in "aeiou")


def bare(row: Row, _world: World) -> Row:
    """Chat and queries: no punctuation, so that the entities of a list touch."""
    kept = [
        any(c.isalnum() for c in token) or tag != "O" for token, tag in zip(row["tokens"], row["tags"], strict=True)
    ]
    return _chosen(row, [place for place, keep in enumerate(kept) if keep])


def typos(row: Row, world: World) -> Row:
    """Haste: three in ten longer words have a letter dropped, or two swapped."""
    return {"tokens": [_mistyped(token, world.draw) for token in row["tokens"]], "tags": row["tags"]}


def invented(row: Row, world: World) -> Row:
    """Names nobody has heard: every capitalized word of an entity is made of drawn syllables."""
    tokens = [
        token if tag == "O" or not token[0].isupper() else _name(world.draw)
        for token, tag in zip(row["tokens"], row["tags"], strict=True)
    ]
    return {"tokens": tokens, "tags": row["tags"]}


def swapped(row: Row, world: World) -> Row:
    """Other topics: every entity gives way to one of its type from any sentence."""
    tokens: list[str] = []
    tags: list[str] = []
    for token, tag in zip(row["tokens"], row["tags"], strict=True):
        if tag.startswith("B-"):
            mention = world.draw.choice(world.mentions[tag[2:]])
            tokens += mention
            tags += [tag] + ["I-" + tag[2:]] * (len(mention) - 1)
        elif tag == "O":
            tokens.append(token)
            tags.append(tag)
    return {"tokens": tokens, "tags": tags}


def jumbled(row: Row, world: World) -> Row:
    """No grammar: the words outside all entities are shuffled among themselves."""
    outside = [place for place, tag in enumerate(row["tags"]) if tag == "O"]
    order = outside.copy()
    world.draw.shuffle(order)
    source = dict(zip(outside, order, strict=True))
    return {
        "tokens": [row["tokens"][source.get(place, place)] for place in range(len(row["tags"]))],
        "tags": row["tags"],
    }


def listed(row: Row, _world: World) -> Row:
    """Tables, keywords, rows of user names: the entities of the sentence and nothing between them."""
    return _chosen(row, [place for place, tag in enumerate(row["tags"]) if tag != "O"])


def fragment(row: Row, world: World) -> Row:
    """Notes and captions: six words of the sentence; an entity is never cut."""
    tags = row["tags"]
    first = world.draw.randrange(max(1, len(tags) - _WINDOW + 1))
    last = min(len(tags), first + _WINDOW) - 1
    while tags[first].startswith("I-"):
        first -= 1
    while last + 1 < len(tags) and tags[last + 1].startswith("I-"):
        last += 1
    return _chosen(row, list(range(first, last + 1)))


SHIFTS: dict[str, Callable[[Row, World], Row]] = {
    change.__name__: change for change in (bare, typos, invented, swapped, jumbled, fragment, listed)
}


def shifted(rows: list[Any], name: str) -> list[Any]:
    """Return the rows in the style `name`, those that keep a word."""
    world = World(draw=random.Random(0), mentions=_mentions(rows))
    changed = [SHIFTS[name]({"tokens": row["tokens"], "tags": row["tags"]}, world) for row in rows]
    return [row for row in changed if row["tokens"]]


def _mentions(rows: list[Any]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for row in rows:
        for token, tag in zip(row["tokens"], row["tags"], strict=True):
            if tag.startswith("B-"):
                found.setdefault(tag[2:], []).append([token])
            elif tag.startswith("I-"):
                found[tag[2:]][-1].append(token)
    return found


def _chosen(row: Row, places: list[int]) -> Row:
    return {key: [row[key][place] for place in places] for key in ("tokens", "tags")}


def _mistyped(token: str, draw: random.Random) -> str:
    if len(token) < _SHORTEST_WITH_TYPO or not token.isalpha() or draw.random() > _TYPO_SHARE:
        return token
    place = draw.randrange(1, len(token) - 1)
    middle = "" if draw.random() < 0.5 else token[place + 1] + token[place]
    return token[:place] + middle + token[place + (1 if not middle else 2) :]


def _name(draw: random.Random) -> str:
    return "".join(draw.choice(_SYLLABLES) for _ in range(draw.randint(2, 3))).capitalize()

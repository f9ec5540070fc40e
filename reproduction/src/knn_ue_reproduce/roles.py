"""What the sets of a folder turn out to be when they are read: of known labels, of others, or not to be read at all."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from knn_ue.errors import KnnUeError
from knn_ue_reproduce.scales import Scale
from knn_ue_reproduce.setups import ScoredSet, Setup, in_place_of_the_papers, places
from knn_ue_reproduce.task_data import TaskData, labels_of

_SHOWN_LABELS = 3


def resolve_roles(setup: Setup, scale: Scale) -> Setup:
    """Return the setup as its rows say it is: a set may have the name of one we know and other rows.

    A set that uses no label the model knows is "outside", used only for OOD detection, and leaves the place of one of
    the paper's to a set that can be scored. A set that cannot be read is left out, so that it costs no other one its
    numbers. `remarks` say both.
    """
    task_data = TaskData(setup, scale)
    roles: dict[str, ScoredSet | None] = {}
    remarks = []
    try:
        readable = bool(task_data.train)
    except KnnUeError:  # no cell can be measured, and each says why
        readable = False
    for one in setup.sets if readable else ():
        try:
            found = task_data.read_set(one)
        except KnnUeError as error:
            if one.role != "in":
                roles[one.name] = None
                remarks.append(f"{one.name} is left out: {_without_folders(str(error), one)}")
            continue
        if not found.labeled and one.role != "outside":
            roles[one.name] = one if one.role == "in" else replace(one, role="outside")
            remarks.append(
                f"{one.name} has no label of the training rows (it has {_some(labels_of(found.rows))}; they have "
                f"{_some(task_data.known)}): it is used only for OOD detection"
            )
    sets = [roles.get(one.name, one) for one in setup.sets]
    kept = tuple(one for one in sets if one is not None)
    if any(one.stands_for for one in setup.sets if one.name in roles):
        kept = in_place_of_the_papers(setup.name, kept)
    return replace(setup, sets=kept, differs=places(kept) if roles else setup.differs, remarks=tuple(remarks))


def _without_folders(text: str, one: ScoredSet) -> str:
    """Return an error about a file of the set without where that lies on this machine: pages tell it."""
    for source in one.sources:
        text = text.replace(source, Path(source).name)
    return text


def _some(labels: Collection[str]) -> str:
    """Return the first labels in words.

    >>> _some({"neg", "pos"}), _some(set("abcde")), _some(())
    ('neg, pos', 'a, b, c and 2 more', 'none')
    """
    shown = sorted(labels)
    more = f" and {len(shown) - _SHOWN_LABELS} more" if len(shown) > _SHOWN_LABELS else ""
    return f"{', '.join(shown[:_SHOWN_LABELS])}{more}" if shown else "none"

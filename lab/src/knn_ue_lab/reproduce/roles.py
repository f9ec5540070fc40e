"""What the sets of a folder turn out to be when they are read: of known labels, of others, or not to be read at all."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from knn_ue.data import TaggedRow
from knn_ue.errors import KnnUeError
from knn_ue_lab.reproduce.scales import Scale
from knn_ue_lab.reproduce.setups import ScoredSet, Setup, in_place_of_the_papers, places
from knn_ue_lab.reproduce.task_data import SetRows, TaskData, labels_of, some

FEW_TEXTS = 50


def resolve_roles(setup: Setup, scale: Scale) -> Setup:
    """Return the setup as its rows say it is: a set may have the name of one we know and other rows.

    A set that uses no label the model knows is "outside", used only for OOD detection, and leaves the place of one of
    the paper's to a set that can be scored, as one with few texts does to one with more. A set that cannot be read is
    left out, so that it costs no other one its numbers. `remarks` say all of that.
    """
    task_data = TaskData(setup, scale)
    roles: dict[str, ScoredSet | None] = {}
    remarks = []
    few: set[str] = set()
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
            remarks.append(_without_known_labels(one, labels_of(found.rows), task_data.known))
        elif len(found.rows) < FEW_TEXTS:
            few.add(one.name)
    sets = [roles.get(one.name, one) for one in setup.sets]
    kept = tuple(one for one in sets if one is not None)
    if any(one.stands_for for one in setup.sets if one.name in roles) or _has_larger(kept, few):
        before = kept
        kept = in_place_of_the_papers(setup.name, kept, few)
        remarks += [
            f"{old.name} has fewer than {FEW_TEXTS} texts: it stands for none of the paper's sets"
            for old, new in zip(before, kept, strict=True)
            if old.name in few and old.stands_for and not new.stands_for
        ]
    return replace(setup, sets=kept, differs=places(kept), remarks=tuple(remarks))


def _has_larger(sets: Sequence[ScoredSet], few: Collection[str]) -> bool:
    """Say whether a set with few texts stands for one of the paper's, and one with more texts does not."""
    out = [one for one in sets if one.role == "out"]
    small = any(one.stands_for for one in out if one.name in few)
    return small and any(not one.stands_for for one in out if one.name not in few)


def _without_known_labels(one: ScoredSet, found: Collection[str], known: Collection[str]) -> str:
    alike = {label.casefold().strip() for label in found} & {label.casefold().strip() for label in known}
    advice = ". Some differ in case only: spell them alike to score it" if alike else ""
    used = "it is used only for OOD detection"
    if one.role == "in":
        used = "no method can be scored in domain, only OOD detection is measured"
    return (
        f"{one.name} has no label of the training rows (it has {some(found)}; they have {some(known)}): {used}{advice}"
    )


def _without_folders(text: str, one: ScoredSet) -> str:
    """Return an error about a file of the set without where that lies on this machine: pages tell it."""
    for source in one.sources:
        text = text.replace(source, Path(source).name)
    return text


def notes_of(rows: SetRows) -> list[str]:
    """Return what to know of the numbers of a test set: few texts, texts seen in training, labels not known."""
    notes = []
    if len(rows.rows) < FEW_TEXTS:
        notes.append(f"{rows.name} has so few texts ({len(rows.rows)}) that its numbers and tests say little.")
    if rows.n_trained_on:
        share = f"{rows.n_trained_on:,} of {len(rows.rows):,}"
        notes.append(f"{rows.name}: {share} texts are training rows too, which flatters every method.")
    if rows.ignored:
        notes.append(f"{rows.name} does not annotate {', '.join(sorted(rows.ignored))}: such answers count as O.")
    if rows.n_dropped:
        share, unknown = f"{rows.n_dropped:,} of {rows.n_rows_read:,}", some(rows.unknown)
        notes.append(f"{rows.name}: {share} texts have labels the model does not know ({unknown}) and are left out.")
    elif rows.unknown:
        notes.append(f"{rows.name}: entities of types the model does not know ({some(rows.unknown)}) count as O.")
    left = labels_of(rows.rows)
    if rows.labeled and len(left) == 1 and not any(isinstance(row, TaggedRow) for row in rows.rows):
        notes.append(f"{rows.name}: all its texts have the label {some(left)}, so they say little of a classifier.")
    return notes


def vote_notes_of(rows: SetRows) -> list[str]:
    """Return of how many texts people's votes are known, where it is not of all or of none."""
    n_voted = sum(bool(getattr(row, "label_counts", None)) for row in rows.rows)
    if n_voted in (0, len(rows.rows)):
        return []
    return [f"{rows.name}: {n_voted:,} of {len(rows.rows):,} texts have votes, and the distance is that of those."]

"""Our methods in a column: which they are, how they fare against the others, and which of the others beat them all."""

from knn_ue_lab.reproduce.claims import OUR_METHODS
from knn_ue_lab.reproduce.league import Column, Record, record_of

# The paper's method, itself without labels, and what this library adds: entities, and a detector.
DETECTOR = "familiarity"
OURS = (*OUR_METHODS, "knn-ue-entity", DETECTOR)
LOST = "Where ours lose"  # the table that the sentence on losses names


def ours_in(column: Column) -> list[str]:
    """Return our methods that were measured."""
    return [method for method in column.values if method in OURS]


def others_in(*columns: Column) -> list[str]:
    """Return the methods of others that were measured in any of the columns."""
    return list(dict.fromkeys(method for column in columns for method in column.values if method not in OURS))


def record_against_others(column: Column, method: str) -> Record:
    """Return the comparisons of one of ours with methods that are not."""
    return sum((record_of([column], method, other) for other in others_in(column)), Record())


def better_than_ours(column: Column) -> list[str]:
    """Return the other methods that are significantly better than every one of ours they can be compared with."""
    found = []
    for method in others_in(column):
        records = [record_of([column], method, one) for one in ours_in(column)]
        tested = [record for record in records if record.total]
        if tested and all(record.wins for record in tested):
            found.append(method)
    sign = -1 if column.higher_is_better else 1
    return sorted(found, key=lambda method: sign * column.mean(method))


def code(name: str) -> str:
    """Return a name as Markdown shows one."""
    return f"`{name}`"

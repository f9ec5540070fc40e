"""What new sets of a folder turn out to be when they are read: of known labels, of others, or not to be read at all."""

from dataclasses import replace

from knn_ue.errors import KnnUeError
from knn_ue_reproduce.scales import Scale
from knn_ue_reproduce.setups import ScoredSet, Setup, in_place_of_the_papers, is_known, places
from knn_ue_reproduce.task_data import TaskData


def resolve_roles(setup: Setup, scale: Scale) -> Setup:
    """Return the setup as its rows say it is: sets we do not know by name are read for it.

    A set that uses no label the model knows is "outside", used only for OOD detection, and leaves the place of one of
    the paper's to a set that can be scored. A set that cannot be read is left out, so that it costs no other one its
    numbers. `remarks` say both.
    """
    new = [one for one in setup.sets if not is_known(setup.name, one)]
    task_data = TaskData(setup, scale)
    roles: dict[str, ScoredSet | None] = {}
    remarks = []
    try:
        readable = bool(new) and bool(task_data.train)
    except KnnUeError:  # no cell can be measured, and each says why
        readable = False
    for one in new if readable else ():
        try:
            labeled = task_data.read_set(one).labeled
        except KnnUeError as error:
            if one.role != "in":
                roles[one.name] = None
                remarks.append(f"{one.name} is left out: {error}")
            continue
        if not labeled:
            roles[one.name] = one if one.role == "in" else replace(one, role="outside")
            remarks.append(f"{one.name} has no label of the training rows: it is used only for OOD detection")
    found = [roles.get(one.name, one) for one in setup.sets]
    kept = tuple(one for one in found if one is not None)
    if any(one.stands_for for one in setup.sets if one.name in roles):
        kept = in_place_of_the_papers(setup.name, kept)
    return replace(setup, sets=kept, differs=places(kept) if roles else setup.differs, remarks=tuple(remarks))

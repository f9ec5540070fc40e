"""Which data sets a task is trained on and scored on: the paper's, those of a folder, or VADER's."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from knn_ue.data import Task
from knn_ue.data.readers import COLUMNS, JSON_FILES, PARQUET, TABLES
from knn_ue.errors import InvalidInputError
from knn_ue_lab.reproduce.scales import TASKS

Role = Literal["in", "out", "human", "outside"]

_VALIDATION = ("val", "validation", "valid", "dev")


@dataclass(frozen=True, kw_only=True)
class ScoredSet:
    """One test set: `sources` are files or named sources, read one after the other.

    `role`: "in" is the in-domain test set, "out" another domain with the same labels, "human" a set that is scored but
    is neither, "outside" one whose labels the model does not know, used only for OOD detection. `stands_for` is
    the set of the paper in whose place it is read.
    """

    name: str
    sources: tuple[str, ...]
    role: Role
    stands_for: str | None = None


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What one task is trained on and scored on; the first of `sets` is the in-domain one.

    `differs` says how the data differ from the paper's, nothing where they do not. `remarks` are what else to know of
    the sets, once they were read.
    """

    name: str
    task: Task
    train: str
    validation: str
    sets: tuple[ScoredSet, ...]
    differs: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def labeled(self) -> tuple[ScoredSet, ...]:
        """The sets whose labels the model knows."""
        return tuple(one for one in self.sets if one.role != "outside")

    @property
    def searched(self) -> tuple[ScoredSet, ...]:
        """The two sets that numbers of neighbors and indexes are compared on, one in domain, one out."""
        return self.labeled[:2]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which data sets of a folder to take, by task; what is not named is found."""

    in_domain: Mapping[str, str] = field(default_factory=dict)
    out_of_domain: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, in_domain: Sequence[str], out_of_domain: Sequence[str]) -> "Choice":
        """Read what people type: task=name, and task=name,name.

        >>> Choice.parse(["ner=btc"], ["ner=wikigold,uner-ewt"]).out_of_domain
        {'ner': ['wikigold', 'uner-ewt']}
        """
        inside, outside = _pairs(in_domain, "--in-domain"), _pairs(out_of_domain, "--out-of-domain")
        named = {task: [name.strip() for name in names.split(",")] for task, names in outside.items()}
        for task, names in named.items():
            if not all(names) or len(set(names)) < len(names) or inside.get(task) in names:
                raise InvalidInputError(
                    f"--out-of-domain {task}={outside[task]} must name different sets, none of them the in-domain one"
                )
        return cls(in_domain=inside, out_of_domain=named)

    def __bool__(self) -> bool:
        return bool(self.in_domain or self.out_of_domain)


# The data sets we know: which is in domain, which others are scored, and whose place they take.
_KNOWN: Mapping[str, tuple[str, Sequence[tuple[str, Sequence[str], Role, str | None]]]] = {
    "sentiment": (
        "imdb",
        (
            ("imdb", ("test",), "in", "IMDb"),
            ("dynasent-yelp", ("test",), "out", "Yelp"),
            ("dynasent-r2", ("test",), "out", None),
            ("dynasent-yelp", ("test_neutral",), "outside", None),
        ),
    ),
    "nli": (
        "mnli",
        (
            ("mnli", ("test",), "in", "MNLI"),
            ("snli", ("test",), "out", "SNLI"),
            ("anli", ("test_r1", "test_r2", "test_r3"), "out", None),
            ("chaosnli-mnli", ("test",), "human", None),
        ),
    ),
    "ner": (
        "wikineural",
        (
            ("wikineural", ("test",), "in", "bn"),
            ("uner-ewt", ("test",), "out", "nw"),
            ("crossner-politics", ("test",), "out", "tc"),
            ("crossner-science", ("test",), "out", None),
            ("wikigold", ("test",), "out", None),
        ),
    ),
    "intent": ("clinc150", (("clinc150", ("test",), "in", None), ("clinc150", ("oos_test",), "outside", None))),
}
_SAME_DATA = {"imdb": "IMDb", "mnli": "MNLI", "snli": "SNLI"}  # samples of the paper's own sets
_ROWS = re.compile(rf"^[^.]+({'|'.join(map(re.escape, (*JSON_FILES, *TABLES, *COLUMNS, *PARQUET)))})(\.gz)?$")
_NOT_A_SET = {"train", "fitting"}  # what other rows of a setup are called
_TO_TRAIN_ON = {"btc"}  # a set that is in domain when it is named, and no part of the results otherwise
_NOT_SCORED = {"dynasent-r2 test_neutral"}  # a split of a set we know that is scored when the set is named


def vader_setups() -> tuple[Setup, ...]:
    """Return the one setup that needs no folder: movie snippets, with reviews, editorials and tweets elsewhere."""
    others = [ScoredSet(name=name, sources=(f"vader:{name}",), role="out") for name in ("amazon", "nyt", "tweets")]
    others[0] = replace(others[0], stands_for="Yelp")
    return (
        Setup(
            name="sentiment",
            task=TASKS["sentiment"],
            train="vader:movies:train",
            validation="vader:movies:validation",
            sets=(
                ScoredSet(name="movies", sources=("vader:movies:test",), role="in", stands_for="IMDb"),
                *others,
            ),
            differs="movie snippets for IMDb, Amazon sentences for Yelp (VADER's ratings)",
        ),
    )


def paper_setups(ontonotes: Path | None) -> tuple[Setup, ...]:
    """Return the paper's own data; NER only with a folder of OntoNotes columns, `bn/train.conll` and so on."""
    sentiment, nli = (
        Setup(
            name=name,
            task=TASKS[name],
            train=f"paper:{inside}:train",
            validation=f"paper:{inside}:validation",
            sets=(
                ScoredSet(name=inside, sources=(f"paper:{inside}:test",), role="in", stands_for=titles[0]),
                ScoredSet(name=other, sources=(f"paper:{other}:test",), role="out", stands_for=titles[1]),
            ),
        )
        for name, inside, other, titles in (
            ("sentiment", "imdb", "yelp", ("IMDb", "Yelp")),
            ("nli", "mnli", "snli", ("MNLI", "SNLI")),
        )
    )
    if ontonotes is None:
        return sentiment, nli

    def columns(domain: str, split: str) -> str:
        return f"paper:ontonotes-{domain}:{split}?path={ontonotes / domain / split}.conll"

    sets = [
        ScoredSet(
            name=domain, sources=(columns(domain, "test"),), role="in" if domain == "bn" else "out", stands_for=domain
        )
        for domain in ("bn", "nw", "tc")
    ]
    ner = Setup(
        name="ner",
        task=TASKS["ner"],
        train=columns("bn", "train"),
        validation=columns("bn", "validation"),
        sets=tuple(sets),
    )
    return sentiment, nli, ner


def folder_setups(
    folder: Path, choice: Choice | None = None, say: Callable[[str], None] = lambda _line: None
) -> tuple[Setup, ...]:
    """Return a setup for each task of the folder, laid out as `<task>/<data set>/<split>.jsonl.gz`.

    The in-domain set is the one chosen, the one we know, or the only one that has train, validation and test. Out of
    domain are those chosen, or those we know and then all others that have a split named `test...` or `..._test`.
    A task that cannot be set up is told and left out, unless it was chosen or is the only one.
    """
    choice = choice or Choice()
    if not folder.is_dir():
        raise InvalidInputError(f"the data folder {folder} does not exist: check --data")
    for task in (*choice.in_domain, *choice.out_of_domain):
        if not (folder / task).is_dir():
            raise InvalidInputError(f"{folder} has no task {task!r}: it has {', '.join(_folders(folder)) or 'none'}")
        for name in (choice.in_domain.get(task), *choice.out_of_domain.get(task, ())):
            if name is not None and name not in _folders(folder / task):
                there = ", ".join(_folders(folder / task)) or "none"
                raise InvalidInputError(f"{folder / task} has no set {name!r}: it has {there}")
    tasks = [task for task in TASKS if (folder / task).is_dir()]
    if not tasks:
        raise InvalidInputError(
            f"{folder} holds none of {', '.join(TASKS)}: it has {', '.join(_folders(folder)) or 'no folders'}; "
            "lay it out as task/set/split.jsonl.gz"
        )
    setups, problems = [], []
    for task in tasks:
        try:
            setups.append(_folder_setup(folder / task, task, choice))
        except InvalidInputError as error:
            problems.append(error)
            if task in choice.in_domain or task in choice.out_of_domain or len(problems) == len(tasks):
                raise
    for problem in problems:
        say(f"left out: {problem}")
    return tuple(setups)


def _folder_setup(folder: Path, task: str, choice: Choice) -> Setup:
    name = _in_domain(folder, task, choice)
    _split(folder / name, "test")  # there must be one
    if name in choice.out_of_domain.get(task, ()):
        raise InvalidInputError(f"{task}={name} is in domain, and out of domain too: name another set to test on")
    known, sets = _KNOWN[task]
    if name == known and task not in choice.out_of_domain:
        found = tuple(_known_set(folder, *one) for one in sets if all(_has(folder / one[0], split) for split in one[1]))
        unknown = [one for other in _tested(folder, _TO_TRAIN_ON) for one in _other_sets(folder, other)]
        read = {*_NOT_SCORED, *(one.name for one in found), *(source for one in found for source in one.sources)}
        found += tuple(one for one in unknown if read.isdisjoint((one.name, *one.sources)))
    else:
        others = choice.out_of_domain.get(task) or _tested(folder, {name})
        found = (*_other_sets(folder, name, role="in"), *(s for one in others for s in _other_sets(folder, one)))
        found = tuple(sorted(found, key=lambda one: one.role != "in"))
        found = in_place_of_the_papers(task, found)
    _check_names(folder, [one.name for one in found])
    return Setup(
        name=task,
        task=TASKS[task],
        train=_split(folder / name, "train"),
        validation=_split(folder / name, *_VALIDATION),
        sets=found,
        differs=places(found),
    )


def places(sets: Iterable[ScoredSet]) -> str:
    """Return which sets stand for which of the paper's, in words."""
    standing = [(one.name, one.stands_for) for one in sets if one.stands_for]
    return ", ".join(
        f"a sample of {paper}" if _SAME_DATA.get(name) == paper else f"{name} for {paper}" for name, paper in standing
    )


def _check_names(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        if name in _NOT_A_SET or names.count(name) > 1:
            why = "is what other rows are called" if name in _NOT_A_SET else "is the name of two test sets"
            raise InvalidInputError(f"{folder}: {name!r} {why}: rename the folder")


def _in_domain(folder: Path, task: str, choice: Choice) -> str:
    if task in choice.in_domain:
        return choice.in_domain[task]
    complete = [name for name in _folders(folder) if all(_has(folder / name, *one) for one in _NEEDED)]
    if _KNOWN[task][0] in complete:
        return _KNOWN[task][0]
    if not complete:
        lacking = {
            name: [splits[0] for splits in _NEEDED if not _has(folder / name, *splits)] for name in _folders(folder)
        }
        nearest = min(lacking, key=lambda name: len(lacking[name]), default=None)
        lacks = "" if nearest is None else f" ({nearest} lacks {' and '.join(lacking[nearest])})"
        raise InvalidInputError(
            f"{folder} has no set with train, val (or {', '.join(_VALIDATION[1:])}) and test{lacks}: "
            f"add the split that is missing, or leave {task} out"
        )
    if len(complete) > 1:
        raise InvalidInputError(
            f"{folder} has {len(complete)} sets with train, val and test ({', '.join(complete)}): "
            f"name the one to train on, --in-domain {task}=NAME"
        )
    return complete[0]


_NEEDED = (("train",), _VALIDATION, ("test",))


def _known_set(folder: Path, name: str, splits: Sequence[str], role: Role, stands_for: str | None) -> ScoredSet:
    shown = name if role != "outside" else f"{name} {splits[0].removeprefix('test_').removesuffix('_test')}"
    sources = tuple(_split(folder / name, split) for split in splits)
    return ScoredSet(name=shown, sources=sources, role=role, stands_for=stands_for)


def _other_sets(folder: Path, name: str, role: Role = "out") -> list[ScoredSet]:
    """Return each test split of a data set as a set of its own; only the one named `test` can be in domain."""
    tests = _test_splits(folder / name)
    if not tests:
        files = sorted(file.name for file in (folder / name).iterdir())
        raise InvalidInputError(f"{folder / name} has no split named test: it has {', '.join(files) or 'no files'}")
    return [
        ScoredSet(
            name=name if split == "test" else f"{name} {split}",
            sources=(_split(folder / name, split),),
            role=role if split == "test" or role != "in" else "out",
        )
        for split in tests
    ]


def _tested(folder: Path, besides: set[str]) -> list[str]:
    """Return the sets that have a test split, but for some."""
    return [name for name in _folders(folder) if name not in besides and _test_splits(folder / name)]


def _test_splits(folder: Path) -> list[str]:
    splits = sorted({file.name.split(".")[0] for file in _files(folder)})
    return [split for split in splits if split.startswith("test") or split.endswith("_test")]


def in_place_of_the_papers(task: str, sets: tuple[ScoredSet, ...], few: Collection[str] = ()) -> tuple[ScoredSet, ...]:
    """Return the sets, each in the place of one of the paper's while there are any, those with known labels first.

    Those with `few` texts come after those with more.
    """
    papers = [stands_for for *_, stands_for in _KNOWN[task][1] if stands_for]
    ordered = sorted(sets, key=lambda one: (one.role == "outside", one.role != "in" and one.name in few))
    taken = dict(zip((one.name for one in ordered), papers, strict=False))
    return tuple(replace(one, stands_for=taken.get(one.name)) for one in sets)


def _split(folder: Path, *names: str) -> str:
    for name in names:
        found = _files(folder, name)
        if len(found) > 1:
            both = " and ".join(file.name for file in found)
            raise InvalidInputError(f"{folder} has more than one file of the split {name}, {both}: remove all but one")
        if found:
            return str(found[0])
    raise InvalidInputError(f"{folder} has no file {' or '.join(names)}.jsonl.gz: add it or choose another data set")


def _has(folder: Path, *names: str) -> bool:
    return any(_files(folder, name) for name in names)


def _files(folder: Path, split: str = "*") -> list[Path]:
    """Return the files of a split, or of all, that hold rows: a README beside them is none."""
    return [file for file in sorted(folder.glob(f"{split}.*")) if _ROWS.search(file.name.lower())]


def _folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    parted = [text.partition("=") for text in given]
    for text, (task, _, names) in zip(given, parted, strict=True):
        if task not in TASKS or not names:
            raise InvalidInputError(f"{option} takes TASK=NAME, TASK one of {', '.join(TASKS)}, got {text!r}")
    return {task: names for task, _, names in parted}

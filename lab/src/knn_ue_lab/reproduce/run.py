"""Cells, one after the other: what is there is read, what fails is told and left, what is left over takes so long."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knn_ue.errors import KnnUeError
from knn_ue_lab.reproduce.cells import CellName, Content
from knn_ue_lab.reproduce.detect import detection_cell
from knn_ue_lab.reproduce.score import score_cell, score_name
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.timing import Timing, timing_cell, timing_name
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant
from knn_ue_lab.training.label_smoothing import LabelSmoothing

Say = Callable[[str], None]
_AUROC = "detection_auroc"

# Seconds of a cell before any was measured here: a training, and scoring with a trained model.
_TRAINING_GUESS = {"small": 120.0, "reference": 480.0, "base": 900.0, "paper": 7200.0}
_SCORES_GUESS = {"small": 30.0, "reference": 60.0, "base": 30.0, "paper": 900.0}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One cell to measure: a method on a setup with a seed, or the times of a setup."""

    setup: str
    what: MethodVariant | Timing
    seed: int

    def __str__(self) -> str:
        return f"{self.setup} {self.what} seed {self.seed}"


@dataclass(kw_only=True)
class Outcome:
    """What a run came to: the cells it has, those that failed and why, the seconds it took."""

    found: dict[Job, Content] = field(default_factory=dict)
    failed: dict[Job, str] = field(default_factory=dict)
    seconds: float = 0.0


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs in the order to run them: methods of the plain model first, one seed after the other.

    One training serves all of those, and all tasks have their first seed before one has its second: a run can be
    stopped at any time and what it has is of use. Then, again seed by seed, come other ways to search and mc-dropout,
    which need no training either, those that train their own, label smoothing which trains several, and times.
    """
    return sorted(
        dict.fromkeys(jobs),
        key=lambda job: (_sort_of(job) != _SORTS[0], job.seed, _SORTS.index(_sort_of(job))),
    )


def cell_name(runner: TaskRunner, job: Job) -> CellName:
    """Return the name of the job's cell."""
    if isinstance(job.what, Timing):
        return timing_name(runner, job.what, job.seed)
    return score_name(runner, job.what, job.seed)


def run_jobs(runners: Mapping[str, TaskRunner], jobs: Sequence[Job], say: Say, *, fresh: bool = False) -> Outcome:
    """Measure every job that was not measured before; `fresh` measures all of them again.

    A cell that fails is told and the rest goes on. Ctrl-C ends the run; what was measured stays. Several processes may
    run on the same folders: a cell that another one measures is taken from it when it is done.
    """
    outcome = Outcome()
    began = time.perf_counter()
    ordered = in_order(jobs)
    known = {} if fresh else read_jobs(runners, ordered).found
    clock = _Clock(runners[ordered[0].setup].scale.name if ordered else "small", ordered, known)
    postponed: list[Job] = []
    for number, job in enumerate(ordered, start=1):
        if not _do(job, runners[job.setup], outcome, clock, say, f"[{number}/{len(ordered)}]", fresh, wait=False):
            postponed.append(job)
    for job in postponed:
        _do(job, runners[job.setup], outcome, clock, say, "[last]", fresh, wait=True)
    outcome.seconds = time.perf_counter() - began
    return outcome


def read_jobs(runners: Mapping[str, TaskRunner], jobs: Iterable[Job]) -> Outcome:
    """Return the cells that are there, without measuring any; a setup whose rows cannot be read has failed."""
    outcome = Outcome()
    unreadable: dict[str, str] = {}  # asked once: a hub that does not answer takes its time
    for job in in_order(jobs):
        runner = runners[job.setup]
        if job.setup not in unreadable:
            try:
                content = runner.store.read(_known_name(runner, job))
            except _NotMeasuredError:
                continue
            except KnnUeError as error:
                unreadable[job.setup] = str(error)
            else:
                outcome.found |= {job: content} if content is not None else {}
        if job.setup in unreadable:
            outcome.failed[job] = unreadable[job.setup]
    return outcome


def time_left(scale: str, jobs: Sequence[Job], found: Mapping[Job, Content]) -> float:
    """Return the seconds that the jobs without a cell will take, judged by those that have one."""
    return _Clock(scale, jobs, found).seconds()


class _NotMeasuredError(Exception):
    pass


def _known_name(runner: TaskRunner, job: Job) -> CellName:
    """Return the job's cell name unless that would train models: epsilon is not known before."""
    variants = job.what.variants if isinstance(job.what, Timing) else (job.what,)
    if any(variant.training is LabelSmoothing for variant in variants):
        for epsilon in runner.scale.epsilons:
            if runner.store.read(runner.model_name(LabelSmoothing(epsilon=epsilon), 0)) is None:
                raise _NotMeasuredError
    return cell_name(runner, job)


def _do(
    job: Job, runner: TaskRunner, outcome: Outcome, clock: "_Clock", say: Say, place: str, fresh: bool, *, wait: bool
) -> bool:
    """Read or measure one cell; False where another process is at it and `wait` is not asked for."""
    try:
        name = cell_name(runner, job)
        content = None if fresh else runner.store.read(name)
        if content is not None and _answers_kept(runner, job, name):
            outcome.found[job] = content
            clock.skip(job)
            return True
        with runner.store.reserved(f"cell-{name.key}", wait=wait) as mine:
            if not mine:
                return False
            content = None if fresh else runner.store.read(name)
            if content is None or not _answers_kept(runner, job, name):
                started = time.perf_counter()
                content = _measure(runner, job)
                clock.done(job, time.perf_counter() - started)
                say(f"{place} {job}: {summary(content)}, {time.perf_counter() - started:.0f} s; {clock.left()}")
            clock.skip(job)
            outcome.found[job] = content
    except Exception as error:
        reason = str(error) if isinstance(error, KnnUeError) else f"{type(error).__name__}: {error}"
        outcome.failed[job] = reason
        clock.skip(job)
        say(f"{place} {job} FAILED: {reason}")
    return True


def _answers_kept(runner: TaskRunner, job: Job, name: CellName) -> bool:
    """Say whether the answers behind a cell's scores are here too, as paired tests need them."""
    if isinstance(job.what, Timing):
        return True
    return all(runner.store.read_answers(name, part) is not None for part in runner.sets_of(job.what))


def _measure(runner: TaskRunner, job: Job) -> Content:
    if isinstance(job.what, Timing):
        return timing_cell(runner, job.what, job.seed)
    measure = detection_cell if job.what.detects else score_cell
    return measure(runner, job.what, job.seed)


def summary(content: Content) -> str:
    """Return the in-domain numbers of a cell in a few words; those of a detector, which has none, are of other sets.

    >>> summary({"sets": {"imdb": {"n_answers": 9}, "yelp": {"detection_auroc": 0.7}}})
    'OOD detection AUROC yelp 70.0'
    """
    sets: Mapping[str, Any] = content.get("sets", {})
    if not sets:
        return "measured"
    first, numbers = next(iter(sets.items()))
    shown = [f"{name} {100 * numbers[name]:.1f}" for name in ("right", "ece") if name in numbers]
    if shown:
        return f"{first} {', '.join(shown)}"
    found = [f"{name} {100 * one[_AUROC]:.1f}" for name, one in sets.items() if _AUROC in one]
    if found:
        return f"OOD detection AUROC {', '.join(found)}"
    return f"{first} {'without any answer' if not numbers.get('n_answers') else 'measured'}"


def _is_long(job: Job) -> bool:
    return isinstance(job.what, MethodVariant) and job.what.method == PASSES


class _Clock:
    """How much time is left, from guesses first and from what was measured as soon as there is something."""

    def __init__(self, scale: str, jobs: Sequence[Job], found: Mapping[Job, Content]) -> None:
        self._scale = scale
        self._open = dict.fromkeys(jobs)
        self._seen: dict[tuple[str, str, bool], list[float]] = {}
        for job, content in found.items():
            self.done(job, content["seconds"])

    def skip(self, job: Job) -> None:
        self._open.pop(job, None)

    def done(self, job: Job, seconds: float) -> None:
        self._open.pop(job, None)
        self._seen.setdefault(self._like(job), []).append(seconds)

    def left(self) -> str:
        if not self._open:
            return "nothing left"
        return f"{len(self._open)} cells, about {duration(self.seconds())} left"

    def seconds(self) -> float:
        return sum(self._guess(job) for job in self._open)

    @staticmethod
    def _like(job: Job) -> tuple[str, str, bool]:
        """Return what jobs have in common that take about as long: setup, sort, and whether a model is trained."""
        return job.setup, _sort_of(job), _trains(job)

    def _guess(self, job: Job) -> float:
        seen = self._seen.get(self._like(job))
        if seen:
            return sum(seen) / len(seen)
        return guess(self._scale, job)


_SORTS = ("plain", "searched", PASSES, "trained", "label-smoothing", "timing")


def _sort_of(job: Job) -> str:
    """Return a word for jobs that take about as long: those that train a model of their own, and so on."""
    if isinstance(job.what, Timing):
        return "timing"
    if job.what.method in _SORTS:
        return job.what.method
    if job.what.varies_search:
        return "searched"
    return "trained" if job.what.trains else "plain"


def _trains(job: Job) -> bool:
    return isinstance(job.what, MethodVariant) and (job.what.trains or job.what.method == "softmax")


def guess(scale: str, job: Job) -> float:
    """Return the seconds a cell is expected to take before any was measured."""
    seconds = _SCORES_GUESS[scale] * (10 if _is_long(job) else 1)
    if isinstance(job.what, MethodVariant) and job.what.method == "label-smoothing" and job.seed == 0:
        return seconds + 3 * _TRAINING_GUESS[scale]
    return seconds + (_TRAINING_GUESS[scale] if _trains(job) else 0.0)


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(50), duration(600), duration(9000)
    ('50 s', '10 min', '2 h 30 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"

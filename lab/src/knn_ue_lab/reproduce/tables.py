"""Cells -> tables: the paper's number, our mean and standard deviation over seeds, the significantly best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

from knn_ue_lab.reproduce.answers import MAX_CLASSES
from knn_ue_lab.reproduce.cells import Content
from knn_ue_lab.reproduce.claims import Claim, claims_of, time_claims_of
from knn_ue_lab.reproduce.comparisons import PairedTests, compare_block, found_jobs, pair_of
from knn_ue_lab.reproduce.floors import kept_floor
from knn_ue_lab.reproduce.learning import unlearned
from knn_ue_lab.reproduce.measures import DETECTION, VISIBLE, measure_of
from knn_ue_lab.reproduce.plan import Block, PaperTable
from knn_ue_lab.reproduce.published import Published
from knn_ue_lab.reproduce.roles import notes_of, vote_notes_of
from knn_ue_lab.reproduce.run import Job, Outcome
from knn_ue_lab.reproduce.statistics import FEWEST_SEEDS, N_BOOTSTRAP, PairedTest, holm, mean_and_std
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.toy_cases import toy_numbers
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant
from knn_ue_lab.reproduce.verdicts import ALPHA, ClaimVerdict, differences, judge, judge_coverage, judge_times


@dataclass(frozen=True, kw_only=True)
class Number:
    """One field of a table, in the unit of its measure: the paper's number and ours.

    `best` says that ours is the best of its column and significantly better than every other method.
    """

    published: Published | None = None
    mean: float | None = None
    std: float | None = None
    n_seeds: int = 0
    best: bool = False

    def __str__(self) -> str:
        if self.mean is None:
            return "–"
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True, kw_only=True)
class FilledBlock:
    """The numbers of one test set: `rows` are names of methods with a number for each of `measures`.

    `remarks` say of a method that its numbers are not of the same texts or seeds as those of the others, or that its
    model did not learn.
    """

    title: str
    measures: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Number]]
    remarks: Mapping[str, str] = field(default_factory=dict)

    def has_published(self, measure: str) -> bool:
        """Say whether the paper prints this column."""
        return any(numbers[measure].published is not None for numbers in self.rows.values() if measure in numbers)


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """One method of a table of times: milliseconds a row, and how many times the first method's, with both bounds."""

    published: Published | None
    published_ratio: float | None
    milliseconds: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TimeBlock:
    """Times on one test set; `busy` says that other jobs ran meanwhile."""

    title: str
    rows: Mapping[str, TimeRow]
    busy: bool


@dataclass(frozen=True, kw_only=True)
class FilledTable:
    """A table with its numbers, its verdicts, how encoder and data differ from the paper's, and what else to know.

    `measured` says that there are cells of it, even if they have none of its numbers. `compared` are its paired tests
    by setup and test set.
    """

    table: PaperTable
    blocks: tuple[FilledBlock, ...] = ()
    times: tuple[TimeBlock, ...] = ()
    verdicts: tuple[ClaimVerdict, ...] = ()
    differs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    measured: bool = True
    compared: Mapping[tuple[str, str], PairedTests] = field(default_factory=dict)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What to say of numbers that are not there: no data, not measured yet, or none to measure."""
        if self.table.missing and not self.table.setups:
            return (f"Cannot be tested here: this run has no data or no settings for {', '.join(self.table.missing)}.",)
        gaps = [
            f"This run has no data or no settings for {name}: this part cannot be tested here."
            for name in self.table.missing
        ]
        if not (self.blocks or self.times):
            gaps.append("Measured, but no test set has these numbers." if self.measured else "Not measured yet.")
        return tuple(gaps)

    @property
    def remaining_notes(self) -> tuple[str, ...]:
        """The notes to end with: how encoder and data differ is told beside the verdicts where there are any."""
        return self.notes if self.verdicts else (*self.differs, *self.notes)


@dataclass(kw_only=True)
class Filler:
    """Fills tables from the cells of an outcome; comparisons are made where answers are at hand."""

    runners: Mapping[str, TaskRunner]
    outcome: Outcome
    n_bootstrap: int = N_BOOTSTRAP
    _means: dict[tuple[str, str, str, str], float] = field(default_factory=dict)

    @cached_property
    def unlearned(self) -> dict[str, dict[MethodVariant, str]]:
        """By setup: the methods whose models did not learn, each with what to say of it."""
        setups = dict.fromkeys(job.setup for job in self.outcome.found)
        return {setup: unlearned(self.runners[setup], self.outcome) for setup in setups}

    def fill(self, table: PaperTable) -> FilledTable:
        """Return the table with all numbers that were measured."""
        if table.kind == "toy":
            return _toy(table)
        self._means = {}
        compared: dict[tuple[str, str], PairedTests] = {}
        blocks = []
        for block in table.blocks:
            if not self._is_measured(table, block):
                continue
            found = compare_block(
                self.runners[block.setup],
                table.name,
                block,
                table.variants[block.setup],
                self.outcome,
                self.n_bootstrap,
            )
            compared[block.setup, block.part] = found
            filled = self._block(table, block, found)
            # A set without its first measure (human votes, say) has nothing to tell in this table.
            if any(row[block.measures[0]].mean is not None for row in filled.rows.values()):
                blocks.append(filled)
        verdicts = judge(claims_of(table), compared, self._means, self.unlearned, self._floor)
        verdicts += self._coverage_verdicts(table)
        cells = {
            (setup, timing.part): self.outcome.found[job]
            for setup, timing in table.timings
            if (job := Job(setup=setup, what=timing, seed=0)) in self.outcome.found
        }
        verdicts += judge_times(time_claims_of(table), cells)
        differs = {setup: differences(self.runners[setup]) for setup in table.setups}
        return FilledTable(
            table=table,
            blocks=tuple(blocks),
            times=tuple(_time_block(table, setup, part, cell) for (setup, part), cell in cells.items()),
            verdicts=tuple(replace(one, differs=differs.get(one.setup, "")) for one in verdicts),
            differs=tuple(f"Not the paper's ({setup}): {text}." for setup, text in differs.items() if text),
            notes=self._notes(table),
            measured=bool(compared or cells),
            compared=compared,
        )

    def _block(self, table: PaperTable, block: Block, compared: PairedTests) -> FilledBlock:
        variants = table.variants[block.setup]
        best = {name: self._best(block, variants, name, compared.get(name, {})) for name in block.measures}
        rows = {}
        for variant in variants:
            contents = self._contents(block, variant)
            numbers = {}
            for name in block.measures:
                values = [x for x in (stored_number(one, block.part, name) for one in contents) if x is not None]
                numbers[name] = self._number(table, block, variant, name, values, best=best[name] == variant)
            # A method of ours that was not measured with these models is no row; one of the paper's is.
            if table.figure or contents or any(number.published is not None for number in numbers.values()):
                rows[row_name(table, variant)] = numbers
        runner = self.runners[block.setup]
        n_rows = len(runner.data.sets[block.part].rows)
        title = f"{block.part}, {n_rows:,} {'sentences' if runner.setup.task == 'token-classification' else 'texts'}"
        title += f" (in place of {block.paper})" if block.paper and block.paper.lower() != block.part else ""
        return FilledBlock(title=title, measures=block.measures, rows=rows, remarks=self._remarks(table, block, n_rows))

    def _contents(self, block: Block, variant: MethodVariant) -> list[Content]:
        return [self.outcome.found[job] for _, job in sorted(found_jobs(self.outcome, block.setup, variant).items())]

    def _remarks(self, table: PaperTable, block: Block, n_rows: int) -> dict[str, str]:
        """Return what sets the numbers of a method apart: fewer texts, fewer seeds, a model that did not learn."""
        variants = table.variants[block.setup]
        n_seeds = {variant: len(self._contents(block, variant)) for variant in variants}
        cap = self.runners[block.setup].scale.passes_rows
        found: dict[str, str] = {}
        for variant, n in n_seeds.items():
            remarks = [f"first {cap} texts"] if variant.method == PASSES and cap and cap < n_rows else []
            remarks += [why] if (why := self.unlearned[block.setup].get(variant)) else []
            remarks += [f"{n} of {max(n_seeds.values())} seeds"] if 0 < n < max(n_seeds.values()) else []
            if n and remarks:
                found[row_name(table, variant)] = ", ".join(remarks)
        return found

    def _number(
        self, table: PaperTable, block: Block, variant: MethodVariant, name: str, values: Sequence[float], *, best: bool
    ) -> Number:
        printed = None
        if table.published is not None and block.paper is not None:
            printed = table.published.rows.get(str(variant), {}).get((block.paper, name))
        if not values:
            return Number(published=printed)
        unit = measure_of(name).unit
        mean, std = mean_and_std(values)
        self._means[block.setup, block.part, str(variant), name] = mean
        spread = None if std is None else unit * std
        return Number(published=printed, mean=unit * mean, std=spread, n_seeds=len(values), best=best)

    def _best(
        self, block: Block, variants: Sequence[MethodVariant], name: str, pairs: Mapping[tuple[str, str], PairedTest]
    ) -> MethodVariant | None:
        """Return the method that is better than every other one, after correction for having looked at all.

        mc-dropout, which saw fewer texts, cannot be it, but is one of those to be better than. Models that did not
        learn are neither, nor are those that it has fewer than two seeds in common with.
        """
        if not pairs:
            return None
        sign, unit = (1 if measure_of(name).higher_is_better else -1), measure_of(name).unit
        measured = [
            variant
            for variant in variants
            if variant not in self.unlearned[block.setup]
            and any(stored_number(one, block.part, name) is not None for one in self._contents(block, variant))
        ]

        def is_best(variant: MethodVariant) -> bool:
            found = [pair_of(pairs, str(variant), str(other)) for other in measured if other != variant]
            tested = [one for one in found if one is not None and one.n_seeds >= FEWEST_SEEDS]
            better = all(not math.isnan(one.p) and sign * unit * one.difference >= VISIBLE for one in tested)
            return bool(tested) and None not in found and better and max(holm([one.p for one in tested])) < ALPHA

        best = [variant for variant in measured if variant.method != PASSES and is_best(variant)]
        return best[0] if len(best) == 1 else None  # two that share no seeds may both be better than all others

    def _floor(self, claim: Claim, found: PairedTest) -> float:
        return kept_floor(self.runners[claim.block.setup], self.outcome, claim, found)

    def _coverage_verdicts(self, table: PaperTable) -> list[ClaimVerdict]:
        if table.name != "coverage":
            return []
        verdicts = []
        for block in table.blocks:
            for variant in table.variants[block.setup]:
                if "PCA128,IVF100" in variant.index.factory and variant.index.n_probe == 32:
                    shares = [stored_number(one, block.part, "coverage") for one in self._contents(block, variant)]
                    known = [share for share in shares if share is not None]
                    verdicts.append(judge_coverage(block.setup, block.part, row_name(table, variant), known))
        return verdicts

    def _notes(self, table: PaperTable) -> tuple[str, ...]:
        names = dict.fromkeys(name for block in table.blocks for name in block.measures)
        notes = [f"{measure_of(name).title}: {text}." for name in names if (text := measure_of(name).definition)]
        measured = [block for block in table.blocks if self._is_measured(table, block)]
        sets = [self.runners[block.setup].data.sets[block.part] for block in measured]
        cap = next((self.runners[setup].scale.passes_rows for setup in table.setups), None)
        passes = any(variant.method == PASSES for variants in table.variants.values() for variant in variants)
        if cap and passes and any(len(one.rows) > cap for one in sets):
            notes.append(
                f"mc-dropout saw the first {cap} texts of each set only, and is compared with others on those."
            )
        notes += [note for one in sets for note in notes_of(one)]
        notes += [note for one in sets for note in vote_notes_of(one)] if "human" in names else []
        if "class_auroc" in names:
            many = [block.setup for block in measured if len(self.runners[block.setup].data.known) > MAX_CLASSES]
            notes += [f"AUROC of the classes is not measured where there are more than {MAX_CLASSES}." for _ in many]
        notes += [f"{remark}." for setup in table.setups for remark in self.runners[setup].setup.remarks]
        return tuple(dict.fromkeys(notes))

    def _is_measured(self, table: PaperTable, block: Block) -> bool:
        """Say whether some cell of the block is there: otherwise its data may not be at hand either."""
        return any(found_jobs(self.outcome, block.setup, variant) for variant in table.variants[block.setup])


def stored_number(content: Content, part: str, name: str) -> float | None:
    """Return a number of a cell as a fraction, None where it has none."""
    if name == "coverage":
        value = content.get("coverage", {}).get(part)
    else:
        field_name = name
        if name in DETECTION and name.endswith("_published"):
            field_name = DETECTION[name].field
        value = content["sets"].get(part, {}).get(field_name)
    return None if value is None else float(value)


def row_name(table: PaperTable, variant: MethodVariant) -> str:
    """Return how the table calls a method."""
    return table.names.get(variant, str(variant))


def _time_block(table: PaperTable, setup: str, part: str, content: Content) -> TimeBlock:
    timing = next(one for name, one in table.timings if name == setup and one.part == part)
    paper = _paper_set(table, setup, part)
    printed = table.published.rows if table.published is not None else {}
    first = content["milliseconds"][str(timing.variants[0])]
    base = printed.get(str(timing.variants[0]), {}).get((paper, "seconds"))
    rows = {}
    for variant in timing.variants:
        rounds = content["milliseconds"].get(str(variant), [])
        if not rounds:
            continue
        ratios = [a / b for a, b in zip(rounds, first[: len(rounds)], strict=True)]
        number = printed.get(str(variant), {}).get((paper, "seconds"))
        rows[row_name(table, variant)] = TimeRow(
            published=number,
            published_ratio=number.mean / base.mean if number is not None and base is not None else None,
            milliseconds=median(rounds),
            ratio=median(ratios),
            low=min(ratios),
            high=max(ratios),
        )
    what = "search only, a query" if timing.search_only else "model and method, a text or sentence"
    return TimeBlock(title=f"{part}: milliseconds ({what})", rows=rows, busy=content["load"] > 1.5)


def _paper_set(table: PaperTable, setup: str, part: str) -> str:
    """Return the paper's set of a timed one: tables of times have no blocks, but a column for each task they need."""
    for block in table.blocks:
        if block.part == part and block.paper:
            return block.paper
    columns = [one for one, _ in table.published.columns] if table.published is not None else []
    return columns[table.needs.index(setup)] if columns else ""


def _toy(table: PaperTable) -> FilledTable:
    found = toy_numbers()
    assert table.published is not None
    rows = {
        case: {
            measure: Number(published=table.published.rows[case].get(("toy", measure)), mean=value)
            for measure, value in numbers.items()
        }
        for case, numbers in found.items()
    }
    printed = [number for row in rows.values() for number in row.values() if number.published is not None]
    same = all(str(number) == str(number.published) for number in printed)
    verdict = ClaimVerdict(
        table=table.name,
        claim="E-AURC punishes one low confidence in a right answer far more than ECE does",
        place="toy",
        measure="ECE, E-AURC",
        paper="17.67, 18.80 / 16.83, 121.57",
        ours=" / ".join(f"{row['ece']}, {row['e_aurc_published']}" for row in rows.values()),
        interval="exact",
        p=math.nan,
        t_test=math.nan,
        word="holds" if same else "does not hold",
        reason="to the last digit, by the published definition" if same else "",
    )
    block = FilledBlock(title="six answers", measures=("ece", "e_aurc_published", "e_aurc"), rows=rows)
    return FilledTable(table=table, blocks=(block,), verdicts=(verdict,))

"""The sentences that matter, each made from numbers: where our methods win, where they tie, where they lose."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from knn_ue.report.headline import listed
from knn_ue_reproduce.grids import counted
from knn_ue_reproduce.league import Column, Record, Standing, league_of, numbers_of, placed, record_of
from knn_ue_reproduce.league_grids import OURS
from knn_ue_reproduce.learning import UNLEARNED
from knn_ue_reproduce.measures import measure_of
from knn_ue_reproduce.tables import FilledTable
from knn_ue_reproduce.variants import ENTITY_PLATT
from knn_ue_reproduce.verdicts import ClaimVerdict

N_SENTENCES = 10
_MAIN, _PLAIN, _ENTITY = "knn-ue", "softmax", "knn-ue-entity"
_SHOWN_LOSSES = 6
_SHOWN_LEADERS = 3


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the sentences are made of: columns in domain, out of domain and of detection, and the paper's claims.

    `learned` are the columns that say how well the plain model does its task, in domain; on the tasks of `unlearned` it
    did not learn it.
    """

    scale: str
    learned: Sequence[Column]
    inside: Sequence[Column]
    outside: Sequence[Column]
    detected: Sequence[Column]
    tables: Sequence[FilledTable]
    verdicts: Sequence[ClaimVerdict]
    unlearned: Sequence[str] = ()

    @property
    def scored(self) -> list[Column]:
        """The columns of calibration and ranking, in domain and out."""
        return [*self.inside, *self.outside]


def sentences_of(evidence: Evidence) -> list[str]:
    """Return the first ten sentences that there are numbers for; what is lost and what the claims came to are first."""
    made = {make: make(evidence) for make in (*_NEEDED, *_WANTED)}
    kept = [make for make, text in made.items() if text][:N_SENTENCES]
    return [made[make] or "" for make in _ORDER if make in kept]


def _scope(evidence: Evidence) -> str | None:
    columns = evidence.scored
    failed = evidence.unlearned
    nothing = f"the plain model did not learn its task on {listed(failed)}: no method is ranked there" if failed else ""
    if not columns:
        return f"{_capital(nothing)}." if nothing else None
    methods = {method for column in columns for method in column.values}
    seeds = [len(found) for column in columns for found in column.values.values()]
    sets = {(column.setup, column.part) for column in columns}
    tasks = list(dict.fromkeys(column.setup for column in columns))
    known = [
        f"{'F1 ' if column.measure == 'f1' else ''}{column.mean(_PLAIN):.1f} % ({column.part})"
        for column in evidence.learned
        if _PLAIN in column.values
    ]
    learned = f"; in domain the plain model is right on {listed(known)}" if known else ""
    return (
        f"{_many(len(methods), 'method')} on {_many(len(tasks), 'task')} ({listed(tasks)}) and "
        f"{_many(len(sets), 'labeled test set')}, with {_seeds(seeds)}, at the {evidence.scale} scale{learned}"
        f"{f'; {nothing}' if nothing else ''}."
    )


def _first_inside(evidence: Evidence) -> str | None:
    return _first(evidence.inside, "In domain")


def _first_outside(evidence: Evidence) -> str | None:
    return _first(evidence.outside, "Out of domain")


def _first(columns: Sequence[Column], where: str) -> str | None:
    standings = league_of(columns)
    ranked = placed(standings)
    if len(ranked) < 2:
        return None
    numbers = _numbers(ranked)
    leaders = [one for one in ranked if numbers[one.method] == 1]
    best, others = leaders[0], ranked[len(leaders) :]
    near = sum(one.low <= best.high for one in others)
    order = "no other 95 % interval overlaps its own"
    if near:
        order = f"the 95 % intervals of {_many(near, 'other')} overlap its own, so that it is not shown to be the best"
    following = f" (next is {_code(others[0].method)} with {_rank(others[0])}; {order})" if others else ""
    first = f"{_code(best.method)} has" if len(leaders) == 1 else f"{_together(leaders)} share"
    n_sets = len({(column.setup, column.part) for column in columns})
    ours = [
        f"{_code(one.method)} is number {numbers[one.method]} ({_rank(one)})" for one in others if one.method in OURS
    ]
    ours += [
        f"{_code(one.method)}, in {one.n_columns} of {best.n_columns} columns, has {_rank(one)}"
        for one in standings
        if one.method in OURS and one not in ranked
    ]
    told = f"; {listed(ours)}" if ours else ""
    return (
        f"{where} ({_many(n_sets, 'set')}), {first} the best mean rank of {len(ranked)} methods: on average "
        f"{_rank(best)} of the others do better{following}{told}."
    )


def _against_plain(evidence: Evidence) -> str | None:
    parts = []
    for measure in ("ece", "e_aurc"):
        columns = [one for one in _of(evidence.scored, measure) if {_MAIN, _PLAIN} <= one.values.keys()]
        if not columns:
            return None
        better = sum(column.is_better(_MAIN, _PLAIN) for column in columns)
        same = len(columns) - better - sum(column.is_better(_PLAIN, _MAIN) for column in columns)
        record = record_of(columns, _MAIN, _PLAIN)
        parts.append(
            f"the lower {measure_of(measure).title} on {better} of {_many(len(columns), 'set')}"
            f"{f', the same on {same}' if same else ''} ({_significance(record, len(columns))})"
        )
    return f"Against the plain softmax, {_code(_MAIN)} has {listed(parts)}."


def _against_simple(evidence: Evidence) -> str | None:
    parts = []
    for rival, name in (("temperature", "temperature scaling"), ("knn-ue-no-label", "itself without the label term")):
        record = record_of(evidence.scored, _MAIN, rival)
        if record.total:
            parts.append(f"against {name} {_code(_MAIN)} {_told(record)}")
    return f"{_capital(listed(parts))}." if parts else None


def _against_best(evidence: Evidence) -> str | None:
    rivals = [one for one in placed(league_of(evidence.outside)) if one.method not in OURS]
    if not rivals:
        return None
    best = rivals[0].method
    record = record_of(evidence.scored, _MAIN, best)
    if not record.total:
        return None
    return f"The best method of others out of domain is {_code(best)}: against it {_code(_MAIN)} {_told(record)}."


def _entities(evidence: Evidence) -> str | None:
    columns = [column for column in evidence.outside if _ENTITY in column.values and len(column.values) > 1]
    parts = []
    for measure in ("ece", "e_aurc"):
        chosen = _of(columns, measure)
        rivals = [one for one in _everywhere(chosen) if one != _ENTITY]
        if not rivals:
            return None
        means = {method: fmean(column.mean(method) for column in chosen) for method in (_ENTITY, *rivals)}
        best = min(rivals, key=lambda method: means[method])
        parts.append(f"{measure_of(measure).title} {means[_ENTITY]:.1f} against {means[best]:.1f} of {_code(best)}")
    record = record_of(columns, _ENTITY)
    tested = f"; against all methods it {_told(record)}" if record.total else ""
    return (
        f"Of entities out of domain, {_code(_ENTITY)} has on average {listed(parts)}, the best other method by each"
        f"{tested}; {_alike(columns)}."
    )


def _alike(columns: Sequence[Column]) -> str:
    """Return how our method compares with the other one that is fitted on whole entities, if it was measured."""
    chosen = [column for column in columns if ENTITY_PLATT in column.values]
    if not chosen:
        return "it alone is fitted on whole entities, the others on words, so that this is no comparison of equals"
    means = [
        f"{measure_of(measure).title} {fmean(column.mean(ENTITY_PLATT) for column in found):.1f}"
        for measure in ("ece", "e_aurc")
        if (found := _of(chosen, measure))
    ]
    record = record_of(chosen, _ENTITY, ENTITY_PLATT)
    tested = f", and against it {_code(_ENTITY)} {_told(record)}" if record.total else ""
    alike = f"only {_code(ENTITY_PLATT)} is fitted on whole entities too, the others on words"
    return f"{alike}: it has {listed(means)}{tested}"


def _detection(evidence: Evidence) -> str | None:
    columns = _of(evidence.detected, "detection_auroc")
    methods = _everywhere(columns)
    if not {_MAIN, _PLAIN} <= set(methods):
        return None
    means = {method: fmean(column.mean(method) for column in columns) for method in methods}
    ordered = sorted(means, key=lambda method: -means[method])
    shown = dict.fromkeys((ordered[0], _PLAIN, _MAIN, *(one for one in ("familiarity",) if one in means)))
    ranked = placed(league_of(evidence.detected))
    numbers = _numbers(ranked)
    places = [
        f"{_code(one.method)} is number {numbers[one.method]} ({_rank(one)})"
        for one in ranked
        if numbers[one.method] == 1 or one.method in (_MAIN, "familiarity")
    ]
    record = record_of(evidence.detected, _MAIN)
    tested = f"; against all of them {_code(_MAIN)} {_told(record)}" if record.total else ""
    return (
        f"OOD detection on {_many(len(columns), 'set')}, by mean rank of {len(ranked)}: {listed(places)}; by mean "
        f"AUROC: {listed(f'{_code(method)} {means[method]:.1f} %' for method in shown)}{tested}."
    )


def _losses(evidence: Evidence) -> str | None:
    """Say where others are significantly better; columns in which nothing could be tested are not counted."""
    compared = [column for column in evidence.scored if _ours_in(column) and _others_in(column)]
    if not compared:
        return None
    tested = [column for column in compared if any(_against_others(column, one).total for one in _ours_in(column))]
    if not tested:
        return "Whether any method is significantly better than another could not be tested: that takes two seeds."
    main = [column for column in tested if _MAIN in column.values]
    records = [_against_others(column, _MAIN) for column in main]
    total = sum(records, Record())
    behind = sum(record.losses > 0 for record in records)
    rivals = {method: record_of(main, _MAIN, method).losses for method in _others_in(*main)}
    worst = sorted((name for name, losses in rivals.items() if losses), key=lambda name: -rivals[name])
    to = f": to {listed(f'{_code(name)} {rivals[name]}' for name in worst)}" if worst else ""
    alone = (
        f"in {behind} of {_many(len(records), 'column')} (a set and a measure) some other method is significantly "
        f"better than {_code(_MAIN)}, which loses {total.losses} of {_many(total.total, 'comparison')} with others{to}"
    )
    lost = {f"{column.part} {measure_of(column.measure).title}": _better_than_ours(column) for column in tested}
    lost = {where: better for where, better in lost.items() if better}
    if not lost:
        return f"Where ours lose: {alone}; in none is one better than every one of ours."
    shown = [
        f"{where} ({listed(map(_code, better[:2]))}{f' and {len(better) - 2} more' if len(better) > 2 else ''})"
        for where, better in list(lost.items())[:_SHOWN_LOSSES]
    ]
    more = [f"{len(lost) - _SHOWN_LOSSES} more"] if len(lost) > _SHOWN_LOSSES else []
    return f"Where ours lose: {alone}; in {len(lost)} one is better than every one of ours: {listed([*shown, *more])}."


def _claims(evidence: Evidence) -> str | None:
    if not any(one.setup for one in evidence.verdicts):  # arithmetic alone is no experiment
        return None
    known = [one.precision for one in evidence.verdicts if not math.isnan(one.precision)]
    power = f"; the median 95 % interval is ± {median(known):.1f} times the paper's gain" if known else ""
    differ = any(one.differs for one in evidence.verdicts)
    caution = " Encoder, data and size differ from the paper's, and each table says how." if differ else ""
    return f"Of {_many(len(evidence.verdicts), 'claim')} of the paper {counted(evidence.verdicts)}{power}.{caution}"


def _human(evidence: Evidence) -> str | None:
    tables = [filled for filled in evidence.tables if filled.table.name == "human"]
    pairs = [
        (block.rows[_MAIN]["human"].mean, block.rows[_PLAIN]["human"].mean)
        for filled in tables
        for block in filled.blocks
        if {_MAIN, _PLAIN} <= block.rows.keys() and UNLEARNED not in block.remarks.get(_MAIN, "")
    ]
    known = [(ours, plain) for ours, plain in pairs if ours is not None and plain is not None]
    if not known:
        return None
    columns = [
        Column(setup=setup, part=part, measure="human", values={_MAIN: {}, _PLAIN: {}}, unit=100.0, tests=tests)
        for filled in tables
        for (setup, part), by_measure in filled.compared.items()
        if setup not in evidence.unlearned and (tests := by_measure.get("human", {}))
    ]
    record = record_of(columns, _MAIN, _PLAIN)
    tested = f" (significantly on {record.wins}, significantly farther on {record.losses})" if record.total else ""
    nearer = sum(ours < plain for ours, plain in known)
    return (
        f"Where the votes of people are known, {_code(_MAIN)} is nearer to them than the plain softmax on {nearer} of "
        f"{_many(len(known), 'set')}{tested}."
    )


def _times(evidence: Evidence) -> str | None:
    blocks = [block for filled in evidence.tables if filled.table.name == "time" for block in filled.times]
    parts = [
        f"{block.rows[_MAIN].ratio:.2f} times as long as the plain softmax ({block.title.split(':')[0]}"
        f"{', measured while other jobs ran' if block.busy else ''})"
        for block in blocks
        if _MAIN in block.rows
    ]
    return f"With the model's own pass, {_code(_MAIN)} takes {listed(parts)}." if parts else None


_Maker = Callable[[Evidence], str | None]
_NEEDED: tuple[_Maker, ...] = (_scope, _first_inside, _first_outside, _losses, _claims)
_WANTED: tuple[_Maker, ...] = (_against_plain, _against_simple, _against_best, _entities, _detection, _human, _times)
_ORDER: tuple[_Maker, ...] = (
    _scope,
    _first_inside,
    _first_outside,
    _against_plain,
    _against_simple,
    _against_best,
    _entities,
    _detection,
    _human,
    _times,
    _losses,
    _claims,
)


def _of(columns: Iterable[Column], measure: str) -> list[Column]:
    return [column for column in columns if column.measure == measure]


def _everywhere(columns: Sequence[Column]) -> list[str]:
    """Return the methods that were measured in all columns."""
    names = list(columns[0].values) if columns else []
    return [name for name in names if all(name in column.values for column in columns)]


def _ours_in(column: Column) -> list[str]:
    return [method for method in column.values if method in OURS]


def _others_in(*columns: Column) -> list[str]:
    return list(dict.fromkeys(method for column in columns for method in column.values if method not in OURS))


def _against_others(column: Column, method: str) -> Record:
    """Return the comparisons of one of ours with methods that are not."""
    return sum((record_of([column], method, other) for other in _others_in(column)), Record())


def _better_than_ours(column: Column) -> list[str]:
    """Return the other methods that are significantly better than every one of ours, the best first."""
    found = [
        method
        for method in column.values
        if method not in OURS and all(record_of([column], method, one).wins for one in _ours_in(column))
    ]
    sign = -1 if column.higher_is_better else 1
    return sorted(found, key=lambda method: sign * column.mean(method))


def _told(record: Record) -> str:
    return f"wins {record.wins}, ties {record.ties} and loses {record.losses} of {record.total} comparisons"


def _significance(record: Record, n_columns: int) -> str:
    if not record.total:
        return "not tested"
    untested = f", {n_columns - record.total} not tested" if record.total < n_columns else ""
    return f"significantly lower on {record.wins}, significantly higher on {record.losses}{untested}"


def _together(leaders: Sequence[Standing]) -> str:
    """Return the methods that share a place, of many only ours by name."""
    if len(leaders) <= _SHOWN_LEADERS:
        return listed(_code(one.method) for one in leaders)
    ours = [_code(one.method) for one in leaders if one.method in OURS]
    return f"{len(leaders)} methods ({listed(ours) if ours else 'none of ours'} among them)"


def _numbers(ranked: Sequence[Standing]) -> dict[str, int]:
    """Return the place of each method; equal ones share it."""
    return dict(zip((one.method for one in ranked), numbers_of([one.rank for one in ranked]), strict=True))


def _rank(one: Standing) -> str:
    return f"{100 * one.rank:.0f} %"


def _code(name: str) -> str:
    return f"`{name}`"


def _many(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def _seeds(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return _many(low, "seed") if low == high else f"{low} to {high} seeds"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""The sentences that matter, each made from numbers: where our methods win, where they tie, where they lose."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import get_args

from knn_ue.report.headline import listed
from knn_ue_lab.reproduce.claims import CORE
from knn_ue_lab.reproduce.detection_sentence import detection_sentence
from knn_ue_lab.reproduce.grids import counted
from knn_ue_lab.reproduce.league import Column, Record, in_all, league_of, of_measure, placed, record_of, without_tags
from knn_ue_lab.reproduce.learning import UNLEARNED
from knn_ue_lab.reproduce.measures import measure_of
from knn_ue_lab.reproduce.ours import (
    LOST,
    OURS,
    better_than_ours,
    code,
    others_in,
    ours_in,
    record_against_others,
)
from knn_ue_lab.reproduce.phrases import (
    capital,
    many,
    places_of,
    seeds_of,
    shown_rank,
    together,
)
from knn_ue_lab.reproduce.tables import FilledTable
from knn_ue_lab.reproduce.variants import ENTITY_PLATT
from knn_ue_lab.reproduce.verdicts import ClaimVerdict, Word

_MAIN, _UNLABELED, _ENTITY = "knn-ue", "knn-ue-no-label", "knn-ue-entity"
_PLAIN, _TEMPERATURE = "softmax", "temperature"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the sentences are made of: columns in domain, out of domain and of detection, and the paper's claims.

    `learned` are the columns that say how well the plain model does its task, in domain; on the tasks of `unlearned` it
    did not learn it. `tagging` are the tasks whose answers are entities, `voted` the columns of sets that are in no
    league. `lengths` is the AUROC of the number of words alone, in percent, by task and set. `other_seeds` is with how
    many seeds mc-dropout and other ways to search were measured, where it is fewer.
    """

    scale: str
    learned: Sequence[Column]
    inside: Sequence[Column]
    outside: Sequence[Column]
    detected: Sequence[Column]
    tables: Sequence[FilledTable]
    verdicts: Sequence[ClaimVerdict]
    unlearned: Sequence[str] = ()
    tagging: Sequence[str] = ()
    voted: Sequence[Column] = ()
    lengths: Mapping[tuple[str, str], float] = field(default_factory=dict)
    other_seeds: int | None = None

    @property
    def scored(self) -> list[Column]:
        """The columns of calibration and ranking, in domain and out."""
        return [*self.inside, *self.outside]


def sentences_of(evidence: Evidence) -> list[str]:
    """Return the points that there are numbers for, ten at most."""
    return [text for make in _MAKERS if (text := make(evidence))]


def _scope(evidence: Evidence) -> str | None:
    columns = evidence.scored
    failed = evidence.unlearned
    nothing = f"the plain model did not learn its task on {listed(failed)}: no method is ranked there" if failed else ""
    if not columns:
        return f"{capital(nothing)}." if nothing else None
    methods = {method for column in columns for method in column.values}
    sets = {(column.setup, column.part) for column in columns}
    tasks = list(dict.fromkeys(column.setup for column in columns))
    known = [
        f"{'F1 ' if column.measure == 'f1' else ''}{column.mean(_PLAIN):.1f} % ({column.part})"
        for column in evidence.learned
        if _PLAIN in column.values
    ]
    entities = " (F1 of entities)" if any(column.measure == "f1" for column in evidence.learned) else ""
    learned = f" The plain model's accuracy{entities} in domain: {listed(known)}." if known else ""
    fewer = evidence.other_seeds
    searched = f"; `mc-dropout` and other ways to search have {many(fewer, 'seed')}" if fewer else ""
    return (
        f"{many(len(methods), 'method')} on {many(len(tasks), 'task')} ({listed(tasks)}) and "
        f"{many(len(sets), 'labeled test set')}, with {seeds_of(columns)}, at the {evidence.scale} "
        f"scale{searched}.{learned}{f' {capital(nothing)}.' if nothing else ''}"
    )


def _first_inside(evidence: Evidence) -> str | None:
    return _first(evidence.inside, "in domain", evidence.tagging)


def _first_outside(evidence: Evidence) -> str | None:
    return _first(evidence.outside, "out of domain", evidence.tagging)


def _first(columns: Sequence[Column], where: str, tagging: Sequence[str]) -> str | None:
    """Return who is best and what is left of the error, of texts where there are any: entities have one of their own.

    One league of both would hide that ours is better on entities than on texts.
    """
    columns = without_tags(columns, tagging)
    ranked = placed(league_of(columns))
    if len(ranked) < 2:
        return None
    numbers = places_of(ranked)
    leaders = [one for one in ranked if numbers[one.method] == 1]
    best = leaders[0]
    n_sets = len({(column.setup, column.part) for column in columns})
    place = f"on texts {where}" if any(column.setup not in tagging for column in columns) and tagging else where
    text = (
        f"{capital(place)} ({many(n_sets, 'set')}), {together(leaders)} "
        f"{'has' if len(leaders) == 1 else 'share'} the best mean rank of {len(ranked)} methods "
        f"({shown_rank(best)} of the others score better)"
    )
    if len(leaders) == 1 and n_sets > 1:  # one set says nothing of others
        text += f", and keeps it in {100 * best.first:.0f} % of the bootstrap draws"
    ours = [one for one in ranked if one.method == _MAIN and numbers[_MAIN] > 1]
    text += "".join(f"; {code(one.method)} is number {numbers[one.method]} ({shown_rank(one)})" for one in ours)
    shown = [name for name in dict.fromkeys((_PLAIN, _TEMPERATURE, best.method, _MAIN)) if name in numbers]
    means = [
        f"Mean {measure_of(measure).title}: {_means(found, shown)}"
        for measure in ("ece", "e_aurc")
        if (found := [one for one in of_measure(columns, measure) if _shared(one, shown)])
    ]
    return f"{'. '.join([text, *means])}."


def _shared(column: Column, methods: Sequence[str]) -> set[int]:
    """Return the seeds that all of these methods have."""
    return set.intersection(*(set(column.values.get(name, ())) for name in methods))


def _means(columns: Sequence[Column], methods: Sequence[str]) -> str:
    """Return the means over sets, over the seeds that all of these methods have."""
    shared = min(len(_shared(column, methods)) for column in columns)
    fewer = any(len(column.values[name]) > shared for column in columns for name in methods)
    means = listed(f"{code(name)} {fmean(column.mean(name, *methods) for column in columns):.1f}" for name in methods)
    return f"{means} ({many(shared, 'common seed')})" if fewer else means


def _against_others(evidence: Evidence) -> str | None:
    """Return how ours does against the simplest method and the best other ones, on texts where there are any."""
    kept = [without_tags(columns, evidence.tagging) for columns in (evidence.inside, evidence.outside)]
    both = [column for columns in kept for column in columns]
    rivals = {_PLAIN: "the plain softmax", _TEMPERATURE: "temperature scaling"}
    for columns, where in zip(kept, ("in domain", "out of domain"), strict=True):
        best = next((one.method for one in placed(league_of(columns)) if one.method not in OURS), None)
        if best is not None:
            rivals.setdefault(best, f"{code(best)}, the best other method {where}")
    known = {name: record for name in rivals if (record := record_of(both, _MAIN, name)).total}
    if not known:
        return None
    parts = listed(f"{record} against {rivals[name]}" for name, record in known.items())
    on_texts = any(column.setup not in evidence.tagging for column in both) and evidence.tagging
    return f"Wins / ties / losses of {code(_MAIN)}{' on texts' if on_texts else ''}: {parts}."


def _labels(evidence: Evidence) -> str | None:
    """Return what the paper's main idea adds: labels of neighbors, beside their distances."""
    record = record_of(evidence.scored, _MAIN, _UNLABELED)
    if not record.total:
        return None
    helps, hurts = (
        [one for one in evidence.verdicts if one.topic == topic] for topic in ("labels help", "labels hurt")
    )
    counts = [f"that they help, {_decided(helps)}"] if helps else []
    counts += [f"that they hurt, {_decided(hurts)}"] if hurts else []
    claims = f" Of the paper's claims {'; '.join(counts)}." if counts else ""
    return (
        f"What the labels of neighbors add to their distances: {code(_MAIN)} has {record} against {code(_UNLABELED)}"
        f"{' (all tasks)' if evidence.tagging else ''}.{claims}"
    )


def _entities(evidence: Evidence) -> str | None:
    columns = [column for column in evidence.outside if _ENTITY in column.values and len(column.values) > 1]
    parts = []
    for measure in ("ece", "e_aurc"):
        chosen = of_measure(columns, measure)
        rivals = [one for one in in_all(chosen) if one != _ENTITY]
        if not rivals:
            return None
        # Each rival and ours over the seeds that both have.
        pairs = {
            rival: [fmean(column.mean(*two) for column in chosen) for two in ((_ENTITY, rival), (rival, _ENTITY))]
            for rival in rivals
        }
        best = min(rivals, key=lambda rival: pairs[rival][1] - pairs[rival][0])
        ours, other = pairs[best]
        common = min(len(column.values[_ENTITY].keys() & column.values[best].keys()) for column in chosen)
        few = any(len(column.values[_ENTITY]) > common for column in chosen)
        over = f" with the same {many(common, 'seed')}" if few else ""
        parts.append(f"{measure_of(measure).title} of {ours:.1f} (best other: {code(best)}, {other:.1f}{over})")
    record = record_of(columns, _ENTITY)
    inside = record_of([column for column in evidence.inside if _ENTITY in column.values], _ENTITY)
    home = f", in domain {inside}" if inside.total else ""
    tested = f" Wins / ties / losses against all methods: {record}{home}." if record.total else ""
    return f"On entities out of domain, {code(_ENTITY)} has a mean {' and '.join(parts)}.{tested} {_alike(columns)}."


def _alike(columns: Sequence[Column]) -> str:
    """Return how our method compares with the other one that is fitted on whole entities, if it was measured."""
    chosen = [column for column in columns if ENTITY_PLATT in column.values]
    if not chosen:
        return "It alone is fitted on whole entities, the others on words, so this is no comparison of equals"
    means = [
        f"{measure_of(measure).title} {fmean(column.mean(ENTITY_PLATT, _ENTITY) for column in found):.1f}"
        for measure in ("ece", "e_aurc")
        if (found := of_measure(chosen, measure))
    ]
    record = record_of(chosen, _ENTITY, ENTITY_PLATT)
    tested = f"; against it {code(_ENTITY)} has {record}" if record.total else ""
    return f"Of the others, only {code(ENTITY_PLATT)} is fitted on whole entities too ({listed(means)}){tested}"


def _detection(evidence: Evidence) -> str | None:
    return detection_sentence(evidence.detected, evidence.lengths)


def _losses(evidence: Evidence) -> str | None:
    """Say where others are significantly better; columns in which nothing could be tested are not counted."""
    compared = [column for column in evidence.scored if ours_in(column) and others_in(column)]
    if not compared:
        return None
    tested = [column for column in compared if any(record_against_others(column, one).total for one in ours_in(column))]
    if not tested:
        return "Whether any method is significantly better than another could not be tested: that takes two seeds."
    main = [column for column in tested if _MAIN in column.values]
    records = [record_against_others(column, _MAIN) for column in main]
    total = sum(records, Record())
    behind = sum(record.losses > 0 for record in records)
    rivals = {method: record_of(main, _MAIN, method).losses for method in others_in(*main)}
    worst = sorted((name for name, losses in rivals.items() if losses), key=lambda name: -rivals[name])
    most = f", most to {listed(f'{code(name)} ({rivals[name]})' for name in worst[:2])}" if worst else ""
    alone = (
        f"in {behind} of {many(len(records), 'column')} (a measure of a set) some other method is significantly better "
        f"than {code(_MAIN)}, which loses {total.losses} of {many(total.total, 'comparison')} with others{most}"
    )
    n_lost = sum(bool(better_than_ours(column)) for column in tested)
    n_apart = len({column.part for column in evidence.voted if better_than_ours(column)})
    where = [f"in {n_lost} of the {many(len(tested), 'column')}"]
    where += [f"on {many(n_apart, 'set')} outside the league"] if n_apart else []
    named = f': see the table "{LOST}"' if n_lost or n_apart else ""
    beaten = f"A method beats all of ours {listed(where)}{named}"
    return f"Where ours lose: {alone}. {beaten}.{_human(evidence)}"


def _claims(evidence: Evidence) -> str | None:
    core = [one for one in evidence.verdicts if one.topic in CORE]
    others = [one for one in evidence.verdicts if one.topic not in CORE and one.setup]  # arithmetic is no experiment
    parts = []
    if core:
        parts.append(
            f"Of {many(len(core), 'claim')} of the paper on calibration, ranking and detection, {counted(core)}"
        )
        marked = [one for one in core if one.marked]
        parts += [f"Of those that it calls significant (†), {_decided(marked)}"] if marked else []
        effects = [(one.effect, one.precision) for one in core if not math.isnan(one.precision)]
        if effects:
            gain, width = (median(found) for found in zip(*effects, strict=True))
            parts.append(
                f"The median gain is {gain:.2f} times the paper's, the median 95 % interval of a claim ± {width:.2f}"
            )
    if others:
        parts.append(f"Of the claims on search, neighbors and time, {_decided(others)}")
    differ = any(one.differs for one in evidence.verdicts)
    parts += ["Encoder, data and size differ from the paper's"] if differ and parts else []
    return f"{'. '.join(parts)}." if parts else None


def _decided(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return how many claims hold and do not, and what became of the others."""
    words = [one.word for one in verdicts]
    held, refuted, undecided, untested = (words.count(word) for word in get_args(Word))
    text = f"{held} of {len(words)} {'holds' if held == 1 else 'hold'}"
    text += f" and {refuted} {'does not' if refuted == 1 else 'do not'}"
    others = [f"{undecided} undecided"] if undecided else []
    others += [f"{untested} untested"] if untested else []
    return f"{text} ({', '.join(others)})" if others else text


def _human(evidence: Evidence) -> str:
    """Return how close ours is to the votes of people, nothing where there are none."""
    tables = [filled for filled in evidence.tables if filled.table.name == "human"]
    pairs = [
        (block.rows[_MAIN]["human"].mean, block.rows[_PLAIN]["human"].mean)
        for filled in tables
        for block in filled.blocks
        if {_MAIN, _PLAIN} <= block.rows.keys() and UNLEARNED not in block.remarks.get(_MAIN, "")
    ]
    known = [(ours, plain) for ours, plain in pairs if ours is not None and plain is not None]
    if not known:
        return ""
    columns = [
        Column(setup=setup, part=part, measure="human", values={_MAIN: {}, _PLAIN: {}}, unit=100.0, tests=tests)
        for filled in tables
        for (setup, part), by_measure in filled.compared.items()
        if setup not in evidence.unlearned and (tests := by_measure.get("human", {}))
    ]
    record = record_of(columns, _MAIN, _PLAIN)
    tested = f" (significantly closer on {record.wins}, significantly less close on {record.losses})"
    if not record.wins + record.losses:
        tested = "; no difference is significant" if record.total else ""
    nearer = sum(ours < plain for ours, plain in known)
    return (
        f" Where human votes are known, {code(_MAIN)} is closer to them than the plain softmax on {nearer} of "
        f"{many(len(known), 'set')}{tested}."
    )


def _times(evidence: Evidence) -> str | None:
    blocks = [block for filled in evidence.tables if filled.table.name == "time" for block in filled.times]
    parts = [
        f"{listed(f'{code(name)} {block.rows[name].ratio:.2f}' for name in (_MAIN, _ENTITY) if name in block.rows)} "
        f"({block.title.split(':')[0]}{', measured while other jobs ran' if block.busy else ''})"
        for block in blocks
        if _MAIN in block.rows
    ]
    return (
        f"Inference time with the model's own pass, in times that of the plain softmax: {'; '.join(parts)}."
        if parts
        else None
    )


# In the order of the page.
_MAKERS: tuple[Callable[[Evidence], str | None], ...] = (
    _scope,
    _first_inside,
    _first_outside,
    _against_others,
    _labels,
    _entities,
    _detection,
    _times,
    _losses,
    _claims,
)

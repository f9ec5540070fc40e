"""Cells -> the columns of the league: which measures of which test sets, and which methods are not in them."""

from collections.abc import Iterable, Mapping, Sequence

from knn_ue_lab.reproduce.league import Column
from knn_ue_lab.reproduce.measures import measure_of
from knn_ue_lab.reproduce.run import Outcome
from knn_ue_lab.reproduce.setups import Role, Setup
from knn_ue_lab.reproduce.statistics import PairedTest
from knn_ue_lab.reproduce.tables import FilledTable, stored_number
from knn_ue_lab.reproduce.variants import MethodVariant

# One measure of calibration, one of ranking, and one proper score, which is both.
SCORED = ("ece", "e_aurc", "brier")
DETECTED = ("detection_auroc", "fpr95")

# By setup and method: why its numbers are not compared with those of others.
LeftOut = Mapping[str, Mapping[MethodVariant, str]]


def columns_of(
    setups: Iterable[Setup],
    outcome: Outcome,
    tables: Iterable[FilledTable],
    *,
    measures: Sequence[str],
    roles: Sequence[Role],
    left_out: LeftOut,
) -> list[Column]:
    """Return the columns of the sets with these roles that have at least one method; other ways to search are none."""
    tests = _tests(tables)
    columns = []
    for setup in setups:
        for one in setup.sets:
            for measure in measures if one.role in roles else ():
                known = measure_of(measure)
                values = _values(outcome, setup.name, one.name, measure, left_out.get(setup.name, {}))
                if values:
                    columns.append(
                        Column(
                            setup=setup.name,
                            part=one.name,
                            measure=measure,
                            values=values,
                            higher_is_better=known.higher_is_better,
                            unit=known.unit,
                            tests=tests.get((setup.name, one.name, measure), {}),
                        )
                    )
    return columns


def _values(
    outcome: Outcome, setup: str, part: str, measure: str, left_out: Mapping[MethodVariant, str]
) -> dict[str, dict[int, float]]:
    unit = measure_of(measure).unit
    found: dict[str, dict[int, float]] = {}
    for job, content in outcome.found.items():
        variant = job.what
        if job.setup != setup or not isinstance(variant, MethodVariant) or variant.varies_search or variant in left_out:
            continue
        value = stored_number(content, part, measure)
        if value is not None:
            found.setdefault(str(variant), {})[job.seed] = unit * value
    return found


def _tests(tables: Iterable[FilledTable]) -> dict[tuple[str, str, str], Mapping[tuple[str, str], PairedTest]]:
    """Return the paired tests of all tables by setup, test set and measure; a measure of two tables has the same."""
    found: dict[tuple[str, str, str], Mapping[tuple[str, str], PairedTest]] = {}
    for filled in tables:
        for (setup, part), by_measure in filled.compared.items():
            for measure, pairs in by_measure.items():
                if len(pairs) > len(found.get((setup, part, measure), {})):
                    found[setup, part, measure] = pairs
    return found

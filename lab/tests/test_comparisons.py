"""Pairs are compared on the same texts, and what a short trial compares does not replace what is kept."""

import shutil
from dataclasses import replace

import pytest

from knn_ue_lab.reproduce import comparisons
from knn_ue_lab.reproduce.cells import CellStore
from knn_ue_lab.reproduce.comparisons import compare_block, measures_of, pair_of
from knn_ue_lab.reproduce.measures import MEASURES
from knn_ue_lab.reproduce.plan import Block
from knn_ue_lab.reproduce.run import Job, Outcome, run_jobs
from knn_ue_lab.reproduce.score import read_answers
from knn_ue_lab.reproduce.setups import folder_setups
from knn_ue_lab.reproduce.statistics import redrawn
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import MethodVariant
from tiny_data import tiny_scale

pytestmark = pytest.mark.slow  # five runs are trained and measured
BLOCK = Block(setup="sentiment", part="away", paper=None, measures=("ece", "right"))
KNN, SOFTMAX, PASSES = (MethodVariant(method=name) for name in ("knn-ue", "softmax", "mc-dropout"))
N_PASSES_ROWS = 8


@pytest.fixture(scope="module")
def measured(data, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    (setup,) = (one for one in folder_setups(data) if one.name == "sentiment")
    scale = replace(tiny_scale(), passes_rows=N_PASSES_ROWS)
    runner = TaskRunner(setup, scale, CellStore(folder / "cells", folder / "work"), encoder, device="cpu")
    jobs = [Job(setup="sentiment", what=variant, seed=seed) for variant in (KNN, SOFTMAX) for seed in (0, 1)]
    outcome = run_jobs({"sentiment": runner}, [*jobs, Job(setup="sentiment", what=PASSES, seed=0)], lambda _line: None)
    assert not outcome.failed
    return runner, outcome


def compared(measured, outcome=None, n_bootstrap=20):
    runner, found = measured
    return compare_block(runner, "sentiment", BLOCK, (KNN, SOFTMAX, PASSES), outcome or found, n_bootstrap)["ece"]


def test_mc_dropout_is_compared_on_the_texts_it_saw(measured):
    runner, _ = measured
    ece = MEASURES["ece"].function

    pair = pair_of(compared(measured), "knn-ue", "mc-dropout")

    answers = read_answers(runner, KNN, 0, "away")
    assert len(answers.group) > N_PASSES_ROWS
    assert pair.first == pytest.approx(ece(answers.first(N_PASSES_ROWS)), abs=1e-6)
    assert pair.second == pytest.approx(ece(read_answers(runner, PASSES, 0, "away")), abs=1e-6)
    assert (pair.n_texts, pair.n_seeds) == (N_PASSES_ROWS, 1)


def test_others_are_compared_on_all_texts_and_seeds(measured):
    _, outcome = measured

    pair = pair_of(compared(measured), "softmax", "knn-ue")

    cells = [outcome.found[Job(setup="sentiment", what=SOFTMAX, seed=seed)] for seed in (0, 1)]
    # Answers are kept in half precision.
    assert pair.first == pytest.approx(sum(cell["sets"]["away"]["ece"] for cell in cells) / 2, abs=1e-4)
    assert (pair.n_texts, pair.n_seeds) == (None, 2)


def test_answers_that_do_not_give_the_number_of_the_table_are_not_tested(measured):
    _, outcome = measured
    job = Job(setup="sentiment", what=KNN, seed=1)
    away = outcome.found[job]["sets"]["away"]
    changed = outcome.found[job] | {"sets": outcome.found[job]["sets"] | {"away": away | {"ece": away["ece"] + 0.5}}}

    found = compared(measured, Outcome(found=outcome.found | {job: changed}))

    assert pair_of(found, "softmax", "knn-ue") is None
    assert pair_of(compared(measured), "softmax", "knn-ue") is not None


def test_a_trial_of_fewer_seeds_or_draws_leaves_what_was_compared(measured):
    runner, outcome = measured
    compared(measured)
    kept = {path: path.read_bytes() for path in runner.store.cells.rglob("compared-*-2x20.*")}

    compared(measured, n_bootstrap=10)
    compared(measured, Outcome(found={job: cell for job, cell in outcome.found.items() if job.seed == 0}))

    assert kept
    assert {path: path.read_bytes() for path in kept} == kept


def test_comparisons_are_read_without_the_answers(measured, tmp_path):
    runner, outcome = measured
    before = compared(measured)
    elsewhere = replace(runner, store=CellStore(runner.store.cells, tmp_path / "work"))

    assert repr(compared((elsewhere, outcome))) == repr(before)  # NaN is not equal to itself


def test_one_more_seed_draws_texts_for_its_own_cells_only(measured, tmp_path, monkeypatch):
    runner, outcome = measured
    drawn = []
    counted = lambda samples, *rest, **options: drawn.append(len(samples)) or redrawn(samples, *rest, **options)  # noqa: E731
    monkeypatch.setattr(comparisons, "redrawn", counted)
    for name in ("step by step", "at once"):
        shutil.copytree(runner.store.cells, tmp_path / name, ignore=shutil.ignore_patterns("compared-*"))
    slowly, at_once = (
        replace(runner, store=CellStore(tmp_path / name, tmp_path / f"work of {name}"))
        for name in ("step by step", "at once")
    )
    first_seed = {job: cell for job, cell in outcome.found.items() if job.seed == 0 and job.what != PASSES}
    both_seeds = {job: cell for job, cell in outcome.found.items() if job.what != PASSES}

    compared((slowly, Outcome(found=first_seed)))
    then = compared((slowly, Outcome(found=both_seeds)))

    assert drawn == [2, 2]
    assert repr(then) == repr(compared((at_once, Outcome(found=both_seeds))))


def test_published_and_own_measures_that_compute_the_same_are_drawn_once():
    found = measures_of(("aupr_in_published", "aupr_out", "aupr_in", "ece"))

    assert [one.computes for one in found.values()] == ["aupr_out", "aupr_out", "aupr_in", "ece"]

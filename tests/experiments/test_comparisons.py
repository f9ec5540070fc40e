"""Pairs are compared on the same texts, and what a short trial compares does not replace what is kept."""

from dataclasses import replace

import pytest

from experiment_data import tiny_scale
from knn_ue.experiments.bench import Bench
from knn_ue.experiments.cells import CellStore
from knn_ue.experiments.comparisons import compare_block, pair_of
from knn_ue.experiments.measures import MEASURES
from knn_ue.experiments.plan import Block
from knn_ue.experiments.run import Job, Outcome, run_jobs
from knn_ue.experiments.score import read_answers
from knn_ue.experiments.setups import folder_setups
from knn_ue.experiments.specs import Spec

BLOCK = Block(setup="sentiment", part="away", paper=None, measures=("ece", "right"))
KNN, SOFTMAX, PASSES = (Spec(method=name) for name in ("knn-ue", "softmax", "mc-dropout"))
N_PASSES_ROWS = 8


@pytest.fixture(scope="module")
def measured(data, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    (setup,) = (one for one in folder_setups(data) if one.name == "sentiment")
    scale = replace(tiny_scale(), passes_rows=N_PASSES_ROWS)
    bench = Bench(setup, scale, CellStore(folder / "cells", folder / "work"), encoder, device="cpu")
    jobs = [Job(setup="sentiment", what=spec, seed=seed) for spec in (KNN, SOFTMAX) for seed in (0, 1)]
    outcome = run_jobs({"sentiment": bench}, [*jobs, Job(setup="sentiment", what=PASSES, seed=0)], lambda _line: None)
    assert not outcome.failed
    return bench, outcome


def compared(measured, outcome=None, n_bootstrap=20):
    bench, found = measured
    return compare_block(bench, "sentiment", BLOCK, (KNN, SOFTMAX, PASSES), outcome or found, n_bootstrap)["ece"]


def test_mc_dropout_is_compared_on_the_texts_it_saw(measured):
    bench, _ = measured
    ece = MEASURES["ece"].function

    pair = pair_of(compared(measured), "knn-ue", "mc-dropout")

    answers = read_answers(bench, KNN, 0, "away")
    assert len(answers.group) > N_PASSES_ROWS
    assert pair.first == pytest.approx(ece(answers.first(N_PASSES_ROWS)), abs=1e-6)
    assert pair.second == pytest.approx(ece(read_answers(bench, PASSES, 0, "away")), abs=1e-6)
    assert (pair.n_texts, pair.n_seeds) == (N_PASSES_ROWS, 1)


def test_others_are_compared_on_all_texts_and_seeds(measured):
    _, outcome = measured

    pair = pair_of(compared(measured), "softmax", "knn-ue")

    cells = [outcome.found[Job(setup="sentiment", what=SOFTMAX, seed=seed)] for seed in (0, 1)]
    assert pair.first == pytest.approx(sum(cell["sets"]["away"]["ece"] for cell in cells) / 2, abs=1e-6)
    assert (pair.n_texts, pair.n_seeds) == (None, 2)


def test_a_trial_of_fewer_seeds_or_draws_leaves_what_was_compared(measured):
    bench, outcome = measured
    compared(measured)
    kept = {path: path.read_bytes() for path in bench.store.cells.rglob("compared-*-2x20.*")}

    compared(measured, n_bootstrap=10)
    compared(measured, Outcome(found={job: cell for job, cell in outcome.found.items() if job.seed == 0}))

    assert kept
    assert {path: path.read_bytes() for path in kept} == kept


def test_comparisons_are_read_without_the_answers(measured, tmp_path):
    bench, outcome = measured
    before = compared(measured)
    elsewhere = replace(bench, store=CellStore(bench.store.cells, tmp_path / "work"))

    assert repr(compared((elsewhere, outcome))) == repr(before)  # NaN is not equal to itself

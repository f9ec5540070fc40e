"""What the benchmarks of fitted folders share: rows to ask about, and how good the answers of a store are."""

import argparse
import random
from copy import copy
from pathlib import Path
from typing import Any

from knn_ue import metrics
from knn_ue.calibrators import KnnUE
from knn_ue.data import read_rows
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.stores import Datastore
from knn_ue.types import Outputs


def some_rows(source: str, task: Any, n_rows: int) -> list[Any]:
    """Return at most so many rows, drawn at random with a fixed seed: files may be sorted by label."""
    found = list(read_rows(source, task))
    random.Random(0).shuffle(found)
    return found[:n_rows]


def test_sets(pipe: UncertaintyPipeline, arguments: argparse.Namespace) -> dict[str, Outputs]:
    """Return what the model says of some rows of `--test` and of each `--ood`, by the end of its path."""
    return {
        "/".join(Path(source).parts[-2:]): pipe.outputs(some_rows(source, pipe.task, arguments.rows))
        for source in (arguments.test, *arguments.ood)
    }


def fitted_knn_ue(folder: Path, parser: argparse.ArgumentParser) -> tuple[UncertaintyPipeline, KnnUE, Datastore]:
    """Load a UE folder of kNN-UE; end with a sentence if it is one of another method."""
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    calibrator = pipe.calibrator_
    if not isinstance(calibrator, KnnUE) or not isinstance(calibrator.store, Datastore):
        parser.error(f"{folder} was fitted with {pipe.method_}: fit it with knn-ue or knn-ue-no-label")
    return pipe, calibrator, calibrator.store


def refitted(calibrator: KnnUE, store: Datastore, n_neighbors: int, validation: Outputs) -> KnnUE:
    """Return kNN-UE with another store, fitted anew on what that store finds."""
    changed = copy(calibrator)
    changed.store = store
    changed.n_neighbors = n_neighbors
    return changed.fit(validation)


def quality(calibrator: KnnUE, sets: dict[str, Outputs]) -> dict[str, dict[str, float]]:
    """Return the ECE (%) and E-AURC (x 1000) of the answers in each set, entities in tagging."""
    result = {}
    for name, outputs in sets.items():
        confidence, correct = scored_answers(outputs, calibrator)
        result[name] = {
            "ece": 100 * metrics.expected_calibration_error(confidence=confidence, correct=correct),
            "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=correct),
        }
    return result

"""Small folders of every kind, how each is opened and used, and what must hold of the answers."""

import math
import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import UncertaintyPipeline
from knn_ue.methods import load_calibrator, make_calibrator
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.domains import adapt_fitted
from knn_ue.pipeline.fitted import add_rows
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.folder import OpenedFolder
from knn_ue.stores import Datastore, IndexOptions, remove_from_all
from knn_ue.toy import pockets
from knn_ue.types import Outputs
from tiny_models import ROWS, save_tiny_model
from torture.data_files import make_file, use_file
from torture.ue_folder import new_rows

TEXT, PAIR, WORDS = "text-classification", "text-pair", "token-classification"
N_NEIGHBORS = 8
_INDEXES = {
    "exact": IndexOptions(),
    "ivf": IndexOptions(factory="IVF4,SQ8", n_probe=4, refine_factor=4),
    "hnsw": IndexOptions(factory="HNSW4", ef_search=32),
    "codes": IndexOptions(factory="PQ4x4", recompute=False),
}
_DATA = {"jsonl": TEXT, "csv": TEXT, "jsonl.gz": WORDS, "conll": WORDS, "csv.gz": PAIR}
_TEXT_METHODS = ("knn-ue", "dac", "temperature")


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A kind of folder: `make` writes one, `use` opens it, works with it and returns plain answers.

    `share` is how often it is attacked; `sealed` whether it carries checksums.
    """

    make: Callable[[Path], object]
    use: Callable[[Path], Any]
    share: float = 1.0
    sealed: bool = True


def make_store(path: Path, options: IndexOptions) -> None:
    """Write a datastore whose database holds added and removed rows."""
    rng = np.random.default_rng(0)
    keep = options.recompute
    built = Datastore.build(
        rng.normal(size=(160, 8)), np.arange(160) % 3, texts=[f"t{n}" for n in range(160)], index=options,
        keep_vectors=keep, normalize="standardize" if keep else "none",
    )  # fmt: skip
    built.save(path)
    store = Datastore.load(path)
    store.add(rng.normal(size=(5, 8)), [0, 1, 2, 0, 1], texts=list("abcde"))
    store.remove([3, 161])
    store.add(rng.normal(size=(2, 8)), [1, 1])


def use_store(path: Path) -> Any:
    """Search a datastore, change it and rebuild it."""
    store = Datastore.load(path)
    queries = np.random.default_rng(1).normal(size=(4, store.n_columns))
    found = store.search(queries, 5)
    assert (np.diff(found.distances, axis=1) >= 0).all() or not np.isfinite(found.distances).all(), "distances fall"
    assert not np.isnan(found.distances).any(), "a distance is NaN"
    assert set(found.ids[found.ids >= 0].tolist()) <= set(store.ids.tolist()), "an id that is not stored was found"
    answers = [found.ids.tolist(), found.labels.tolist(), store.texts_of(store.ids)]
    (number,) = store.add(queries[:1], [1], texts=["new"])
    store.remove([number])
    if store.vectors_of(store.ids[:1]) is not None:
        store.compact()
        store.search(queries, 5)
    return answers


@cache
def toy() -> tuple[Outputs, Outputs, Outputs]:
    """Return training, validation and test outputs with layers."""
    return pockets(n_train=120, n_validation=100, n_test=12, n_out=4, seed=0)[:3]


def make_one_calibrator(path: Path, name: str) -> None:
    """Write a fitted calibrator."""
    train, validation, _ = toy()
    make_calibrator(name, train, n_neighbors=N_NEIGHBORS).fit(validation).save(path)


def use_calibrator(path: Path) -> Any:
    """Ask a calibrator for probabilities."""
    probs = load_calibrator(path).predict_proba(toy()[2])
    assert np.isfinite(probs).all() and (probs >= 0).all(), "a probability is not finite or negative"
    assert np.allclose(probs.sum(axis=1), 1, atol=1e-6), "probabilities do not sum to one"
    return probs.tolist()


def make_ue(path: Path, task: str, method: str) -> None:
    """Write a UE folder with a tiny model, a threshold, and what came later: examples, a refit, a domain."""
    model = save_tiny_model(path.parent / f"{path.name}-model", family="bert", task=task)
    pipe = UncertaintyPipeline.from_pretrained(model, task, device="cpu")
    rows = ROWS[task]
    pipe.fit(rows(60), rows(40, start=100), method=method, n_neighbors=N_NEIGHBORS, target_risk=0.9, delta=0.3)
    pipe.save(path)
    _change_later(path)


def _change_later(path: Path) -> None:
    opened = OpenedFolder.open(path)
    if stores := opened.fitted.calibrator.stores:
        ids = add_rows(opened.fitted.calibrator, new_rows(opened.fitted.validation, random.Random(0)))
        remove_from_all(stores, [1, int(ids[0])])

    def change(fitted: Fitted) -> tuple[Fitted, None]:
        changed = refit(fitted, copy(fitted.calibrator))
        return adapt_fitted(changed, fitted.validation, domain="other", force=True)[0], None

    opened.edit(change)


def make_answers(path: Path) -> None:
    """Write a UE folder of a model that cannot be opened: answers, some of them wrong."""
    rows = [{**row, "answer": row["label"] if n % 4 else "pos"} for n, row in enumerate(ROWS[TEXT](80))]
    UncertaintyPipeline.from_answers(reader="instant").fit(rows).save(path)


def use_answers(path: Path) -> Any:
    """Judge answers."""
    pipe = UncertaintyPipeline.load(path, device="cpu")
    rows = [{"text": row["text"], "answer": "pos"} for row in ROWS[TEXT](3, start=500)]
    return checked([answer.to_dict() for answer in pipe(rows)])


def use_ue(path: Path) -> Any:
    """Ask a pipeline, and let it explain itself."""
    pipe = UncertaintyPipeline.load(path, device="cpu")
    rows = ROWS[pipe.task](3, start=500)
    answers: list[Any] = [answer.to_dict() for answer in pipe(rows)]
    if pipe.calibrator_.explains:
        answers.append([repr(explanation) for explanation in pipe.explain(rows)])
    return checked([*answers, str(pipe.threshold_), None if pipe.drift_ is None else pipe.drift_.distance.tolist()])


def make_trained(path: Path) -> None:
    """Write a model folder as `knn-ue train` does."""
    from knn_ue.training.finetune import finetune
    from knn_ue.training.options import TrainingOptions

    encoder = save_tiny_model(path.parent / f"{path.name}-encoder", family="bert", task=TEXT)
    rows = ROWS[TEXT]
    finetune(
        rows(32), rows(16, start=100), task=TEXT, encoder=encoder, out=path, device="cpu",
        options=TrainingOptions(epochs=1, batch_size=16),
    )  # fmt: skip


def use_trained(path: Path) -> Any:
    """Let a trained model read a few texts."""
    pipe = UncertaintyPipeline.from_pretrained(path, device="cpu")
    return checked(pipe.outputs(ROWS[pipe.task](3, start=500), with_labels=False).logits.tolist())


def checked(answers: Any) -> Any:
    """Return the answers; AssertionError where a number in them is not finite."""
    if isinstance(answers, float):
        assert math.isfinite(answers), f"{answers} in an answer"
    for inside in answers.values() if isinstance(answers, dict) else answers if isinstance(answers, list) else ():
        checked(inside)
    return answers


def _ue(task: str, method: str) -> Victim:
    return Victim(make=lambda path: make_ue(path, task, method), use=use_ue, share=2.0)


def _victims() -> dict[str, Victim]:
    found = {
        f"store-{name}": Victim(make=lambda path, options=options: make_store(path, options), use=use_store, share=6.0)
        for name, options in _INDEXES.items()
    }
    for name in ("softmax", "temperature", "mahalanobis", "dac", "knn-ue", "knn-ue-no-label"):
        found[f"calibrator-{name}"] = Victim(
            make=lambda path, name=name: make_one_calibrator(path, name), use=use_calibrator, share=4.0
        )
    found |= {f"ue-{name}": _ue(TEXT, name) for name in _TEXT_METHODS}
    found |= {
        "ue-pair": _ue(PAIR, "knn-ue"),
        "ue-words": _ue(WORDS, "knn-ue"),
        "ue-entity": _ue(WORDS, "knn-ue-entity"),
        "ue-answers": Victim(make=make_answers, use=use_answers, share=2.0),
    }
    found["model"] = Victim(make=make_trained, use=use_trained, sealed=False)
    for name, task in _DATA.items():
        found[f"data-{name}"] = Victim(
            make=lambda path, name=name, task=task: make_file(path, f"rows.{name}", task),
            use=lambda path, task=task: use_file(path, task),
            share=2.0,
            sealed=False,
        )
    return found


VICTIMS = _victims()

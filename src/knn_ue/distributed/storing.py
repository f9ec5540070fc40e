"""`build_store`: many files encoded on the cluster into a store on a server; a part written again is the same rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from knn_ue.distributed.cluster import cluster, run_parts
from knn_ue.distributed.manifest import Part, plan, rows_of
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.rows import labeled_examples
from knn_ue.stores import MilvusStore
from knn_ue.stores.contract import StoredRows
from knn_ue.tasks import TASKS
from knn_ue.types import Progress

_WORDS = 1 << 20  # ids for the words of one sentence


def build_store(
    model: str | Path,
    inputs: Sequence[str | Path],
    store: str,
    *,
    task: str | None = None,
    index: str = "auto",
    address: str | None = None,
    workers: int | None = None,
    part_rows: int = 10_000,
    device: str = "auto",
    progress: Progress | None = None,
) -> MilvusStore:
    """Encode the labeled rows of the `inputs` with a `model` folder and store them at `store`, "milvus://host/name".

    The id of an example is the number of its line in all inputs (times 2**20, plus the number of the word, in tagging),
    so a part that is encoded twice writes the same rows. An error leaves no collection. Every node must see the same
    paths, and the variable KNN_UE_STORE_TOKEN where the server wants a token.
    """
    pipe = UncertaintyPipeline.from_pretrained(model, task, device=device)
    tagging = TASKS[pipe.task].is_tagging
    manifest = plan(inputs, Path(model), {}, part_rows=part_rows, cut=not tagging)
    n_lines = sum(part.n_lines or 0 for part in manifest.parts)
    n_columns = pipe.encoder.encode([]).require_features("build_store").shape[1]
    built = MilvusStore.create(store, n_columns=n_columns, n_rows=n_lines, index=index)
    n_done = 0

    def finished(part: Part, n_rows: int) -> None:
        nonlocal n_done
        del n_rows
        n_done += part.n_lines or 0
        if progress is not None:
            progress("stored", n_done, n_lines)

    try:
        with cluster(address, workers) as n_workers:
            import ray

            worker = ray.remote(num_cpus=1)(_Storer)
            run_parts(
                lambda: worker.remote(str(Path(model).absolute()), pipe.task, store, device),
                manifest.parts,
                n_workers,
                finished,
            )
        built.finish(n_lines, progress)
    except BaseException:
        MilvusStore.drop(store)
        raise
    return built


class _Storer:
    """A worker: holds the model and a connection, encodes and stores one part after the other."""

    def __init__(self, model: str, task: str, store: str, device: str) -> None:
        self._pipe = UncertaintyPipeline.from_pretrained(model, task, device=device)
        self._store = MilvusStore.open(store)

    def ready(self) -> bool:
        """Return once the model is loaded."""
        return True

    def run(self, part: Part) -> int:
        """Store the rows of a part and return how many they are."""
        pipe = self._pipe
        rows = list(rows_of(part, pipe.task, labeled=True))
        if not rows:  # blank lines only
            return 0
        examples = labeled_examples(rows, pipe.task, pipe.class_names, name="training")
        outputs = pipe.encoder.encode(examples)
        features, labels = outputs.require_features("build_store"), outputs.require_labels("build_store")
        numbers = part.first_row + np.arange(len(examples))
        if outputs.groups is not None:
            sizes = [len(example.parts) for example in examples]
            if max(sizes) >= _WORDS:
                raise InvalidInputError(f"a sentence may have up to {_WORDS} words, one has {max(sizes)}: split it")
            numbers = np.concatenate([_WORDS * row + np.arange(size) for row, size in zip(numbers, sizes, strict=True)])
        self._store.write_rows(
            StoredRows(
                ids=numbers,
                vectors=self._store.normalized(features),
                labels=labels,
                texts=[None] * len(numbers) if outputs.texts is None else list(outputs.texts),
            )
        )
        return len(numbers)

"""`build_store`: many files encoded on the cluster into a store on a server; a part written again is the same rows."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from knn_ue.data import read_rows
from knn_ue.data.rows import Row
from knn_ue.distributed.cluster import cluster, in_parts, run_parts
from knn_ue.errors import InvalidInputError, KnnUeError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.rows import labeled_examples
from knn_ue.stores import MilvusStore
from knn_ue.stores.contract import StoredRows
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

    The id of an example is the number of its row in all inputs (times 2**20, plus the number of the word, in tagging),
    so a part that is encoded twice writes the same rows. The inputs are read twice, first to count them: a bad row is
    found before any work. An error leaves no collection. Every node must see the model under the same path, and have
    the variable KNN_UE_STORE_TOKEN where the server wants a token.
    """
    place = str(Path(model).absolute())
    pipe = UncertaintyPipeline.from_pretrained(place, task, device=device)

    def rows() -> Iterator[Row]:
        return chain.from_iterable(read_rows(path, pipe.task, labeled=True) for path in inputs)

    n_rows, n_done = sum(1 for _ in rows()), 0
    n_columns = pipe.encoder.encode([]).require_features("build_store").shape[1]
    built = MilvusStore.create(store, n_columns=n_columns, n_rows=n_rows, index=index)
    parts = ((number, (number * part_rows, part)) for number, part in enumerate(in_parts(rows(), part_rows)))
    try:
        with cluster(address, workers) as n_workers:
            for _, count in run_parts(_store, parts, n_workers, place, pipe.task, store, device):
                n_done += count
                if progress is not None:
                    progress("stored", n_done, n_rows)
        built.finish(n_rows, progress)
    except BaseException:
        with suppress(KnnUeError):
            MilvusStore.drop(store)
        raise
    return built


def _store(numbered: tuple[int, list[Row]], model: str, task: str, store: str, device: str) -> int:
    """Encode and store the rows of a part, the first of which has a number; runs on a worker."""
    first, rows = numbered
    pipe, opened = _opened(model, task, store, device)
    examples = labeled_examples(rows, pipe.task, pipe.class_names, name="training")
    outputs = pipe.encoder.encode(examples)
    numbers = first + np.arange(len(examples))
    if outputs.groups is not None:
        sizes = [len(example.parts) for example in examples]
        if max(sizes) >= _WORDS:
            raise InvalidInputError(f"a sentence may have up to {_WORDS} words, one has {max(sizes)}: split it")
        numbers = np.concatenate([_WORDS * row + np.arange(size) for row, size in zip(numbers, sizes, strict=True)])
    vectors = opened.normalized(outputs.require_features("build_store"))
    texts = [None] * len(numbers) if outputs.texts is None else list(outputs.texts)
    opened.write_rows(
        StoredRows(ids=numbers, vectors=vectors, labels=outputs.require_labels("build_store"), texts=texts)
    )
    return len(rows)


@lru_cache(maxsize=1)
def _opened(model: str, task: str, store: str, device: str) -> tuple[UncertaintyPipeline, MilvusStore]:
    return UncertaintyPipeline.from_pretrained(model, task, device=device), MilvusStore.open(store)

"""`evaluate_files`: the model runs on the cluster, the metrics are computed here."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from knn_ue.data import Columns
from knn_ue.distributed.cluster import cluster, in_parts, loaded, run_parts
from knn_ue.encoding import Example
from knn_ue.evaluation import Evaluation
from knn_ue.folder import head_of
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.evaluating import read_sets
from knn_ue.types import Outputs, Progress, Step, join_outputs


def evaluate_files(
    ue: str | Path,
    test: str | Path,
    out_of_domain: Mapping[str, str | Path] | None = None,
    *,
    address: str | None = None,
    workers: int | None = None,
    part_rows: int = 10_000,
    device: str = "auto",
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Return every metric on the labeled rows of `test`, as `UncertaintyPipeline.evaluate` does.

    Workers encode the rows; features and logits come back here, where they must fit into memory, and the neighbors are
    searched from here. `options` are those of `UncertaintyPipeline.evaluate`: `n_bins`, `n_bootstrap`, `level`,
    `seed`, `domain`, `sample_weight`, by default that of the rows.
    """
    pipe = UncertaintyPipeline.load(ue, device=device).patient()
    encoder = ClusterEncoder(ue, address=address, workers=workers, part_rows=part_rows, device=device)
    sets = read_sets(pipe.encoder, test, out_of_domain or {}, Columns()).encode(encoder, progress)
    return pipe.evaluate(sets.test, sets.out_of_domain, **{"sample_weight": sets.sample_weight, **options})


class ClusterEncoder:
    """The encoder of the UE folder `ue`, run on a cluster, `part_rows` examples at a time."""

    def __init__(
        self, ue: str | Path, *, address: str | None, workers: int | None, part_rows: int, device: str
    ) -> None:
        self._ue, self._device = Path(ue).absolute(), device
        self._address, self._workers, self._part_rows = address, workers, part_rows

    def encode(self, examples: Iterable[Example], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Return what the model says about the examples, in their order."""
        parts = list(in_parts(examples, self._part_rows))
        done: dict[int, Outputs] = {}
        shared = (self._ue, head_of(self._ue).generation, self._device, with_labels)
        with cluster(self._address, self._workers) as n_workers:
            for number, outputs in run_parts(_encode, enumerate(parts), n_workers, *shared):
                done[number] = outputs
                if progress is not None:
                    progress(sum(len(parts[key]) for key in done), sum(map(len, parts)))
        return join_outputs(*(done[number] for number in sorted(done)))


def _encode(examples: list[Example], ue: Path, generation: str, device: str, with_labels: bool) -> Outputs:
    return loaded(ue, generation, device).encoder.encode(examples, with_labels=with_labels)

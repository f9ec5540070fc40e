"""`evaluate_files`: the model runs on the cluster, the metrics are computed here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from knn_ue.data import Columns
from knn_ue.distributed.cluster import cluster, run_parts
from knn_ue.distributed.manifest import Part, plan, rows_of
from knn_ue.encoding import Example
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import TEST, Evaluation, check_set_name
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.evaluating import EncodedSets
from knn_ue.pipeline.rows import labeled_examples, maybe_labeled_examples
from knn_ue.pipeline.sampling import weights_of_numbers
from knn_ue.tasks import TASKS
from knn_ue.types import Outputs, Progress, join_outputs

_Part = tuple[Outputs, list[float | None]]


def evaluate_files(
    ue: str | Path,
    test: Sequence[str | Path],
    out_of_domain: Mapping[str, Sequence[str | Path]] | None = None,
    *,
    address: str | None = None,
    workers: int | None = None,
    part_rows: int = 10_000,
    device: str = "auto",
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Return every metric on the labeled rows of the `test` files, as `UncertaintyPipeline.evaluate` does.

    Workers encode the rows; features and logits come back here, where they must fit into memory, and the neighbors are
    searched from here. `options` are those of `UncertaintyPipeline.evaluate`: `n_bins`, `n_bootstrap`, `level`,
    `seed`, `domain`, `sample_weight`, by default that of the rows.
    """
    pipe = UncertaintyPipeline.load(ue, device=device).patient()
    sets = encode_files(
        ue,
        test,
        out_of_domain or {},
        address=address,
        workers=workers,
        part_rows=part_rows,
        device=device,
        progress=progress,
    )
    sets.test.require_labels("evaluate_files")
    return pipe.evaluate(sets.test, sets.out_of_domain, **{"sample_weight": sets.sample_weight, **options})


def encode_files(
    ue: str | Path,
    test: Sequence[str | Path],
    out_of_domain: Mapping[str, Sequence[str | Path]],
    *,
    address: str | None,
    workers: int | None,
    part_rows: int,
    columns: Columns | None = None,
    device: str,
    progress: Progress | None,
) -> EncodedSets:
    """Return what the model says about the rows of each set of files; labels only where every row has a known one."""
    for name in out_of_domain:
        check_set_name(name)
    sets = {TEST: test, **out_of_domain}
    # Tag schemes are inferred from whole files, so those are not cut.
    cut = not TASKS[UncertaintyPipeline.load(ue, device=device).task].is_tagging
    jobs: list[tuple[str, Part]] = []
    for name, files in sets.items():
        manifest = plan(files, Path(ue), {}, part_rows=part_rows, cut=cut)
        jobs += [(name, part) for part in manifest.parts]
    numbered = [replace(part, number=number) for number, (_, part) in enumerate(jobs)]
    encoded: dict[int, _Part] = {}
    n_lines = sum(part.n_lines or 0 for part in numbered)

    def finished(part: Part, found: _Part) -> None:
        encoded[part.number] = found
        if progress is not None:
            done = sum(numbered[number].n_lines or 0 for number in encoded)
            progress("encoded", done, n_lines)

    with cluster(address, workers) as n_workers:
        import ray

        worker = ray.remote(num_cpus=1)(_Encoder)
        names = {part.number: name for part, (name, _) in zip(numbered, jobs, strict=True)}
        must = {number for number, name in names.items() if name == TEST}
        run_parts(lambda: worker.remote(str(Path(ue).absolute()), device, must, columns), numbered, n_workers, finished)
    parts = {name: [encoded[number] for number in sorted(encoded) if names[number] == name] for name in sets}
    empty = [name for name, found in parts.items() if not found]
    if empty:
        raise InvalidInputError(f"the files of {empty[0]} hold no rows: pass files with at least one")
    outputs = {name: join_outputs(*(part[0] for part in found)) for name, found in parts.items()}
    weights = {name: weights_of_numbers([x for part in found for x in part[1]]) for name, found in parts.items()}
    return EncodedSets(
        test=outputs.pop(TEST),
        out_of_domain=outputs,
        sample_weight={name: found for name, found in weights.items() if found is not None},
    )


class _Encoder:
    """A worker: holds the model, encodes one part after the other; parts in `must` need labels."""

    def __init__(self, ue: str, device: str, must: set[int], columns: Columns | None) -> None:
        self._pipe = UncertaintyPipeline.load(ue, device=device)
        self._must, self._columns = must, columns

    def ready(self) -> bool:
        """Return once the model is loaded."""
        return True

    def run(self, part: Part) -> _Part:
        """Return what the model says about the rows of a part, and what each row counts where it says so."""
        pipe = self._pipe
        reason: str | None = None
        examples: list[Example]
        if part.number in self._must:
            examples = labeled_examples(
                rows_of(part, pipe.task, labeled=True, columns=self._columns), pipe.task, pipe.class_names, name="test"
            )
        else:
            try:
                found = list(rows_of(part, pipe.task, labeled=True, columns=self._columns))
            except InvalidInputError:
                found = list(rows_of(part, pipe.task, labeled=False, columns=self._columns))
            examples, reason = maybe_labeled_examples(
                found, pipe.task, pipe.class_names, words_of=pipe.encoder.words_of
            )
        weights = [example.sample_weight for example in examples]
        return pipe.encoder.encode(examples, with_labels=reason is None), weights

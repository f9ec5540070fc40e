"""`predict_files`: answers to many files, in parts that appear whole, once each, whatever dies meanwhile."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knn_ue.data import Columns
from knn_ue.distributed.cluster import cluster, run_parts
from knn_ue.distributed.manifest import Manifest, Part, plan, rows_of
from knn_ue.errors import StorageError
from knn_ue.folder import write_file
from knn_ue.folder.disk import create_folder, locked
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import abstains, answer_line, check_abstain_below
from knn_ue.types import Progress

MANIFEST, DONE = "manifest.json", "done.json"


@dataclass(frozen=True, kw_only=True)
class PartDone:
    """One file of answers: its name, what is in it and its fingerprint."""

    name: str
    rows: int
    abstained: int
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class PredictedFiles:
    """A finished run: the files of answers in the order of the inputs."""

    folder: Path
    parts: tuple[PartDone, ...]
    n_resumed: int

    @property
    def n_rows(self) -> int:
        """Number of answers."""
        return sum(part.rows for part in self.parts)

    @property
    def n_abstained(self) -> int:
        """Number of abstentions among them."""
        return sum(part.abstained for part in self.parts)

    @property
    def files(self) -> list[Path]:
        """The files of answers; one after the other they are the answers to all inputs."""
        return [self.folder / part.name for part in self.parts]


def predict_files(
    ue: str | Path,
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    address: str | None = None,
    workers: int | None = None,
    part_rows: int = 10_000,
    resume: bool = False,
    abstain_below: float | None = None,
    top: int = 5,
    top_k: int | None = None,
    domain: str | None = None,
    columns: Columns | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> PredictedFiles:
    """Answer every row of the `inputs` with the UE folder `ue` on a Ray cluster, into the folder `output`.

    Every node must see the same paths. Each part of `part_rows` lines is answered by one worker and appears in one
    step; `done.json` comes last, with counts and SHA-256. A part may be computed twice where a worker or node dies; its
    file is written once, with the same bytes. `resume` continues what a driver that died has left. Without `address` a
    cluster is started on this machine, and ended. `progress` is called with ("answered", rows done, all lines).
    """
    check_abstain_below(abstain_below)
    folder = Path(output)
    options = {"abstain_below": abstain_below, "top": top, "top_k": top_k, "domain": domain}
    columns = columns or Columns()
    written = options | {"part_rows": part_rows, "columns": asdict(columns)}
    manifest = plan(inputs, Path(ue), written, part_rows=part_rows, cut=True)
    _check_output(folder, resume=resume)
    create_folder(folder)
    with locked(folder):
        if resume:
            manifest.check_same(_read_manifest(folder), folder)
        else:
            write_file(folder / MANIFEST, _json(manifest.to_plain()))
        return _run(manifest, Path(ue), folder, address, workers, options, columns, device, progress)


def _run(
    manifest: Manifest,
    ue: Path,
    folder: Path,
    address: str | None,
    workers: int | None,
    options: dict[str, Any],
    columns: Columns,
    device: str,
    progress: Progress | None,
) -> PredictedFiles:
    _remove_drafts(folder)
    done = {part.number: _summary(folder / part.name) for part in manifest.parts if (folder / part.name).exists()}
    n_resumed = len(done)
    n_lines = sum(part.n_lines or 0 for part in manifest.parts)

    def finished(part: Part, result: PartDone) -> None:
        done[part.number] = result
        if progress is not None:
            progress("answered", sum(found.rows for found in done.values()), n_lines)

    left = [part for part in manifest.parts if part.number not in done]
    if left:
        with cluster(address, workers) as n_workers:
            import ray

            worker = ray.remote(num_cpus=1)(_Predictor)
            run_parts(
                lambda: worker.remote(str(ue.absolute()), str(folder.absolute()), options, columns, device),
                left,
                n_workers,
                finished,
            )
    result = PredictedFiles(
        folder=folder, parts=tuple(done[part.number] for part in manifest.parts), n_resumed=n_resumed
    )
    summary = {"rows": result.n_rows, "abstained": result.n_abstained, "parts": [asdict(part) for part in result.parts]}
    write_file(folder / DONE, _json(summary))
    return result


class _Predictor:
    """A worker: holds the model, answers one part after the other."""

    def __init__(self, ue: str, output: str, options: dict[str, Any], columns: Columns, device: str) -> None:
        self._pipe = UncertaintyPipeline.load(ue, device=device).patient()
        self._output = Path(output)
        self._options, self._columns = options, columns

    def ready(self) -> bool:
        """Return once the model is loaded."""
        return True

    def run(self, part: Part) -> PartDone:
        """Answer the rows of a part and move its file to its place."""
        rows = list(rows_of(part, self._pipe.task, labeled=False, columns=self._columns, extras=True))
        answers = [answer.to_dict() for answer in self._pipe.predict_stream(rows, **self._options)]
        content = b"".join(answer_line(row, answer) for row, answer in zip(rows, answers, strict=True))
        write_file(self._output / part.name, content)
        return PartDone(
            name=part.name,
            rows=len(answers),
            abstained=sum(map(abstains, answers)),
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )


def _check_output(folder: Path, *, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is a file: choose a folder for the parts")
    begun = (folder / MANIFEST).exists()
    if resume and not begun:
        raise StorageError(f"{folder} holds no {MANIFEST}, so there is no run to continue: leave out resume")
    if not resume and folder.exists() and any(folder.iterdir()):
        way_out = "continue it with resume, or choose another folder" if begun else "choose an empty folder"
        raise StorageError(f"{folder} already holds {'a run' if begun else 'other files'}: {way_out}")


def _read_manifest(folder: Path) -> Any:
    try:
        return json.loads((folder / MANIFEST).read_bytes())
    except ValueError:
        raise StorageError(f"{folder / MANIFEST} is not valid JSON: start again in another folder") from None


def _remove_drafts(folder: Path) -> None:
    for path in folder.glob(".*.draft"):
        with suppress(OSError):
            path.unlink()


def _summary(path: Path) -> PartDone:
    """Return what a part from an earlier run holds."""
    digest, rows, abstained, size = hashlib.sha256(), 0, 0, 0
    with path.open("rb") as file:
        for line in file:
            digest.update(line)
            rows, size = rows + 1, size + len(line)
            abstained += abstains(json.loads(line))
    return PartDone(name=path.name, rows=rows, abstained=abstained, bytes=size, sha256=digest.hexdigest())


def _json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"

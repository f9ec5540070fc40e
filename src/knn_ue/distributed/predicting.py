"""`predict_files`: answers to many files, in parts that appear whole, once each, whatever dies meanwhile."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from knn_ue.data import Columns, read_rows
from knn_ue.data.rows import Row
from knn_ue.distributed.cluster import cluster, in_parts, loaded, run_parts
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import head_of, write_file
from knn_ue.folder.disk import create_folder, fingerprint, locked
from knn_ue.pipeline.answers import abstains, answer_line, check_abstain_below
from knn_ue.pipeline.folder import OpenedFolder
from knn_ue.types import Progress

MANIFEST, DONE = "manifest.json", "done.json"
_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class PredictedFiles:
    """A finished run: its `files`, one after the other, are the answers to all inputs; `n_resumed` are from before."""

    files: tuple[Path, ...]
    n_rows: int
    n_abstained: int
    n_resumed: int


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

    Every node must see the UE folder under the same path; inputs are read, and answers written, from here. Each part of
    `part_rows` rows is answered by one worker and appears in one step; `done.json` comes last, with counts and SHA-256.
    A part may be computed twice where a worker or node dies; its file is written once, with the same bytes. `resume`
    continues what a driver that died has left. Without `address` a cluster is started on this machine, and ended.
    `progress` is called with ("answered", rows done, None).
    """
    check_abstain_below(abstain_below)
    folder, root, columns = Path(output), Path(ue).absolute(), columns or Columns()
    generation = head_of(root).generation
    options: dict[str, Any] = {"abstain_below": abstain_below, "top": top, "top_k": top_k, "domain": domain}
    written = options | {"part_rows": part_rows, "columns": asdict(columns)}
    manifest = {"format": _FORMAT, "inputs": _facts(inputs), "ue": generation, "options": written}
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is a file: choose a folder for the parts")
    create_folder(folder)
    with locked(folder):
        _begin(manifest, folder, resume=resume)
        task = OpenedFolder.open(root).encoder_part.task
        rows = chain.from_iterable(
            read_rows(path, task, labeled=False, columns=columns, extras=True) for path in inputs
        )
        done: dict[int, dict[str, Any]] = {}

        def not_done() -> Iterator[tuple[int, list[Row]]]:
            for number, part in enumerate(in_parts(rows, part_rows)):
                path = folder / _name(number)
                if path.exists():
                    done[number] = _summary(path.name, path.read_bytes())
                else:
                    yield number, part

        n_answered, left = 0, not_done()
        for first in left:  # without one there is nothing to start a cluster for
            with cluster(address, workers) as n_workers:
                shared = (root, generation, device, options)
                for number, content in run_parts(_answer, chain([first], left), n_workers, *shared):
                    write_file(folder / _name(number), content)
                    done[number] = _summary(_name(number), content)
                    n_answered += 1
                    if progress is not None:
                        progress("answered", sum(part["rows"] for part in done.values()), None)
        parts = [done[number] for number in sorted(done)]
        counts = {name: sum(part[name] for part in parts) for name in ("rows", "abstained")}
        write_file(folder / DONE, _json({**counts, "parts": parts}))
    return PredictedFiles(
        files=tuple(folder / part["name"] for part in parts),
        n_rows=counts["rows"],
        n_abstained=counts["abstained"],
        n_resumed=len(done) - n_answered,
    )


def _answer(rows: list[Row], ue: Path, generation: str, device: str, options: dict[str, Any]) -> bytes:
    """Return the lines of the answers to the rows of a part; runs on a worker."""
    answers = loaded(ue, generation, device).predict_stream(rows, **options)
    return b"".join(answer_line(row, answer.to_dict()) for row, answer in zip(rows, answers, strict=True))


def _summary(name: str, content: bytes) -> dict[str, Any]:
    """Return what a file with this content holds."""
    lines = content.splitlines()
    n_abstained = sum(abstains(json.loads(line)) for line in lines)
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "rows": len(lines), "abstained": n_abstained, "bytes": len(content), "sha256": digest}


def _name(number: int) -> str:
    return f"part-{number:06d}.jsonl"


def _facts(inputs: Sequence[str | Path]) -> list[dict[str, Any]]:
    if not inputs:
        raise InvalidInputError("a run needs at least one input file: pass one")
    for path in map(Path, inputs):
        if not path.is_file():
            raise InvalidInputError(f"{path} is not a file: pass files")
    return [{"path": str(path), **fingerprint(path)} for path in (Path(given).resolve() for given in inputs)]


def _begin(now: dict[str, Any], folder: Path, *, resume: bool) -> None:
    """Write down what the run will do; raise where the one to continue is not there, or did something else."""
    begun = (folder / MANIFEST).exists()
    if not resume:
        if any(folder.iterdir()):
            way_out = "continue it with resume, or choose another folder" if begun else "choose an empty folder"
            raise StorageError(f"{folder} already holds {'a run' if begun else 'other files'}: {way_out}")
        write_file(folder / MANIFEST, _json(now))
        return
    if not begun:
        raise StorageError(f"{folder} holds no {MANIFEST}, so there is no run to continue: leave out resume")
    try:
        before = {**json.loads((folder / MANIFEST).read_bytes())}
    except (ValueError, TypeError):
        raise StorageError(f"{folder / MANIFEST} is not valid JSON: start again in another folder") from None
    names = {"inputs": "an input", "ue": "the UE folder", "options": "an option", "format": "the format"}
    changed = [words for key, words in names.items() if before.get(key) != now[key]]
    if changed:
        raise InvalidInputError(
            f"{changed[0]} has changed since the run in {folder} began: give what it had, or start again in another "
            "folder"
        )
    for draft in folder.glob(".*.draft"):
        with suppress(OSError):
            draft.unlink()


def _json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"

"""`knn-ue index`: look at the stored examples of a UE folder and change them, without training again."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knn_ue.cli.display import progress_bars
from knn_ue.cli.options import AsJson, Device, Ue
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue.calibrators import LogitScaling
    from knn_ue.datastore import Datastore

index_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Look at the stored examples of a UE folder and change them: info, add, remove, compact.",
)


@index_app.command()
def info(ue: Ue, as_json: AsJson = False) -> None:
    """Say what a folder stores.

    Example: [bold]knn-ue index info ue[/bold]
    """
    from dataclasses import asdict

    from knn_ue.storage import kind_of, read_folder

    stores = _stores(ue)
    found: dict[str, Any] = {"folder": str(ue), "kind": kind_of(ue)}
    if found["kind"] == "pipeline":
        options = read_folder(ue, kind="pipeline").options
        found |= {"task": options["task"], "method": options["method"], "labels": options["class_names"]}
        found["threshold"] = None if options["threshold"] is None else options["threshold"]["threshold"]
    found["datastores"] = [
        {
            "folder": str(store.path),
            "examples": len(store),
            "columns": store.n_columns,
            "highest_id": int(store.ids.max()) if len(store) else None,
            "index": asdict(store.options),
            "megabytes": round(_size(store.path) / 1e6, 1),
        }
        for store in stores
    ]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for name, value in found.items():
        if name != "datastores":
            typer.echo(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    for store in found["datastores"] or [{"examples": "none, the method looks at no neighbors"}]:
        typer.echo(", ".join(f"{name} {value}" for name, value in store.items() if name not in ("folder", "index")))
        if "index" in store:
            typer.echo(f"index {store['index']['factory']}, in {store['folder']}")


@index_app.command()
def add(
    ue: Ue,
    input_rows: Annotated[str, typer.Option("--input", metavar="F", help="Labelled texts.")],
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Encode labelled texts and store them; all or none. They count from the next answer on.

    Example: [bold]knn-ue index add ue --input corrections.jsonl[/bold]
    """
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.rows import labelled_examples

    pipe = UncertaintyPipeline.load(ue, device=device)
    store = _changeable(pipe.calibrator_)
    examples = labelled_examples(input_rows, pipe.task, pipe.class_names, name="new")
    with progress_bars() as progress:
        outputs = pipe.encoder.encode(examples, progress=lambda done, total: progress("encoding", done, total))
    features, labels = outputs.require_features("index add"), outputs.require_labels("index add")
    ids = store.add(features, labels, texts=list(outputs.texts or ()))
    if as_json:
        typer.echo(json.dumps({"ids": ids.tolist(), "examples": len(store)}))
    else:
        typer.echo(f"added {len(ids)} examples with the ids {ids[0]} to {ids[-1]}: {len(store)} are stored")


@index_app.command()
def remove(
    ue: Ue,
    ids: Annotated[str, typer.Option(metavar="IDS", help="Ids as predict and explain --json show them: 1,2 or 5-9.")],
    as_json: AsJson = False,
) -> None:
    """Forget stored examples; an unknown id is an error, and then nothing is removed.

    Example: [bold]knn-ue index remove ue --ids 17,40-42[/bold]
    """
    wanted = _ids(ids)
    (store,) = _changeable_stores(ue)
    store.remove(wanted)
    if as_json:
        typer.echo(json.dumps({"removed": wanted, "examples": len(store)}))
    else:
        typer.echo(f"removed {len(wanted)} examples: {len(store)} are stored")


@index_app.command()
def compact(ue: Ue, as_json: AsJson = False) -> None:
    """Rebuild the index over what is stored now: faster and smaller after many changes. Ids stay.

    Example: [bold]knn-ue index compact ue[/bold]
    """
    (store,) = _changeable_stores(ue)
    before = _size(store.path)
    store.compact()
    after = _size(store.path)
    if as_json:
        typer.echo(json.dumps({"examples": len(store), "bytes_before": before, "bytes": after}))
    else:
        typer.echo(f"compacted {len(store)} examples: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now")


def _stores(ue: Path) -> "list[Datastore]":
    """Open the datastores of a folder without loading its model: of a pipeline, a calibrator, or one by itself."""
    from knn_ue.calibrators import DensityAwareCalibration, KnnUE
    from knn_ue.datastore import Datastore
    from knn_ue.methods import load_calibrator
    from knn_ue.storage import kind_of, read_folder

    kind = kind_of(ue)
    if kind == "datastore":
        return [Datastore.load(ue)]
    calibrator = load_calibrator(read_folder(ue).folders["calibrator"] if kind == "pipeline" else ue)
    if isinstance(calibrator, KnnUE):
        return [_changeable(calibrator)]
    if isinstance(calibrator, DensityAwareCalibration):
        return [store for store in calibrator.stores if isinstance(store, Datastore)]
    return []


def _changeable_stores(ue: Path) -> "list[Datastore]":
    stores = _stores(ue)
    if len(stores) != 1:
        raise _unchangeable(len(stores))
    return stores


def _changeable(calibrator: "LogitScaling") -> "Datastore":
    from knn_ue.calibrators import KnnUE
    from knn_ue.datastore import Datastore

    if not isinstance(calibrator, KnnUE) or not isinstance(calibrator.store, Datastore):
        raise _unchangeable(len(getattr(calibrator, "stores", ())))
    return calibrator.store


def _unchangeable(n_stores: int) -> InvalidInputError:
    return InvalidInputError(
        f"only a folder with one datastore can be changed, this one has {n_stores}: fit with knn-ue or knn-ue-no-label"
    )


def _ids(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise typer.BadParameter(f"{part!r} is not an id: write 1,2 or 5-9", param_hint="--ids")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def _size(folder: Path | None) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder else 0

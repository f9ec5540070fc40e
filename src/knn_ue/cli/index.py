"""`knn-ue index`: look at the stored examples of a UE folder and change them, without training again."""

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from knn_ue.cli.options import AsJson, Device, Ue, takes_columns
from knn_ue.cli.terminal import echo, loading, print_table, progress_bars
from knn_ue.errors import InvalidInputError, StaleFolderError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from knn_ue.data.columns import ColumnNames
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.stores import NeighborStore
    from knn_ue.tuning import Tuning
    from knn_ue.types import Outputs

Changed = TypeVar("Changed")

_MAX_RANGE = 10_000_000  # ids in one 5-9; a list of them must fit into memory

index_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Inspect and change the stored examples of a UE folder: info, tune, add, remove, compact, move.\n\n"
    "Example: [bold]knn-ue index info ue[/bold]",
)


@index_app.command()
def info(ue: Ue, as_json: AsJson = False) -> None:
    """Show what a UE folder stores.

    Example: [bold]knn-ue index info ue[/bold]
    """
    from knn_ue.folder import kind_of
    from knn_ue.stores import IndexOptions

    found: dict[str, Any] = {"folder": str(ue), "kind": kind_of(ue)}
    if found["kind"] == "pipeline":
        from knn_ue.pipeline.folder import OpenedFolder

        opened = OpenedFolder.open(ue)
        fitted, part = opened.fitted, opened.encoder_part
        found |= {"task": part.task, "method": fitted.method, "labels": list(part.class_names)}
        found["threshold"] = None if fitted.threshold is None else fitted.threshold.threshold
        stores = list(fitted.calibrator.stores.values())
    else:
        stores = list(_stores(ue).values())
    found["datastores"] = [_facts(store) for store in stores]
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
        return
    for name, value in found.items():
        if name != "datastores":
            echo(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    for store in found["datastores"] or [{"examples": "none, the method uses no neighbors"}]:
        echo(", ".join(f"{name} {value}" for name, value in store.items() if name not in ("folder", "index")))
        if "index" in store:
            echo(f"index: {IndexOptions(**store['index'])}, in {store['folder']}")
        elif "search" in store:
            echo(f"stored at {store['folder']}: copies of this UE folder share these rows")
        elif "folder" in store:
            echo(f"stored in {store['folder']}")


def _facts(store: "NeighborStore") -> dict[str, Any]:
    """Return what is known of a store; one that lives elsewhere shows less."""
    from dataclasses import asdict

    from knn_ue.stores import RemoteStore, TunableStore, folder_of

    found: dict[str, Any] = {"folder": store.where, "examples": len(store), "columns": store.n_columns}
    if isinstance(store, TunableStore):
        found["highest_id"] = int(store.ids.max()) if len(store) else None
        found["index"] = asdict(store.options)
    if isinstance(store, RemoteStore):
        found |= store.facts()
    if folder_of(store) is not None:
        found["megabytes"] = round(_size(Path(store.where)) / 1e6, 1)
    return found


def _megabytes(value: float | None) -> float | None:
    if value is not None and not 1e-6 <= value < math.inf:
        raise typer.BadParameter(f"{value} must be finite and at least a byte: write 20 for 20 MB")
    return value


def _picture_file(path: Path | None) -> Path | None:
    """Refuse before the work begins what matplotlib would refuse after it."""
    if path is not None and path.suffix.lower() not in (".png", ".svg"):
        raise typer.BadParameter(f"{path.name!r} must end in .png or .svg")
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {path} does not exist: create it, or choose another")
    return path


@index_app.command()
def tune(
    ue: Ue,
    tolerance: Annotated[
        float, typer.Option(min=0, metavar="P", help="Allowed rise of the log-loss, in percent.")
    ] = 0.1,
    max_mb: Annotated[
        float | None, typer.Option(metavar="MB", callback=_megabytes, help="Maximum size of the index, in megabytes.")
    ] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Try every candidate index.")] = False,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", callback=_picture_file, help="Write a picture of the trade-off, .png or .svg."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report the choice without changing the folder.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Choose the fastest index that keeps the calibration on the validation rows, and refit with it.

    Example: [bold]knn-ue index tune ue --tolerance 0.1[/bold]
    """
    from dataclasses import asdict

    from knn_ue.pipeline.adjusting import tune_fitted
    from knn_ue.pipeline.folder import OpenedFolder, save_tuned
    from knn_ue.tuning import Tolerance

    del device  # accepted for the scripts that pass it: nothing goes through the model
    opened = OpenedFolder.open(ue)
    before = opened.live.seen
    limit = None if max_mb is None else int(1e6 * max_mb)
    with progress_bars() as progress:
        allowed = Tolerance(nll=tolerance / 100, max_bytes=limit)
        calibrator, tuning = tune_fitted(opened.fitted, tolerance=allowed, thorough=thorough, progress=progress)
    if not dry_run:
        save_tuned(opened, before, calibrator, tuning.chosen)
    if picture is not None and tuning.trials:
        from knn_ue.plots import index_frontier

        index_frontier(tuning).savefig(picture)
    if as_json:
        found = {"chosen": asdict(tuning.chosen), "n_queries": tuning.n_queries, "saved": not dry_run}
        echo(json.dumps(found | {"trials": [asdict(trial) for trial in tuning.trials]}))
        return
    if tuning.trials:
        print_table(*_trial_table(tuning))
    tried = "nothing else was tried" if picture is None else "nothing else was tried and no picture drawn"
    why = "" if tuning.trials else f": the store is small, so {tried} (--thorough does)"
    echo(f"{'would choose' if dry_run else 'chose'} {tuning.chosen}{why}")


@index_app.command()
@takes_columns("text", "label", "premise", "hypothesis", "tokens", "tags")
def add(
    ue: Ue,
    input_rows: Annotated[str, typer.Option("--input", metavar="F", help="Labeled texts.")],
    device: Device = "auto",
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Encode and store labeled texts, all or none. They count from the next answer on.

    Example: [bold]knn-ue index add ue --input corrections.jsonl[/bold]
    """
    from knn_ue.pipeline import UncertaintyPipeline

    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device)
    _check_some(ue, list(pipe.calibrator_.stores.values()))
    ids, pipe = _added(pipe, _encoded(pipe, input_rows, columns), device)
    n_stored = _n_stored(pipe.calibrator_.stores.values())
    if as_json:
        echo(json.dumps({"ids": ids, "examples": n_stored}))
    else:
        which = f"id {ids[0]}" if len(ids) == 1 else f"ids {ids[0]} to {ids[-1]}"
        echo(f"added {_examples(len(ids))} ({which}), {n_stored} stored now")


@index_app.command()
def remove(
    ue: Ue,
    ids: Annotated[str, typer.Option(metavar="IDS", help="Ids, as shown by predict and explain --json: 1,2 or 5-9.")],
    as_json: AsJson = False,
) -> None:
    """Remove stored examples. If an id is unknown, nothing is removed.

    Example: [bold]knn-ue index remove ue --ids 17,40-42[/bold]
    """
    from knn_ue.stores import remove_from_all

    wanted = _ids(ids)
    stores = _some_stores(ue)
    remove_from_all(stores, wanted)
    n_stored = _n_stored(stores.values())
    if as_json:
        echo(json.dumps({"removed": wanted, "examples": n_stored}))
    else:
        echo(f"removed {_examples(len(wanted))}, {n_stored} stored now")


@index_app.command()
def compact(ue: Ue, as_json: AsJson = False) -> None:
    """Rebuild the index: faster and smaller after many changes. Ids do not change.

    Example: [bold]knn-ue index compact ue[/bold]
    """
    from knn_ue.stores import compact_folder, tunable

    for store in _some_stores(ue).values():
        tunable(store)
    before = _size(ue)
    compact_folder(ue)
    n_stored = _n_stored(_stores(ue).values())
    after = _size(ue)
    if as_json:
        echo(json.dumps({"examples": n_stored, "bytes_before": before, "bytes": after}))
    else:
        echo(f"compacted {n_stored} examples: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now")


def _examples(n: int) -> str:
    return "1 example" if n == 1 else f"{n} examples"


def _trial_table(tuning: "Tuning") -> tuple[list[str], list[list[str]]]:
    heading = ["index", "probes", "refine", "ms", "MB", "cover", "NLL", "rise", "ECE", "keeps"]
    exact = tuning.trials[0].nll
    lines = [
        [
            trial.options.factory,
            str(trial.options.n_probe or ""),
            str(trial.options.refine_factor) if trial.options.recompute else "",
            f"{trial.milliseconds:.3g}",
            f"{trial.n_bytes / 1e6:.3g}",
            f"{trial.coverage:.0%}",
            f"{trial.nll:.4f}",
            f"{100 * trial.nll_increase / exact:+.2f} %",
            f"{100 * trial.ece:.1f} %",
            "yes" if trial.good_enough else "no",
        ]
        for trial in tuning.trials
    ]
    return heading, lines


def _stores(ue: Path) -> "dict[str, NeighborStore]":
    """Open the stores of a folder, of a pipeline, a calibrator or a store by itself, without loading a model."""
    from knn_ue.folder import Part, open_as
    from knn_ue.methods import calibrator_from_part
    from knn_ue.stores import STORES, open_store

    def opened(part: Part) -> "dict[str, NeighborStore]":
        if part.kind in STORES:
            return {"store": open_store(part)}
        calibrator = calibrator_from_part(part.parts["calibrator"] if part.kind == "pipeline" else part)
        return dict(calibrator.stores)

    return open_as(ue, opened)


def _some_stores(ue: Path) -> "dict[str, NeighborStore]":
    stores = _stores(ue)
    _check_some(ue, list(stores.values()))
    return stores


def _check_some(ue: Path, stores: "list[NeighborStore]") -> None:
    from knn_ue.stores import writable

    if not stores:
        raise InvalidInputError(
            f"{ue} stores no examples: pass the folder that knn-ue fit wrote with the method knn-ue, knn-ue-no-label "
            "or dac"
        )
    for store in stores:
        writable(store)


def _n_stored(stores: "Iterable[NeighborStore]") -> int:
    return len(list(stores)[-1])


def _encoded(pipe: "UncertaintyPipeline", input_rows: str, columns: "ColumnNames") -> "Outputs":
    from knn_ue.data.columns import Columns
    from knn_ue.pipeline.rows import labeled_examples

    examples = labeled_examples(input_rows, pipe.task, pipe.class_names, name="new", columns=Columns(**columns))
    with progress_bars() as progress:
        return pipe.encoder.encode(examples, progress=lambda done, total: progress("encoding", done, total))


def _added(pipe: "UncertaintyPipeline", outputs: "Outputs", device: str) -> "tuple[list[int], UncertaintyPipeline]":
    """Store encoded rows, also where the folder was compacted or tuned while they were encoded; return their ids."""
    from knn_ue.pipeline.fitted import add_rows

    while True:
        try:
            return pipe.opened.edit(lambda fitted: (fitted, add_rows(fitted.calibrator, outputs).tolist())), pipe
        except StaleFolderError:
            before, pipe = pipe, pipe.reloaded(pipe.opened.path, device=device)
            if pipe.encoder is not before.encoder:
                raise StorageError(
                    f"{pipe.opened.path} was given another model meanwhile: nothing was changed, run the command again"
                ) from None


def _ids(text: str) -> list[int]:
    from knn_ue.data.lines import shorten

    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})(?:-([0-9]{1,18}))?\s*", part)
        if match is None:
            raise typer.BadParameter(f"{shorten(part)} is not an id: write 1,2 or 5-9", param_hint="--ids")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + _MAX_RANGE:
            raise typer.BadParameter(
                f"{part!r} must be an increasing range of at most {_MAX_RANGE:,} ids: write 1,2 or 5-9",
                param_hint="--ids",
            )
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

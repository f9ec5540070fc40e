"""Options and work of `--engine ray`: the same commands on a cluster."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knn_ue.cli.options import one_of
from knn_ue.cli.terminal import progress_bars, say
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue.data import Columns

Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="E",
        callback=one_of(("local", "ray")),
        help="local (this process) or ray (a cluster).",
        rich_help_panel="Ray",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="A",
        help="Ray cluster to use, HOST:6379 (default: start one here, and end it).",
        rich_help_panel="Ray",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, metavar="N", help="Workers on Ray, one CPU each (default: all CPUs).", rich_help_panel="Ray"
    ),
]
PartRows = Annotated[
    int, typer.Option("--part-rows", min=1, metavar="N", help="Rows per part on Ray.", rich_help_panel="Ray")
]


def predict_on_ray(
    ue: Path,
    inputs: list[str],
    output: Path,
    options: dict[str, Any],
    *,
    columns: "Columns",
    on_error: str,
    overwrite: bool,
    address: str | None,
    workers: int | None,
    part_rows: int,
    resume: bool,
    device: str,
    as_json: bool,
) -> None:
    """Answer the files on a cluster and say what came of it."""
    from knn_ue.distributed import predict_files

    if on_error != "stop" or overwrite:
        raise InvalidInputError("--on-error skip and --overwrite are for one file: leave them out with --engine ray")

    began = time.monotonic()
    try:
        with progress_bars() as progress:
            done = predict_files(
                ue,
                inputs,
                output,
                address=address,
                workers=workers,
                part_rows=part_rows,
                resume=resume,
                columns=columns,
                device=device,
                progress=progress,
                **options,
            )
    except BaseException:
        if (output / "manifest.json").exists():
            say(f"knn-ue: finished parts are kept in {output}: continue with --resume")
        raise
    seconds = time.monotonic() - began
    if as_json:
        found = {"output": str(output), "rows": done.n_rows, "parts": len(done.files), "parts_resumed": done.n_resumed}
        typer.echo(json.dumps(found | {"abstained": done.n_abstained, "seconds": round(seconds, 1)}))
        return
    kept = f" ({done.n_resumed} from before)" if done.n_resumed else ""
    typer.echo(
        f"{output}: {done.n_rows} answers in {len(done.files)} parts{kept}, {done.n_abstained} abstentions, "
        f"{seconds:.1f} s"
    )

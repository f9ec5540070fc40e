"""`knn-ue serve`: a UE folder behind an endpoint, and a page that shows why."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.options import Device, Ue, takes_columns
from knn_ue.cli.terminal import announce, exit_code
from knn_ue.errors import InvalidInputError, require

if TYPE_CHECKING:
    from knn_ue.data.columns import ColumnNames

_TOKEN = "KNN_UE_TOKEN"


@takes_columns("text", "premise", "hypothesis", "tokens")
def serve(
    ue: Ue,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="Address to listen on; only loopback is private to this machine.",
            rich_help_panel="Address",
        ),
    ] = ("127.0.0.1"),
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port to listen on; 0 takes a free one.", rich_help_panel="Address"
        ),
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Require the token in this file, or in ${_TOKEN}.", rich_help_panel="Access"
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Site whose pages may send requests; repeatable.", rich_help_panel="Access"
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Host name to accept requests for; repeatable.", rich_help_panel="Access"),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse changes to the stored examples.", rich_help_panel="Access")
    ] = False,
    max_items: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of inputs per request.", rich_help_panel="Limits")
    ] = 128,
    max_characters: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of characters per input.", rich_help_panel="Limits")
    ] = 20_000,
    max_queue: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Maximum number of inputs that wait for the model.", rich_help_panel="Limits"
        ),
    ] = 1024,
    max_wait: Annotated[
        float,
        typer.Option(min=0.1, metavar="S", help="Maximum wait for the model, in seconds.", rich_help_panel="Limits"),
    ] = 30.0,
    batch_items: Annotated[int, typer.Option(min=1, metavar="N", help="Batch size.", rich_help_panel="Batching")] = 64,
    batch_wait: Annotated[
        float,
        typer.Option(
            min=0, metavar="MS", help="Maximum wait to fill a batch, in milliseconds.", rich_help_panel="Batching"
        ),
    ] = 2.0,
    drain_seconds: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Seconds that SIGTERM lets requests finish.", rich_help_panel="Limits"),
    ] = 30.0,
    drift_window: Annotated[
        int,
        typer.Option(
            min=50, metavar="N", help="Number of recent inputs compared with validation.", rich_help_panel="New domains"
        ),
    ] = 1000,
    ask: Annotated[
        str | None,
        typer.Option(
            metavar="POOL", help="Texts to label on the page, to adapt to their domain.", rich_help_panel="New domains"
        ),
    ] = None,
    keep_recent: Annotated[
        int,
        typer.Option(
            min=0,
            max=10_000,
            metavar="N",
            help="Keep the last N inputs for labeling, in memory only.",
            rich_help_panel="New domains",
        ),
    ] = 0,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.", rich_help_panel="Access")
    ] = False,
    device: Device = "auto",
    *,
    columns: "ColumnNames",
) -> None:
    """Serve answers over HTTP, with a page that explains them and learns from corrections.

    POST /predict, /explain, /examples, /adapt, /sample, /refit, /reload; DELETE /examples/ID, /domains/NAME; GET
    /health, /ready, /info, /drift, /validation, /metrics, /docs. Ctrl-C or SIGTERM finishes what was begun; SIGHUP
    reads the folder again.

    Example: [bold]knn-ue serve ue --port 8000[/bold]
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module, extra="serve", purpose="knn-ue serve")
    from knn_ue.data.columns import Columns
    from knn_ue.serving.http.server import serve as run
    from knn_ue.serving.options import ServeOptions

    options = ServeOptions(
        host=host,
        port=port,
        token=_token(token_file),
        cors_origins=tuple(cors or ()),
        allowed_hosts=tuple(allow_host or ()),
        read_only=read_only,
        max_items=max_items,
        max_characters=max_characters,
        max_queue=max_queue,
        max_wait=max_wait,
        batch_items=batch_items,
        batch_wait=batch_wait / 1000,
        drain_seconds=drain_seconds,
        drift_window=drift_window,
        ask=ask,
        ask_columns=Columns(**columns),
        keep_recent=keep_recent,
        trust_remote_code=trust_remote_code,
        device=device,
    )
    announce(f"Loading the model of {ue} ...")
    try:
        run(ue, options, on_listening=lambda address: announce(f"Open {address} (Ctrl-C to stop)"))
    except KeyboardInterrupt as stop:  # uvicorn has finished what was begun, and hands the signal on
        raise typer.Exit(exit_code(stop)) from None


def _token(file: Path | None) -> str | None:
    """Return the token; never from the command line, which every user of the machine can read."""
    if file is None:
        return os.environ.get(_TOKEN) or None
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise InvalidInputError(f"{file} holds no token: write one line of at least 16 characters")
    return token

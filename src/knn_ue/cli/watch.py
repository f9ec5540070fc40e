"""`knn-ue watch`: does what was promised still hold?"""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.options import AsJson, Device, Ue, takes_columns
from knn_ue.cli.terminal import echo, loading, say

if TYPE_CHECKING:
    from knn_ue.data.columns import ColumnNames

BROKEN = 3  # the exit code


@takes_columns("text", "label", "premise", "hypothesis", "tokens", "tags", "answer", "confidence")
def watch(
    ue: Ue,
    labeled: Annotated[
        str, typer.Option(metavar="F", help="A random sample of what was answered, labeled, in the order it came.")
    ],
    alarm: Annotated[
        float, typer.Option(metavar="A", help="Allowed share of false alarms, however often you look.")
    ] = 0.05,
    device: Device = "auto",
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Say whether each promise of a fitted folder still holds, by labels that arrived since.

    Run it after every label if you like, on the file that grew: looking often never raises the share of false alarms.
    The exit code is 3 where a promise is broken.

    Example: [bold]knn-ue watch ue --labeled labeled.jsonl[/bold]
    """
    from knn_ue.pipeline import UncertaintyPipeline

    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device)
    found = pipe.watch(labeled, alarm=alarm, **columns)
    if as_json:
        promises = [asdict(one) | {"holds": one.holds, "says": str(one)} for one in found]
        echo(json.dumps({"ue": str(ue), "promises": promises}, ensure_ascii=False))
    else:
        for one in found:
            echo(f"promised: {one.promise}")
            echo(str(one))
    if not all(one.holds for one in found):
        say("next: send all inputs to a person, label more of them, and fit again")
        raise typer.Exit(BROKEN)

"""`knn-ue backup`: copy a folder as it is at one moment, while others read and change it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from knn_ue.cli.options import AsJson, Ue


def backup(
    ue: Ue,
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="New folder for the copy.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Copy a UE folder while it is served or changed: the copy holds everything acknowledged before it began.

    Every file of the copy is verified and on disk when the command ends. Examples that are stored on Milvus stay there.

    Example: [bold]knn-ue backup ue backups/monday[/bold]
    """
    from knn_ue.folder import copy_folder, head_of

    copy_folder(ue, dest)
    change = head_of(dest).change
    typer.echo(
        json.dumps({"backup": str(dest), "change": change}) if as_json else f"{dest}: {ue} after change {change}"
    )

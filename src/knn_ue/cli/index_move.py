"""`knn-ue index move`: the stored examples of a UE folder go to a server, or come back; the answers stay the same."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.options import AsJson, Ue
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue.pipeline import Fitted

_FOLDER = "folder"


def move(
    ue: Ue,
    store: Annotated[
        str, typer.Option(metavar="S", help="milvus://HOST:19530/NAME, or the word folder for the UE folder itself.")
    ],
    index: Annotated[str, typer.Option(metavar="I", help="Index to use there.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Move the stored examples, with their ids, to a server or back into the folder. No refit is needed.

    The old copy is kept, because other folders may share it. All rows are held in memory during the move.

    Example: [bold]knn-ue index move ue --store milvus://127.0.0.1:19530/films[/bold]
    """
    from knn_ue.pipeline.folder import OpenedFolder
    from knn_ue.stores import check_address, moved_store

    address = None if store == _FOLDER else store

    def moved(fitted: "Fitted") -> tuple["Fitted", tuple[str, int]]:
        stores = fitted.calibrator.stores
        if not stores:
            raise InvalidInputError(f"{ue} stores no examples: there is nothing to move")
        if address is not None:
            check_address(address, index, several=len(stores) > 1)
        found = {name: moved_store(one, address, index) for name, one in stores.items()}
        last = list(found.values())[-1]
        return replace(fitted, calibrator=fitted.calibrator.with_stores(found)), (last.where, len(last))

    where, n_stored = OpenedFolder.open(ue).edit(moved)
    if as_json:
        typer.echo(json.dumps({"examples": n_stored, "folder": str(ue) if address is None else where}))
    else:
        typer.echo(
            f"{n_stored} examples of {ue} are now stored {'in the folder' if address is None else f'at {where}'}"
        )

"""A folder is written, opened and copied: the immutable part first, then one transaction that names it."""

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from knn_ue.errors import InvalidInputError, KnnUeError, StorageError
from knn_ue.folder.changes import (
    StoredPart,
    Transaction,
    check_database,
    copy_database,
    discard_unsaved,
    head_of,
    is_saved,
    remove_unnamed,
    transaction,
)
from knn_ue.folder.database import DATABASE
from knn_ue.folder.disk import created_folder, replace_folder, storage_errors
from knn_ue.folder.live import Live
from knn_ue.folder.part import FITTED, Growing, Part, read_contents, read_tree, write_tree

Result = TypeVar("Result")
_OURS = (DATABASE, f"{DATABASE}-journal")


def write_folder(path: str | Path, root: Part, *, later: Mapping[str, StoredPart] | None = None) -> None:
    """Make the folder `path` hold `root`, in one step; what it held until then is gone after it.

    `later` are parts that are not fitted, such as domains.
    """
    folder = Path(path)
    with storage_errors(f"{folder} cannot be written", "what it held is unchanged"), created_folder(folder):
        check_replaceable(folder)
        new = not (folder / DATABASE).exists()
        try:
            with transaction(folder, create=True) as change:
                _write_fitted(change, root, of_same=False)
                for name, part in (later or {}).items():
                    change.put(name, part)
        except BaseException:
            if new:
                discard_unsaved(folder)
            raise
        finally:
            remove_unnamed(folder)


def replace_fitted(live: Live, root: Part) -> None:
    """Make an opened folder hold `root`, into which all rows and parts of the same names are folded.

    Parts with other names stay. Who opened the folder before, this process among them, must open it again.
    """
    with live.change() as change:
        _write_fitted(change, root, of_same=True)


def open_folder(path: str | Path, *, kind: str | None = None) -> Part:
    """Return what the folder holds now, after verifying every file; `kind` is what it must be."""
    folder = Path(path)
    head = head_of(folder)
    check_database(folder)
    while True:
        try:
            tree = read_tree(folder / head.fitted, head.sha256)
            if kind is not None and tree.kind != kind:
                raise StorageError(
                    f"{folder} holds a {tree.kind[:40]!r}, not a {kind!r}: load it with the class that saved it"
                )
            return _living(tree, Live(folder, head, tree))
        except (StorageError, OSError):
            # A writer may have committed another fitted part and removed the files of this one.
            before, head = head, head_of(folder)
            if head.fitted == before.fitted:
                raise


def open_as(path: str | Path, build: Callable[[Part], Result], *, kind: str | None = None) -> Result:
    """Return what `build` makes of the folder; once more where a writer replaced what was fitted while it was read."""
    while True:
        root = open_folder(path, kind=kind)
        try:
            return build(root)
        except (KnnUeError, OSError):
            assert root.live is not None
            if head_of(root.live.path).fitted == root.live.seen.fitted:
                raise


def kind_of(path: str | Path) -> str:
    """Return what kind of thing the folder holds, without reading it."""
    folder = Path(path)
    while True:
        head = head_of(folder)
        try:
            return read_contents(folder / head.fitted, head.sha256)[""].kind
        except (StorageError, OSError):
            if head_of(folder).fitted == head.fitted:
                raise


def copy_folder(path: str | Path, target: str | Path) -> None:
    """Copy a folder as it is at one moment to the new folder `target`, whatever others do to it meanwhile.

    The copy is there, whole, or not at all.
    """
    folder, copy = Path(path), Path(target).absolute()
    if os.path.lexists(copy) and (not copy.is_dir() or any(copy.iterdir())):
        raise StorageError(f"{copy} exists already: choose a new folder")
    head_of(folder)
    draft = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}.draft")
    with storage_errors(f"{copy} cannot be written", "the folder itself is unchanged"), created_folder(copy.parent):
        try:
            draft.mkdir()
            _copy_as_it_is(folder, draft)
            open_folder(draft)  # a copy that does not open is none
            replace_folder(draft, copy)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _copy_as_it_is(folder: Path, copy: Path) -> None:
    while True:
        head = copy_database(folder, copy)
        try:
            shutil.copytree(folder / head.fitted, copy / head.fitted, symlinks=True)  # which are refused later
        except (OSError, shutil.Error):
            # A writer may have committed another fitted part and removed the files of this one.
            shutil.rmtree(copy / head.fitted, ignore_errors=True)
            if head_of(folder).fitted == head.fitted:
                raise
        else:
            return


def check_replaceable(folder: Path) -> None:
    """Raise unless the folder is empty, one of ours, or what a crash of ours left."""
    if os.path.lexists(folder / DATABASE):
        try:
            is_saved(folder)
        except StorageError as error:
            raise StorageError(f"{error}; nothing was written, choose another folder or empty this one") from None
        return
    strangers = sorted(entry.name for entry in folder.iterdir() if not _is_ours(entry.name))
    if strangers:
        raise StorageError(
            f"{folder} holds other files ({strangers[0]} and {len(strangers) - 1} more) and no {DATABASE}: "
            "choose a new or empty folder"
        )


def _write_fitted(change: Transaction, root: Part, *, of_same: bool) -> None:
    fitted = f"fitted-{secrets.token_hex(8)}"
    folder = change.path / fitted
    try:
        with storage_errors(f"{change.path} cannot be written", "what it held is unchanged"):
            sha256 = write_tree(folder, root)
        tree = root.named().tree()
        growing = [part.growing for part in tree.values() if part.growing is not None]
        next_id = max([one.next_id for one in growing], default=0)
        change.begin(fitted, sha256, next_id, folded=tree if of_same else None)
        _write_unfolded(change, growing)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write_unfolded(change: Transaction, growing: list[Growing]) -> None:
    """Write the rows of stores that cannot take them into their own files: the same changes in all of them."""
    changed = [(one.added, one.removed) for one in growing if one.added is not None and one.removed is not None]
    if not changed:
        return
    said = {(*added.ids.tolist(), "without", *removed.tolist()) for added, removed in changed}
    if len(changed) < len(growing) or len(said) > 1:
        raise InvalidInputError(
            "of stores that change together some hold changes that others lack, or keep no vectors: build them again"
        )
    (first, removed), *_ = changed
    vectors = np.concatenate([added.vectors for added, _ in changed], axis=1)
    change.insert(first.ids, first.labels, list(first.texts), vectors)
    change.remove(removed)


def _living(part: Part, live: Live) -> Part:
    parts = {name: _living(inner, live) for name, inner in part.parts.items()}
    return live.as_now(replace(part, parts=parts, live=live))


def _is_ours(name: str) -> bool:
    return name in _OURS or FITTED.fullmatch(name) is not None

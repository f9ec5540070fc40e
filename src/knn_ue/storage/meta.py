"""`meta.json`: what a folder says it holds, sealed by a checksum; and which folder names which."""

import hashlib
import json
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from knn_ue.errors import StorageError
from knn_ue.storage.atomic import storage_errors

FORMAT = 1
META = "meta.json"
NAME = r"[a-z][a-z0-9_]*"
GENERATION = r"[0-9]{8}-[0-9a-f]{8}"
# Whatever matches is ours to remove; everything else in the folder is the user's and is never touched.
OUR_NAME = re.compile(rf"(?:{NAME}\.{GENERATION}(?:\.[a-z]+)?|meta\.json\.{GENERATION})")
_PART = re.compile(rf"{NAME}\.{GENERATION}")
_MAX_META_BYTES = 1 << 24

Meta = dict[str, Any]


def generation_of(path: str | Path) -> str:
    """Return the generation that is committed in the folder now."""
    return str(read_meta(Path(path))["generation"])


def kind_of(path: str | Path) -> str:
    """Return what kind of thing the folder holds."""
    return str(read_meta(Path(path))["kind"])


def identity_of(path: str | Path) -> str:
    """Return the identity of what the folder holds, without reading the rest."""
    return str(read_meta(Path(path))["identity"])


def check_named(path: str | Path) -> None:
    """Raise where the folder is a part of another one that no longer names it: what is written to it would be lost.

    A part has a generation in its name, and is named by the `meta.json` beside it, up to the folder that is no part.
    """
    folder = Path(path).absolute()
    identity = identity_of(folder)
    while _PART.fullmatch(folder.name) and os.path.lexists(folder.parent / META):
        whole = read_meta(folder.parent)
        if not any((part["name"], part["identity"]) == (folder.name, identity) for part in whole["folders"].values()):
            raise StorageError(
                f"{folder} is no longer a part of {folder.parent}, which was saved again: nothing was changed, load "
                f"{folder.parent} again, then repeat"
            )
        folder, identity = folder.parent, whole["identity"]


def open_plain_file(path: Path) -> BufferedReader:
    """Open a plain file to read: never a link out of the folder, a pipe that blocks, or an endless device."""
    with storage_errors(f"{path} cannot be read", "restore the folder from a backup"):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StorageError(f"{path} is not a plain file: do not trust this folder")
        return path.open("rb")


def encode_meta(folder: Path, meta: Meta) -> bytes:
    """Return the content of meta.json, having made sure that it can be read back."""
    meta = json.loads(json.dumps(meta))  # what JSON makes of it is what the checksum must hold for
    _check_meta(folder, meta)
    encoded = json.dumps(meta | {"checksum": _checksum(meta)}, indent=1, sort_keys=True).encode()
    if len(encoded) > _MAX_META_BYTES:
        raise StorageError(f"the options are larger than {_MAX_META_BYTES} bytes: store what is large as an array")
    return encoded


def read_meta(folder: Path) -> Meta:
    """Return what the `meta.json` of a folder says, after checking that it is one of ours."""
    path = folder / META
    with storage_errors(f"{folder} cannot be read", "check the path and its permissions"):
        if not os.path.lexists(path):
            raise StorageError(f"{folder} has no {META}: it is not a knn-ue folder, or was never saved completely")
        with open_plain_file(path) as file:
            content = file.read(_MAX_META_BYTES + 1)
    if len(content) > _MAX_META_BYTES:
        raise StorageError(f"{path} is larger than {_MAX_META_BYTES} bytes: do not trust this folder")
    try:
        meta = json.loads(content)
        if not isinstance(meta, dict) or type(meta.get("format")) is not int or meta["format"] < 1:
            raise StorageError(f"{path} has no format number: it is not a knn-ue folder")
        if meta["format"] > FORMAT:
            raise StorageError(
                f"{folder} has format {meta['format']}, this version reads {FORMAT}: upgrade with pip install -U knn-ue"
            )
        if meta.pop("checksum", None) != _checksum(meta):
            raise StorageError(f"{path} does not match its checksum: it was altered; restore it from a backup")
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is not valid JSON: restore the folder from a backup") from None
    _check_meta(folder, meta)
    return meta


def _check_meta(folder: Path, meta: Meta) -> None:
    strings = all(isinstance(meta.get(key), str) for key in ("kind", "identity", "generation"))
    groups = all(isinstance(meta.get(key), dict) for key in ("options", "files", "folders"))
    if not strings or not groups or not re.fullmatch(GENERATION, str(meta.get("generation"))):
        raise StorageError(f"{folder / META} lacks a required entry: restore the folder from a backup")
    for group, wanted in (
        ("files", {"name": str, "size": int, "sha256": str}),
        ("folders", {"name": str, "identity": str}),
    ):
        for entry in meta[group].values():
            well_formed = isinstance(entry, dict) and all(type(entry.get(k)) is t for k, t in wanted.items())
            # A hostile name ("../x", "/etc/x") must never leave the folder.
            if not well_formed or not OUR_NAME.fullmatch(entry["name"]):
                raise StorageError(f"{folder / META} names a file that cannot be ours: do not trust this folder")


def _checksum(meta: Meta) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()

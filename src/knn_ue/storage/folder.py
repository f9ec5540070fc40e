"""A folder <-> arrays, files and sub-folders: the only place that knows file names and the format number.

A folder is what its `meta.json` says. Data files carry a generation in their names and are never rewritten; the
commit is one `os.replace` of `meta.json`. So a crash leaves the old state or the new one, and what the crash left
lying about is removed by the next write. Reading checks the size and SHA-256 of every file before parsing it.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage.locks import locked
from knn_ue.storage.tensors import map_arrays, write_arrays

FORMAT = 1
_META = "meta.json"
_MAX_META_BYTES = 1 << 24
_NAME = r"[a-z][a-z0-9_]*"
_GENERATION = r"[0-9]{8}-[0-9a-f]{8}"
# Whatever matches is ours to remove; everything else in the folder is the user's and is never touched.
_OUR_NAME = re.compile(rf"(?:{_NAME}\.{_GENERATION}(?:\.[a-z]+)?|meta\.json\.{_GENERATION})")
_ARRAYS = "arrays"

Meta = dict[str, Any]
FileWriter = Callable[[Path], None]
SubfolderWriter = Callable[[Path], str]
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, kw_only=True)
class FolderContent:
    """What a folder holds: `options` as written, memory-mapped `arrays`, verified `files`, `folders` and a journal."""

    path: Path
    kind: str
    identity: str
    generation: str
    options: Meta
    arrays: dict[str, npt.NDArray[Any]]
    files: dict[str, Path] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def journal(self) -> Path:
        """The append-only file that belongs to this generation."""
        return _journal_path(self.path, self.generation)


def write_folder(
    path: str | Path,
    *,
    kind: str,
    options: Meta,
    arrays: Mapping[str, npt.NDArray[Any]],
    files: Mapping[str, FileWriter] | None = None,
    folders: Mapping[str, SubfolderWriter | Path] | None = None,
    journal: Callable[[Path, str], None] | None = None,
    identity: str | None = None,
    precondition: Callable[[], None] | None = None,
) -> str:
    """Replace what the folder `path` holds in one step and return its identity.

    `files` and `folders` are written by the callables given; a folder given as a path is a sub-folder already in
    place, which is kept. `journal` starts the append-only file of the new generation. `precondition` may raise; it
    is called when no other writer can come between.
    """
    folder = Path(path)
    with (
        storage_errors(f"{folder} cannot be written", "what it held is unchanged"),
        created_folder(folder),
        locked(folder),
    ):
        check_replaceable(folder)
        if precondition is not None:
            precondition()
        generation = _next_generation(folder)
        identity = identity or secrets.token_hex(16)
        try:
            meta = _write_parts(folder, generation, arrays, files or {}, folders or {}, journal)
            meta |= {"format": FORMAT, "library": library_version(), "kind": kind, "identity": identity}
            meta |= {"generation": generation, "options": options}
            _commit(folder, generation, meta)
        except BaseException:
            if _committed_generation(folder) != generation:  # an interrupt may strike just after the commit
                _remove_ours(folder, lambda name: generation in name)
            raise
        kept = {entry["name"] for group in ("files", "folders") for entry in meta[group].values()}
        kept.add(_journal_path(folder, generation).name)
        _remove_ours(folder, lambda name: name not in kept)
    return identity


def read_folder(path: str | Path, *, kind: str | None = None, identity: str | None = None) -> FolderContent:
    """Return what the folder `path` holds, arrays memory-mapped, after verifying every file; `kind` is checked."""
    return parse_folder(path, lambda stored: stored, kind=kind, identity=identity)


def parse_folder(
    path: str | Path, parse: Callable[[FolderContent], Parsed], *, kind: str | None = None, identity: str | None = None
) -> Parsed:
    """Return `parse` of what the folder holds; begin again if a writer replaced the folder meanwhile."""
    folder = Path(path)
    while True:
        meta = _read_meta(folder)
        try:
            return parse(_read_parts(folder, meta, kind, identity))
        except StorageError:
            # A writer may have committed a new generation and removed the files this one names.
            if generation_of(folder) == meta["generation"]:
                raise


def generation_of(path: str | Path) -> str:
    """Return the generation that is committed in the folder now."""
    return str(_read_meta(Path(path))["generation"])


def kind_of(path: str | Path) -> str:
    """Return what kind of thing the folder holds."""
    return str(_read_meta(Path(path))["kind"])


def open_plain_file(path: Path) -> BufferedReader:
    """Open a plain file to read: never a link out of the folder, a pipe that blocks, or an endless device."""
    with storage_errors(f"{path} cannot be read", "restore the folder from a copy"):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StorageError(f"{path} is not a plain file: do not trust this folder")
        return path.open("rb")


@contextmanager
def storage_errors(what: str, way_out: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StorageError` of one sentence."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{what} ({error.strerror or error}): {way_out}") from error


@contextmanager
def created_folder(folder: Path) -> Iterator[None]:
    """Make the folder and its parents if need be; if the block fails, those that are new and empty go again."""
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for path in new:
            with suppress(PermissionError):  # one may write to a folder that one may not open
                _sync_folder(path.parent)
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise


def check_replaceable(folder: Path) -> None:
    """Raise unless the folder is empty, one of ours, or what a crash of ours left."""
    if os.path.lexists(folder / _META):
        try:
            _read_meta(folder)
        except StorageError as error:
            raise StorageError(f"{error}; nothing was written, choose another folder or empty this one") from None
        return
    strangers = sorted(entry.name for entry in folder.iterdir() if not _OUR_NAME.fullmatch(entry.name))
    if strangers:
        raise StorageError(
            f"{folder} holds other files ({strangers[0]} and {len(strangers) - 1} more) and no {_META}: "
            "choose a new or empty folder"
        )


def library_version() -> str:
    """Return the version of knn-ue that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("knn-ue")
    except PackageNotFoundError:  # used from a source tree that was never installed
        return "unknown"


# --- writing ---------------------------------------------------------------------------------------------------


def _write_parts(
    folder: Path,
    generation: str,
    arrays: Mapping[str, npt.NDArray[Any]],
    files: Mapping[str, FileWriter],
    folders: Mapping[str, SubfolderWriter | Path],
    journal: Callable[[Path, str], None] | None,
) -> Meta:
    for name in (*files, *folders):
        if not re.fullmatch(_NAME, name):
            raise InvalidInputError(f"a file must be named by lower-case letters, digits and _, got {name!r}")
    entries: Meta = {}
    target = folder / f"{_ARRAYS}.{generation}.safetensors"
    entries[_ARRAYS] = {"name": target.name} | write_arrays(target, arrays)
    for name, write in files.items():
        target = folder / f"{name}.{generation}.bin"
        write(target)
        _sync_file(target)
        entries[name] = {"name": target.name} | _fingerprint(target)
    subfolders: Meta = {}
    for name, source in folders.items():
        if isinstance(source, Path):
            subfolders[name] = {"name": source.name, "identity": _read_meta(source)["identity"]}
        else:
            target = folder / f"{name}.{generation}"
            subfolders[name] = {"name": target.name, "identity": source(target)}
    if journal is not None:
        journal(_journal_path(folder, generation), generation)
        _sync_file(_journal_path(folder, generation))
    return {"files": entries, "folders": subfolders, "journal": journal is not None}


def _commit(folder: Path, generation: str, meta: Meta) -> None:
    draft = folder / f"{_META}.{generation}"
    with draft.open("xb") as file:
        file.write(_encode_meta(folder, meta))
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)  # the data files must be findable before anything names them
    os.replace(draft, folder / _META)  # noqa: PTH105 (the commit; named as the documentation names it)
    with storage_errors(f"{folder} was written, but the disk does not confirm it", "write it again"):
        _sync_folder(folder)


def _encode_meta(folder: Path, meta: Meta) -> bytes:
    """Return the content of meta.json, having made sure that it can be read back."""
    meta = json.loads(json.dumps(meta))  # what JSON makes of it is what the checksum must hold for
    _check_meta(folder, meta)
    encoded = json.dumps(meta | {"checksum": _checksum(meta)}, indent=1, sort_keys=True).encode()
    if len(encoded) > _MAX_META_BYTES:
        raise StorageError(f"the options are larger than {_MAX_META_BYTES} bytes: store what is large as an array")
    return encoded


def _committed_generation(folder: Path) -> str | None:
    try:
        return generation_of(folder)
    except StorageError:
        return None


def _next_generation(folder: Path) -> str:
    found = (re.search(_GENERATION, entry.name) for entry in folder.iterdir() if _OUR_NAME.fullmatch(entry.name))
    newest = max((int(match.group()[:8]) for match in found if match), default=0)
    return f"{(newest + 1) % 10**8:08d}-{secrets.token_hex(4)}"


def _remove_ours(folder: Path, condition: Callable[[str], bool]) -> None:
    """Remove what nothing names any more; what cannot be removed now is removed by a later write."""
    for entry in folder.iterdir():
        if _OUR_NAME.fullmatch(entry.name) and condition(entry.name):
            with suppress(OSError):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading ---------------------------------------------------------------------------------------------------


def _read_meta(folder: Path) -> Meta:
    path = folder / _META
    with storage_errors(f"{folder} cannot be read", "check the path and its permissions"):
        if not os.path.lexists(path):
            raise StorageError(f"{folder} has no {_META}: it is not a knn-ue folder, or was never saved completely")
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
            raise StorageError(f"{path} does not match its checksum: it was altered; restore it from a copy")
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is not valid JSON: restore the folder from a copy") from None
    _check_meta(folder, meta)
    return meta


def _check_meta(folder: Path, meta: Meta) -> None:
    strings = all(isinstance(meta.get(key), str) for key in ("kind", "identity", "generation"))
    groups = all(isinstance(meta.get(key), dict) for key in ("options", "files", "folders"))
    if not strings or not groups or not re.fullmatch(_GENERATION, str(meta.get("generation"))):
        raise StorageError(f"{folder / _META} lacks a required entry: restore the folder from a copy")
    for group, wanted in (
        ("files", {"name": str, "size": int, "sha256": str}),
        ("folders", {"name": str, "identity": str}),
    ):
        for entry in meta[group].values():
            well_formed = isinstance(entry, dict) and all(type(entry.get(k)) is t for k, t in wanted.items())
            # A hostile name ("../x", "/etc/x") must never leave the folder.
            if not well_formed or not _OUR_NAME.fullmatch(entry["name"]):
                raise StorageError(f"{folder / _META} names a file that cannot be ours: do not trust this folder")


def _read_parts(folder: Path, meta: Meta, kind: str | None, identity: str | None) -> FolderContent:
    if kind is not None and meta["kind"] != kind:
        raise StorageError(
            f"{folder} holds a {meta['kind'][:40]!r}, not a {kind!r}: load it with the class that saved it"
        )
    if identity is not None and meta["identity"] != identity:
        raise StorageError(f"{folder} is not the folder that was saved there: it was swapped; restore it from a copy")
    if _ARRAYS not in meta["files"]:
        raise StorageError(f"{folder / _META} names no {_ARRAYS} file: restore the folder from a copy")
    files: dict[str, Path] = {}
    for name, entry in meta["files"].items():
        files[name] = folder / entry["name"]
        _verify(files[name], entry)
    if meta.get("journal") and not _journal_path(folder, meta["generation"]).exists():
        raise StorageError(f"{_journal_path(folder, meta['generation'])} is missing: restore the folder from a copy")
    folders: dict[str, Path] = {}
    for name, entry in meta["folders"].items():
        folders[name] = folder / entry["name"]
        if folders[name].is_symlink() or _read_meta(folders[name])["identity"] != entry["identity"]:
            raise StorageError(f"{folders[name]} is not the folder that was saved there: it was swapped")
    return FolderContent(
        path=folder,
        kind=meta["kind"],
        identity=meta["identity"],
        generation=meta["generation"],
        options=meta["options"],
        arrays=map_arrays(files.pop(_ARRAYS)),
        files=files,
        folders=folders,
    )


def _verify(path: Path, entry: Meta) -> None:
    if not os.path.lexists(path):
        raise StorageError(f"{path} is missing: restore the folder from a copy")
    with storage_errors(f"{path} cannot be read", "restore the folder from a copy"), open_plain_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != entry["size"]:
            raise StorageError(f"{path} has {size} bytes instead of {entry['size']}: it is damaged; restore it")
        if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
            raise StorageError(f"{path} does not match its checksum: it is damaged or swapped; restore it")


def _fingerprint(path: Path) -> Meta:
    with path.open("rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _checksum(meta: Meta) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _journal_path(folder: Path, generation: str) -> Path:
    return folder / f"journal.{generation}.log"

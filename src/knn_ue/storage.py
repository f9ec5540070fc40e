"""A folder <-> arrays, files and sub-folders: the only place that knows file names and the format number.

A folder is what its `meta.json` says. Data files carry a generation in their names and are never rewritten; the
commit is one `os.replace` of `meta.json`. So a crash leaves the old state or the new one, and what the crash left
lying about is removed by the next write. Reading checks the size and SHA-256 of every file before parsing it.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy.typing as npt

from knn_ue.errors import StorageError
from knn_ue.tensorfile import map_arrays, write_arrays

FORMAT = 1
_META = "meta.json"
_MAX_META_BYTES = 1 << 24
_GENERATION = r"[0-9]{8}-[0-9a-f]{8}"
# Whatever matches is ours to remove; everything else in the folder is the user's and is never touched.
_OUR_NAME = re.compile(rf"(?:[a-z][a-z0-9_]*\.{_GENERATION}(?:\.[a-z]+)?|meta\.json\.{_GENERATION})")
_ARRAYS = "arrays"

Meta = dict[str, Any]
FileWriter = Callable[[Path], None]
FolderWriter = Callable[[Path], str]


@dataclass(frozen=True, kw_only=True)
class Stored:
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
    folders: Mapping[str, FolderWriter | Path] | None = None,
    journal: Callable[[Path, str], None] | None = None,
    identity: str | None = None,
) -> str:
    """Replace what the folder `path` holds in one step and return its identity.

    `files` and `folders` are written by the callables given; a folder given as a path is a sub-folder already in
    place, which is kept. `journal` starts the append-only file of the new generation.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            _refuse_foreign(folder)
            generation = _next_generation(folder)
            identity = identity or secrets.token_hex(16)
            try:
                meta = _write_parts(folder, generation, arrays, files or {}, folders or {}, journal)
                meta |= {"format": FORMAT, "library": _library_version(), "kind": kind, "identity": identity}
                meta |= {"generation": generation, "options": options}
                _commit(folder, generation, meta)
            except BaseException:
                if _committed_generation(folder) != generation:  # an interrupt may strike just after the commit
                    _remove_ours(folder, lambda name: generation in name)
                raise
            _sync_folder(folder.parent)
            kept = {entry["name"] for group in ("files", "folders") for entry in meta[group].values()}
            kept.add(_journal_path(folder, generation).name)
            _remove_ours(folder, lambda name: name not in kept)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"{folder} cannot be written ({error.strerror or error}): nothing in it was changed"
        ) from error
    return identity


def read_folder(path: str | Path, *, kind: str | None = None, identity: str | None = None) -> Stored:
    """Return what the folder `path` holds, arrays memory-mapped, after verifying every file; `kind` is checked."""
    folder = Path(path)
    meta = _read_meta(folder)
    while True:
        try:
            return _read_parts(folder, meta, kind, identity)
        except StorageError:
            # A writer may have committed a new generation and removed the files this one names.
            newer = _read_meta(folder)
            if newer["generation"] == meta["generation"]:
                raise
            meta = newer


def generation_of(path: str | Path) -> str:
    """Return the generation that is committed in the folder now."""
    return str(_read_meta(Path(path))["generation"])


def kind_of(path: str | Path) -> str:
    """Return what kind of thing the folder holds."""
    return str(_read_meta(Path(path))["kind"])


def read_plain_file(path: Path, limit: int | None = None) -> bytes:
    """Return the content of a plain file of at most `limit` bytes."""
    try:
        with _open_regular(path) as file:
            content: bytes = file.read(-1 if limit is None else limit + 1)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be read ({error.strerror or error})") from None
    if limit is not None and len(content) > limit:
        raise StorageError(f"{path} is larger than {limit} bytes: do not trust this folder")
    return content


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other writers, in this process or another, out of `folder`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _library_version() -> str:
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
    folders: Mapping[str, FolderWriter | Path],
    journal: Callable[[Path, str], None] | None,
) -> Meta:
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
    with draft.open("x", encoding="utf-8") as file:
        json.dump(meta | {"checksum": _checksum(meta)}, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)  # the data files must be findable before anything names them
    os.replace(draft, folder / _META)  # noqa: PTH105 (the commit; named as the documentation names it)
    _sync_folder(folder)


def _committed_generation(folder: Path) -> str | None:
    try:
        return generation_of(folder)
    except StorageError:
        return None


def _refuse_foreign(folder: Path) -> None:
    if not (folder / _META).exists():
        strangers = [entry.name for entry in folder.iterdir() if not _OUR_NAME.fullmatch(entry.name)]
        if strangers:
            raise StorageError(
                f"{folder} holds other files ({strangers[0]} and {len(strangers) - 1} more) and no {_META}: "
                "choose a new or empty folder"
            )


def _next_generation(folder: Path) -> str:
    found = (re.search(_GENERATION, entry.name) for entry in folder.iterdir())
    newest = max((int(match.group()[:8]) for match in found if match), default=0)
    return f"{newest + 1:08d}-{secrets.token_hex(4)}"


def _remove_ours(folder: Path, condition: Callable[[str], bool]) -> None:
    for entry in folder.iterdir():
        if _OUR_NAME.fullmatch(entry.name) and condition(entry.name):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


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
    if not (folder / _META).exists():
        raise StorageError(f"{folder} has no {_META}: it is not a knn-ue folder, or was never saved completely")
    try:
        meta = json.loads(read_plain_file(folder / _META, _MAX_META_BYTES))
    except (ValueError, RecursionError):
        raise StorageError(f"{folder / _META} is not valid JSON: restore the folder from a copy") from None
    if not isinstance(meta, dict) or not isinstance(meta.get("format"), int):
        raise StorageError(f"{folder / _META} has no format number: it is not a knn-ue folder")
    if meta["format"] > FORMAT:
        raise StorageError(
            f"{folder} has format {meta['format']}, this version reads {FORMAT}: upgrade with pip install -U knn-ue"
        )
    checksum = meta.pop("checksum", None)
    if checksum != _checksum(meta):
        raise StorageError(f"{folder / _META} does not match its checksum: it was altered; restore it from a copy")
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


def _read_parts(folder: Path, meta: Meta, kind: str | None, identity: str | None) -> Stored:
    if kind is not None and meta["kind"] != kind:
        raise StorageError(f"{folder} holds a {meta['kind']!r}, not a {kind!r}: load it with the class that saved it")
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
        if _read_meta(folders[name])["identity"] != entry["identity"]:
            raise StorageError(f"{folders[name]} is not the folder that was saved there: it was swapped")
    return Stored(
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
    try:
        with _open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry["size"]:
                raise StorageError(f"{path} has {size} bytes instead of {entry['size']}: it is damaged; restore it")
            if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                raise StorageError(f"{path} does not match its checksum: it is damaged or swapped; restore it")
    except FileNotFoundError:
        raise StorageError(f"{path} is missing: restore the folder from a copy") from None
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be read ({error.strerror or error})") from None


def _fingerprint(path: Path) -> Meta:
    with path.open("rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _checksum(meta: Meta) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _journal_path(folder: Path, generation: str) -> Path:
    return folder / f"journal.{generation}.log"


def _open_regular(path: Path) -> Any:
    """Open a plain file only: never a link out of the folder, a pipe that blocks, or an endless device."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise StorageError(f"{path} is not a plain file: do not trust this folder")
    return path.open("rb")

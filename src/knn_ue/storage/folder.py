"""A folder <-> arrays, files and sub-folders: the only place that knows file names and the format number.

A folder is what its `meta.json` says. Data files carry a generation in their names and are never rewritten; the
commit is one `os.replace` of `meta.json`. So a crash leaves the old state or the new one, and what the crash left
lying about is removed by the next write. Reading checks the size and SHA-256 of every file before parsing it.
"""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage.atomic import created_folder, locked, storage_errors, sync, write_file
from knn_ue.storage.schema import (
    FORMAT,
    GENERATION,
    META,
    NAME,
    OUR_NAME,
    Meta,
    check_named,
    encode_meta,
    generation_of,
    open_plain_file,
    read_meta,
)
from knn_ue.storage.tensors import map_arrays, write_arrays

_ARRAYS = "arrays"

FileState = tuple[int, int, int, int]  # device, inode, size, time of the last change
FileWriter = Callable[[Path], None]
SubfolderWriter = Callable[[Path], str]
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, kw_only=True)
class FolderContent:
    """What a folder holds: `options` as written, `arrays`, verified `files`, `folders` and a journal, if it has one.

    Arrays of a small folder are in memory, those of a large one are mapped from the file. `states` are the data files
    as they were when they were verified.
    """

    path: Path
    kind: str
    identity: str
    generation: str
    journal: Path
    options: Meta
    arrays: dict[str, npt.NDArray[Any]]
    files: dict[str, Path] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    states: dict[Path, FileState] = field(default_factory=dict)
    mapped: Path | None = None

    def check_unchanged(self) -> None:
        """Raise unless this is what the folder still holds and what its parents still name: then it may be changed."""
        if generation_of(self.path) != self.generation:
            raise StorageError(f"{self.path} was changed by another writer: load it again and repeat")
        for path, before in self.states.items():
            if file_state(path) != before:
                raise StorageError(
                    f"{path} was removed, replaced or written over since it was loaded: nothing was changed, restore "
                    "the folder from a backup, load it again and repeat"
                )
        check_named(self.path)

    def check_readable(self) -> None:
        """Raise where the mapped file was written over in place: to read what was cut off would end the process."""
        if self.mapped is None:
            return
        now, before = file_state(self.mapped), self.states[self.mapped]
        # Removed or replaced by rename, the file that is mapped stays as it was.
        if now is not None and now[:2] == before[:2] and now != before:
            raise StorageError(
                f"{self.mapped} was written over in place while in use: load the folder again (to restore a folder, "
                "copy it beside its place and rename it)"
            )


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
            content = encode_meta(folder, meta)
            sync(folder)  # the data files must be findable before anything names them
            write_file(folder / META, content, draft=folder / f"{META}.{generation}")
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
    path: str | Path,
    parse: Callable[[FolderContent], Parsed],
    *,
    kind: str | None = None,
    identity: str | None = None,
    just_written: str | None = None,
) -> Parsed:
    """Return `parse` of what the folder holds; begin again if a writer replaced the folder meanwhile.

    Files of the generation `just_written`, by this process and under its lock, are not hashed again.
    """
    folder = Path(path)
    while True:
        meta = read_meta(folder)
        try:
            trusted = meta["generation"] == just_written
            return parse(_read_parts(folder, meta, kind, identity, trusted=trusted))
        except StorageError:
            # A writer may have committed a new generation and removed the files this one names.
            if generation_of(folder) == meta["generation"]:
                raise


def check_replaceable(folder: Path) -> None:
    """Raise unless the folder is empty, one of ours, or what a crash of ours left."""
    if os.path.lexists(folder / META):
        try:
            read_meta(folder)
        except StorageError as error:
            raise StorageError(f"{error}; nothing was written, choose another folder or empty this one") from None
        return
    strangers = sorted(entry.name for entry in folder.iterdir() if not OUR_NAME.fullmatch(entry.name))
    if strangers:
        raise StorageError(
            f"{folder} holds other files ({strangers[0]} and {len(strangers) - 1} more) and no {META}: "
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
        if not re.fullmatch(NAME, name):
            raise InvalidInputError(f"a file must be named by lower-case letters, digits and _, got {name!r}")
    entries: Meta = {}
    target = folder / f"{_ARRAYS}.{generation}.safetensors"
    entries[_ARRAYS] = {"name": target.name} | write_arrays(target, arrays)
    for name, write in files.items():
        target = folder / f"{name}.{generation}.bin"
        write(target)
        sync(target)
        entries[name] = {"name": target.name} | fingerprint(target)
    subfolders: Meta = {}
    for name, source in folders.items():
        if isinstance(source, Path):
            subfolders[name] = {"name": source.name, "identity": read_meta(source)["identity"]}
        else:
            target = folder / f"{name}.{generation}"
            subfolders[name] = {"name": target.name, "identity": source(target)}
    if journal is not None:
        journal(_journal_path(folder, generation), generation)
        sync(_journal_path(folder, generation))
    return {"files": entries, "folders": subfolders, "journal": journal is not None}


def _committed_generation(folder: Path) -> str | None:
    try:
        return generation_of(folder)
    except StorageError:
        return None


def _next_generation(folder: Path) -> str:
    found = (re.search(GENERATION, entry.name) for entry in folder.iterdir() if OUR_NAME.fullmatch(entry.name))
    newest = max((int(match.group()[:8]) for match in found if match), default=0)
    return f"{(newest + 1) % 10**8:08d}-{secrets.token_hex(4)}"


def _remove_ours(folder: Path, condition: Callable[[str], bool]) -> None:
    """Remove what nothing names any more; what cannot be removed now is removed by a later write."""
    for entry in folder.iterdir():
        if OUR_NAME.fullmatch(entry.name) and condition(entry.name):
            with suppress(OSError):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()


# --- reading ---------------------------------------------------------------------------------------------------


def _read_parts(folder: Path, meta: Meta, kind: str | None, identity: str | None, *, trusted: bool) -> FolderContent:
    if kind is not None and meta["kind"] != kind:
        raise StorageError(
            f"{folder} holds a {meta['kind'][:40]!r}, not a {kind!r}: load it with the class that saved it"
        )
    if identity is not None and meta["identity"] != identity:
        raise StorageError(f"{folder} is not the folder that was saved: it was replaced; restore it from a backup")
    if _ARRAYS not in meta["files"]:
        raise StorageError(f"{folder / META} names no {_ARRAYS} file: restore the folder from a backup")
    files = {name: folder / entry["name"] for name, entry in meta["files"].items()}
    states = {files[name]: _verified(files[name], entry, trusted=trusted) for name, entry in meta["files"].items()}
    journal = _journal_path(folder, meta["generation"])
    if meta.get("journal") and not journal.exists():
        raise StorageError(f"{journal} is missing: restore the folder from a backup")
    folders: dict[str, Path] = {}
    for name, entry in meta["folders"].items():
        folders[name] = folder / entry["name"]
        if folders[name].is_symlink() or read_meta(folders[name])["identity"] != entry["identity"]:
            raise StorageError(f"{folders[name]} is not the folder that was saved: it was replaced")
    arrays, mapped = map_arrays(files[_ARRAYS])
    return FolderContent(
        path=folder,
        kind=meta["kind"],
        identity=meta["identity"],
        generation=meta["generation"],
        journal=journal,
        options=meta["options"],
        arrays=arrays,
        files={name: path for name, path in files.items() if name != _ARRAYS},
        folders=folders,
        states=states,
        mapped=files[_ARRAYS] if mapped and arrays else None,
    )


def _verified(path: Path, entry: Meta, *, trusted: bool) -> FileState:
    if not os.path.lexists(path):
        raise StorageError(f"{path} is missing: restore the folder from a backup")
    with storage_errors(f"{path} cannot be read", "restore the folder from a backup"), open_plain_file(path) as file:
        found = os.fstat(file.fileno())
        if found.st_size != entry["size"]:
            raise StorageError(
                f"{path} has {found.st_size} bytes instead of {entry['size']}: it is damaged; restore it"
            )
        if not trusted and hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
            raise StorageError(f"{path} does not match its checksum: it is damaged or replaced; restore it")
    return _state(found)


def file_state(path: Path) -> FileState | None:
    """Return which file stands there and when it was last written, None where there is none."""
    try:
        return _state(path.lstat())
    except OSError:
        return None


def _state(found: os.stat_result) -> FileState:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def fingerprint(path: Path) -> Meta:
    """Return the size and SHA-256 of a plain file."""
    with open_plain_file(path) as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _journal_path(folder: Path, generation: str) -> Path:
    return folder / f"journal.{generation}.log"

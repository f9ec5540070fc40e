"""What an object is on disk: a tree of parts, written as one immutable folder whose `fitted.json` names every file.

fitted-<16 hex digits>/
    fitted.json               each part's kind, plain parameters, and its files with their size and SHA-256
    arrays.safetensors        the arrays of the first part
    calibrator/store/...      the files of its parts, in folders named like them

Hashes find accidents; they are no signatures.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder.disk import (
    RESTORE,
    fingerprint,
    library_version,
    link_or_copy,
    open_plain_file,
    storage_errors,
    sync,
    sync_tree,
)
from knn_ue.folder.schema import Arrays, Plain, as_written, from_plain
from knn_ue.folder.tensors import PackedTexts, map_arrays, write_arrays

if TYPE_CHECKING:
    from knn_ue.folder.live import Live

FORMAT = 2
FITTED = re.compile(r"fitted-[0-9a-f]{16}")
CONTENTS = "fitted.json"
ARRAYS = "arrays.safetensors"
_PART_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FILE_NAME = re.compile(r"[^./\0][^/\0]{0,254}")
_MAX_BYTES = 1 << 26
_MAX_DEPTH = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Added:
    """Examples that were added: `ids` (n,), `labels` (n,), `texts` and `vectors` (n, d), as they are searched."""

    ids: IntArray
    labels: IntArray
    texts: PackedTexts
    vectors: FloatArray

    @classmethod
    def none(cls, n_columns: int) -> "Added":
        """Return no examples."""
        ids = np.empty(0, np.int64)
        return cls(ids=ids, labels=ids, texts=PackedTexts.pack([]), vectors=np.empty((0, n_columns), np.float32))

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Growing:
    """Says of a part that examples are added to it later: their columns, and the first id that is free.

    `added` and `removed` are changes that could not be folded into its arrays.
    """

    n_columns: int
    next_id: int
    added: Added | None = None
    removed: IntArray | None = None

    @property
    def first_id(self) -> int:
        """The least id that none of its arrays holds."""
        return self.next_id if self.added is None else int(min([self.next_id, *self.added.ids[:1]]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What one object saves: its `kind`, plain `state`, `arrays`, other files, and the `parts` that it consists of.

    `fill` writes the other files into a folder that it is given. Of a part that was read, `files` are their verified
    paths, `digests` their SHA-256, `name` is its place in the tree and `live` what happened to the folder since.
    """

    kind: str
    state: Plain = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    fill: Callable[[Path], None] | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, "Part"] = field(default_factory=dict)
    growing: Growing | None = None
    name: str = ""
    live: "Live | None" = None

    @property
    def where(self) -> str:
        """Where it was read, for messages."""
        if self.live is None:
            return "memory"
        return f"{self.live.path} ({self.name})" if self.name else str(self.live.path)

    def path_of(self, file: str) -> Path:
        """Return where a file of a part that was read is; ValueError where it has none of that name."""
        if file not in self.files:
            raise ValueError(f"the file {file} is missing")
        return self.files[file]

    def tree(self) -> "dict[str, Part]":
        """Return this part and all below it by their names in the tree."""
        below = {name: part for inner in self.parts.values() for name, part in inner.tree().items()}
        return {self.name: self, **below}

    def named(self, name: str = "") -> "Part":
        """Return the tree with the names of its parts."""
        for inner in self.parts:
            if not _PART_NAME.fullmatch(inner):
                raise InvalidInputError(f"a part must be named by lower-case letters, digits and _, got {inner!r}")
        parts = {inner: part.named(f"{name}/{inner}".lstrip("/")) for inner, part in self.parts.items()}
        return replace(self, name=name, parts=parts)


def write_tree(folder: Path, root: Part) -> str:
    """Write all parts to the new folder `folder`, synced, and return the SHA-256 of its contents."""
    folder.mkdir()
    entries = {}
    for name, part in root.named().tree().items():
        entries[name] = _write_part(folder / name, part)
    contents: Plain = {"format": FORMAT, "library": library_version(), "parts": entries}
    encoded = json.dumps(contents, indent=1).encode()
    if len(encoded) > _MAX_BYTES:
        raise StorageError(f"the parameters are larger than {_MAX_BYTES} bytes: store what is large as an array")
    (folder / CONTENTS).write_bytes(encoded)
    sync_tree(folder)  # linked files too: their owner may never have asked the disk to keep them
    sync(folder.parent)
    return hashlib.sha256(encoded).hexdigest()


def _write_part(folder: Path, part: Part) -> Plain:
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Plain] = {}
    if part.arrays:
        files[ARRAYS] = write_arrays(folder / ARRAYS, part.arrays)
    for name, source in part.files.items():
        link_or_copy(source, folder / name)
    if part.fill is not None:
        part.fill(folder)
    for path in sorted(folder.iterdir()):
        if not _FILE_NAME.fullmatch(path.name) or path.name == CONTENTS:
            raise InvalidInputError(f"a file of a folder cannot be named {path.name[:80]!r}: rename it")
        files.setdefault(path.name, fingerprint(path))
        if files[path.name]["sha256"] != part.digests.get(path.name, files[path.name]["sha256"]):
            raise StorageError(f"{part.files[path.name]} was altered since it was opened: {RESTORE}")
    grows = None
    if part.growing is not None:
        grows = {"n_columns": part.growing.n_columns, "next_id": part.growing.first_id}
    return {"kind": part.kind, "state": part.state, "files": files, "grows": grows}


@dataclass(frozen=True, kw_only=True)
class _File:
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class _Grows:
    n_columns: int
    next_id: int


@dataclass(frozen=True, kw_only=True)
class _Entry:
    kind: str
    state: dict[str, Any]
    files: dict[str, _File]
    grows: _Grows | None


def read_contents(folder: Path, sha256: str) -> dict[str, _Entry]:
    """Return what `fitted.json` says of each part, by the name of the part, after checking that it is the same file."""
    path = folder / CONTENTS
    if folder.is_symlink() or not os.path.lexists(path):
        raise StorageError(f"{path} is missing: {RESTORE}")
    with open_plain_file(path) as file:
        encoded = file.read(_MAX_BYTES + 1)
    if hashlib.sha256(encoded).hexdigest() != sha256:
        raise StorageError(f"{path} does not match its checksum: it was altered; {RESTORE}")
    with as_written(path, "table of contents"):
        contents = json.loads(encoded)
        if contents["format"] != FORMAT:
            raise StorageError(
                f"{folder.parent} has format {contents['format']!r:.40}, this version reads {FORMAT}: refit, or "
                "upgrade with pip install -U knn-ue"
            )
        entries = {name: from_plain(_Entry, entry) for name, entry in contents["parts"].items()}
        if "" not in entries:
            raise ValueError("it names no first part")
        for name in entries:
            pieces = name.split("/") if name else []
            known = name.rpartition("/")[0] in entries
            if len(pieces) > _MAX_DEPTH or not known or not all(map(_PART_NAME.fullmatch, pieces)):
                raise ValueError(f"{name[:80]!r} names no part")
    return entries


def read_tree(folder: Path, sha256: str) -> Part:
    """Return the parts in an immutable folder after verifying every file."""
    entries = read_contents(folder, sha256)
    _check_files(folder, entries)

    def part_of(name: str) -> Part:
        inner = [key for key in entries if key and key.rpartition("/")[0] == name]
        part = _read_part(folder, name, entries[name])
        return replace(part, parts={key.rpartition("/")[2]: part_of(key) for key in inner})

    return part_of("")


def _check_files(folder: Path, entries: Mapping[str, _Entry]) -> None:
    """Raise unless the folder holds the files that are named, and nothing else that some library might read."""
    named = {folder / CONTENTS} | {folder / name / file for name, entry in entries.items() for file in entry.files}
    if not all(_FILE_NAME.fullmatch(file) for entry in entries.values() for file in entry.files):
        raise StorageError(f"{folder / CONTENTS} names a file that cannot be ours: do not trust this folder")
    present: set[Path] = set()
    for place, folders, files in os.walk(folder):
        present |= {Path(place, name) for name in files}
        present |= {Path(place, name) for name in folders if Path(place, name).is_symlink()}
    if present != named:
        odd = min(present ^ named)
        what = "should not be there" if odd in present else "is missing"
        raise StorageError(f"{odd} {what}: {RESTORE}")


def _read_part(folder: Path, name: str, entry: _Entry) -> Part:
    paths = {file: folder / name / file for file in entry.files}
    for file, path in paths.items():
        _verify(path, entry.files[file])
    arrays: Arrays = map_arrays(paths.pop(ARRAYS)) if ARRAYS in paths else {}
    grows = entry.grows
    return Part(
        kind=entry.kind,
        state=entry.state,
        arrays=arrays,
        files=paths,
        digests={file: entry.files[file].sha256 for file in paths},
        growing=None if grows is None else Growing(n_columns=grows.n_columns, next_id=grows.next_id),
        name=name,
    )


def _verify(path: Path, expected: _File) -> None:
    with storage_errors(f"{path} cannot be read", RESTORE), open_plain_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected.size:
            raise StorageError(f"{path} has {size} bytes instead of {expected.size}: it is damaged; {RESTORE}")
        if hashlib.file_digest(file, "sha256").hexdigest() != expected.sha256:
            raise StorageError(f"{path} does not match its checksum: it is damaged or replaced; {RESTORE}")

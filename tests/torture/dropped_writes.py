"""What the disk was asked to do, as strace saw it -> the folders that a power loss may leave at each moment.

Surely there is what was synced: the content of a file by its own sync, a name by that of its folder. Of all the rest
anything may be there or not: each name, and each sector of each write, whatever their order was.
"""

import random
import re
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,"
    "mkdirat,rmdir,sendfile,copy_file_range,writev,pwritev,fallocate"
)
_CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(?:<([^>]*)>)?", re.DOTALL)
_HANDLE = re.compile(r"^(\w+)<([^>]*)>")
_QUOTED = re.compile(r'"([^"]*)"')
_SECTOR = 512
_DATA = {"write", "pwrite64", "ftruncate", "sendfile"}
_UNSEEN = {"writev", "pwritev", "fallocate", "copy_file_range", "linkat"}  # nobody here makes them


@dataclass(eq=False)
class File:
    """A file, whatever it is named: what is surely on disk, and the writes (place, bytes) that may be."""

    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    place: dict[str, int] = field(default_factory=dict)  # of the next `write`, for each handle

    def content(self, keep: float, rng: random.Random) -> bytes:
        """Return a content that it may have: each pending sector is there with the probability `keep`."""
        content = bytearray(self.synced)
        for start, data in self.pending:
            if data is None:
                if rng.random() < keep:
                    _set_length(content, start)
                continue
            for begin in range(0, len(data), _SECTOR):
                if rng.random() < keep:
                    piece = data[begin : begin + _SECTOR]
                    _set_length(content, max(len(content), start + begin + len(piece)))
                    content[start + begin : start + begin + len(piece)] = piece
        return bytes(content)


@dataclass(eq=False)
class Folder:
    """A folder: what is named in it, and the names that are surely on disk."""

    names: "dict[str, Folder | File]" = field(default_factory=dict)
    synced: "dict[str, Folder | File]" = field(default_factory=dict)


Naming = tuple[Folder, str, Folder | File | None]  # None: the name is taken away


class Disk:
    """What is below the folder `root`; names that were given or taken and not synced are `_pending`, group by group."""

    def __init__(self, root: Path) -> None:
        self._path = str(root)
        self._root = _read(root)
        self._pending: list[list[Naming]] = []

    def do(self, line: str) -> bytes | None:
        """Take over one line of strace; return what was written where it is a file outside."""
        match = _CALL.match(line)
        if match is None or int(match[3]) < 0:
            return None
        call, arguments, result = match[1], match[2], int(match[3])
        handle = _HANDLE.match(arguments)
        path = _text(handle[2]) if handle else ""
        quoted = [_text(one) for one in _QUOTED.findall(arguments)] if call not in _DATA else []
        if call == "write" and not self._has(path):
            return _bytes(_QUOTED.findall(arguments)[0])
        if call == "openat" and self._has(opened := _text(match[4] or "")):
            self._open(opened, match[3], arguments)
        elif call in _DATA and isinstance(file := self._find(path), File):
            self._write(call, file, handle[1] if handle else "", arguments, result)
        elif call in ("fsync", "fdatasync"):
            self._sync(self._find(path))
        elif call.startswith("rename") and self._has(quoted[-1]):
            node = self._find(quoted[0])
            self._name([(*self._place(quoted[0]), None), (*self._place(quoted[-1]), node)])
        elif call == "link" and self._has(quoted[1]):
            # Where the other name is not ours, nobody knows what of it was ever synced.
            node = self._find(quoted[0]) or File(pending=[(0, Path(quoted[0]).read_bytes())])
            self._name([(*self._place(quoted[1]), node)])
        elif call == "mkdir" and self._has(quoted[0]):
            self._name([(*self._place(quoted[0]), Folder())])
        elif call in ("unlink", "unlinkat", "rmdir"):
            name = quoted[0] if quoted[0].startswith("/") else f"{path}/{quoted[0]}"
            if self._find(name) is not None:
                self._name([(*self._place(name), None)])
        elif call in _UNSEEN and self._has(path):
            raise AssertionError(f"{call} is not replayed")
        return None

    def left(self, keep: float, rng: random.Random) -> dict[str, bytes | None]:
        """Return the files that a power loss now may leave, None for a folder; what is not synced with `keep`."""
        names = {folder: dict(folder.synced) for folder in self._folders()}
        for group in self._pending:
            if rng.random() < keep:
                for folder, name, node in group:
                    _apply(names[folder], name, node)
        left: dict[str, bytes | None] = {}

        def walk(folder: Folder, path: str) -> None:
            for name, node in sorted(names[folder].items()):
                left[f"{path}{name}"] = node.content(keep, rng) if isinstance(node, File) else None
                if isinstance(node, Folder):
                    walk(node, f"{path}{name}/")

        walk(self._root, "")
        return left

    def _folders(self) -> set[Folder]:
        """Return all folders that anything may still lead to."""
        found, new = set(), [self._root, *(folder for group in self._pending for folder, _, _ in group)]
        new += [node for group in self._pending for _, _, node in group if isinstance(node, Folder)]
        while new:
            folder = new.pop()
            if folder not in found:
                found.add(folder)
                inside = [*folder.names.values(), *folder.synced.values()]
                new += [node for node in inside if isinstance(node, Folder)]
        return found

    def _has(self, path: str) -> bool:
        return path.startswith(f"{self._path}/")

    def _find(self, path: str) -> Folder | File | None:
        if path != self._path and not self._has(path):
            return None
        node: Folder | File | None = self._root
        for name in filter(None, path[len(self._path) :].split("/")):
            node = node.names.get(name) if isinstance(node, Folder) else None
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        """Return the folder in which a path is named, and its name there."""
        parent, _, name = path.rstrip("/").rpartition("/")
        folder = self._find(parent)
        assert isinstance(folder, Folder), path
        return folder, name

    def _name(self, group: list[Naming]) -> None:
        for folder, name, node in group:
            _apply(folder.names, name, node)
        self._pending.append(group)

    def _open(self, path: str, handle: str, arguments: str) -> None:
        if "O_TMPFILE" in arguments or "O_DIRECTORY" in arguments:
            return
        if "O_CREAT" in arguments and self._find(path) is None:
            self._name([(*self._place(path), File())])
        if isinstance(file := self._find(path), File):
            file.place[handle] = 0
            if "O_TRUNC" in arguments:
                file.pending.append((0, None))

    def _write(self, call: str, file: File, handle: str, arguments: str, result: int) -> None:
        if call == "ftruncate":
            file.pending.append((int(arguments.rpartition(",")[2]), None))
        elif call == "pwrite64":
            file.pending.append((int(arguments.rpartition(",")[2]), _bytes(_QUOTED.findall(arguments)[0])[:result]))
        else:
            place = file.place.get(handle, 0)
            data = self._sent(arguments) if call == "sendfile" else _bytes(_QUOTED.findall(arguments)[0])
            file.pending.append((place, data[:result]))
            file.place[handle] = place + result

    def _sent(self, arguments: str) -> bytes:
        """Return what `sendfile` copied: small files, in one piece."""
        source = _HANDLE.match(arguments.split(", ")[1])
        assert source is not None
        file = self._find(_text(source[2]))
        return file.content(1.0, random.Random(0)) if isinstance(file, File) else Path(_text(source[2])).read_bytes()

    def _sync(self, node: Folder | File | None) -> None:
        if isinstance(node, File):
            node.synced, node.pending = node.content(1.0, random.Random(0)), []
        elif isinstance(node, Folder):
            done = [group for group in self._pending if any(folder is node for folder, _, _ in group)]
            for folder, name, inner in (naming for group in done for naming in group):
                _apply(folder.synced, name, inner)
            self._pending = [group for group in self._pending if group not in done]


def _apply(names: dict[str, Folder | File], name: str, node: Folder | File | None) -> None:
    names.pop(name, None)
    if node is not None:
        names[name] = node


def _read(path: Path) -> Folder:
    """Return a folder that has been on disk for long."""
    folder = Folder()
    for entry in path.iterdir():
        folder.names[entry.name] = _read(entry) if entry.is_dir() else File(entry.read_bytes())
    folder.synced = dict(folder.names)
    return folder


def _set_length(content: bytearray, length: int) -> None:
    if length <= len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))


def _bytes(shown: str) -> bytes:
    return bytes.fromhex(shown.replace("\\x", ""))


def _text(shown: str) -> str:
    return _bytes(shown).decode() if shown.startswith("\\x") else shown

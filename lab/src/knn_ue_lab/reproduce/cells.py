"""What was measured, kept: one small JSON file a cell, found by a key of all that determines it.

A cell's file is `<setup>/<what>.<key>.json`. The key holds the content of all rows, the encoder's files, every option
and the seed, and `REVISION`, which is raised when a change of ours changes numbers; so cells that other rows or
options made are never mistaken for these. Library versions are kept in the cell and not in its key: cells that were
measured elsewhere can be read here. The answers behind a cell's scores, packed, are beside it, `<what>.<key>.npz`; all
that is large and can be made again lies in the work folder.
"""

import fcntl
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.errors import StorageError
from knn_ue.folder import Part, open_folder, write_file, write_folder

REVISION = 1
Content = dict[str, Any]
Arrays = Mapping[str, npt.NDArray[Any]]

# What a cell of a kind must have for tables to be made of it.
_PARTS: Mapping[Any, tuple[str, ...]] = {
    "model": ("score", "seconds"),
    "scores": ("sets", "seconds"),
    "timing": ("milliseconds", "load", "seconds"),
    "comparison": ("pairs",),
}
_ARRAYS = "cell-arrays"
_DIGITS = 7


@dataclass(frozen=True)
class CellName:
    """Which cell: `setup` and `what` are for people, `key` says all."""

    setup: str
    what: str
    key: str

    @property
    def file(self) -> Path:
        """The file of the cell, relative to the folder of cells."""
        return Path(self.setup) / f"{self.what}.{self.key}.json"


class CellStore:
    """Cells on disk: `cells` holds the small JSON files, `work` all that is large and can be made again."""

    def __init__(self, cells: Path, work: Path) -> None:
        self.cells, self.work = cells, work

    def read(self, name: CellName) -> Content | None:
        """Return the cell, None where it was never measured or its file is damaged."""
        try:
            content = json.loads((self.cells / name.file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:  # cut short by a full disk: measured again
            return None
        if not isinstance(content, dict) or content.get("key") != name.key:
            return None
        return content if all(part in content for part in _PARTS.get(content.get("kind"), ())) else None

    def write(self, name: CellName, content: Content, *, only: bool = False) -> Content:
        """Write the cell in one step, and return it as it will be read; `only` removes those of the same `what`."""
        path = self.cells / name.file
        path.parent.mkdir(parents=True, exist_ok=True)
        rounded: Content = _rounded({"key": name.key, **content})
        write_file(path, (json.dumps(rounded, ensure_ascii=False) + "\n").encode())
        for other in path.parent.glob(f"{escape(name.what)}.*.json") if only else ():
            if other != path:
                other.unlink(missing_ok=True)
        return rounded

    def write_answers(self, name: CellName, answers: Mapping[str, Arrays]) -> None:
        """Keep the packed answers of a cell, by test set, beside it, in one step."""
        path = self._answers(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = {f"{part}/{key}": values for part, arrays in answers.items() for key, values in arrays.items()}
        content = io.BytesIO()
        np.savez_compressed(content, **packed)  # type: ignore[arg-type]
        write_file(path, content.getvalue())

    def read_answers(self, name: CellName, part: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return the packed answers of a cell to one test set, None where they are not here or are damaged."""
        try:
            with self._answers(name).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return {
                    key.removeprefix(f"{part}/"): file[key] for key in file.files if key.rpartition("/")[0] == part
                } or None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
            return None

    def write_arrays(self, name: CellName, part: str, arrays: Arrays) -> None:
        """Keep arrays in the work folder, in one step."""
        write_folder(self._arrays(name, part), Part(kind=_ARRAYS, arrays=arrays))

    def read_arrays(self, name: CellName, part: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return arrays of the work folder, None where they are not here or are damaged."""
        try:
            return {key: np.array(value) for key, value in open_folder(self._arrays(name, part)).arrays.items()}
        except StorageError:
            return None

    @contextmanager
    def reserved(self, key: str, *, wait: bool) -> Iterator[bool]:
        """Yield whether this process may make what `key` names: two processes may share the folders."""
        folder = self.work / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / key).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def _answers(self, name: CellName) -> Path:
        return self.cells / name.file.with_suffix(".npz")

    def _arrays(self, name: CellName, part: str) -> Path:
        return self.work / "arrays" / name.setup / f"{name.what}.{name.key}" / file_name(part)


def file_name(part: str) -> str:
    """Return a name for the files of a test set, another one for every set.

    >>> file_name("far test"), file_name("far_test")
    ('far_test', 'far%5Ftest')
    """
    for sign in ("%", "_", os.sep):
        part = part.replace(sign, f"%{ord(sign):02X}")
    return part.replace(" ", "_")


def _rounded(value: Any) -> Any:
    """Return plain JSON: numbers with seven digits, which no table shows, and null for what is not a number."""
    if isinstance(value, Mapping):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value

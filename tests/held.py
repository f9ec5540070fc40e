"""What tests do to a folder from outside: hold it as another writer, find its fitted part, forge it."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from knn_ue.folder import DATABASE


@contextmanager
def held(folder: Path, how: str = "immediate") -> Iterator[None]:
    """Hold a folder as a writer amid a change does; "exclusive" as one amid its commit, when nobody may read."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None, check_same_thread=False)) as database:
        database.execute(f"begin {how}")
        yield
        database.execute("rollback")


def fitted_in(folder: Path) -> Path:
    """Return the immutable part of a folder."""
    (fitted,) = folder.glob("fitted-*")
    return fitted


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what `fitted.json` says of the parts, as an attacker would: with a checksum that fits."""
    path = fitted_in(folder) / "fitted.json"
    contents = json.loads(path.read_text())
    change(contents["parts"])
    path.write_text(json.dumps(contents))
    forge_database(folder, f"update folder set sha256 = '{hashlib.sha256(path.read_bytes()).hexdigest()}'")


def forge_database(folder: Path, *sql: str) -> None:
    """Run `sql` on the database of a folder, past every check of ours."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        for statement in sql:
            database.execute(statement)


def forge_state(folder: Path, part: str = "", **values: Any) -> None:
    """Replace parameters of a part."""
    forge(folder, lambda parts: parts[part]["state"].update(values))


def forge_arrays(folder: Path, part: str = "", **arrays: Any) -> None:
    """Replace stored arrays of a part; None removes one."""
    path = fitted_in(folder) / part / "arrays.safetensors"
    stored = load_file(path) | arrays
    save_file({name: np.ascontiguousarray(array) for name, array in stored.items() if array is not None}, path)
    seal(folder)


def seal(folder: Path) -> None:
    """Make a folder state the names, sizes and checksums of its files as they are."""

    def state(parts: dict[str, Any]) -> None:
        for name, part in parts.items():
            contents = {path.name: path.read_bytes() for path in (fitted_in(folder) / name).iterdir() if path.is_file()}
            contents.pop("fitted.json", None)
            part["files"] = {
                file: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                for file, content in contents.items()
            }

    forge(folder, state)

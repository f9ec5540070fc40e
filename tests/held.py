"""What tests do to a folder from outside: hold it as another writer, find its fitted part, forge it."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

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
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        database.execute("update folder set sha256 = ?", (hashlib.sha256(path.read_bytes()).hexdigest(),))

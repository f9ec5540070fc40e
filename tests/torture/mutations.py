"""What chance or an enemy does to a folder: bytes that change, files that vanish or become something else, and, with
checksums that fit again, values that no writer of ours would write."""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from knn_ue.folder import DATABASE
from knn_ue.folder.changes import _crc
from torture.data_files import forge_rows

_PLAIN = ("Flat", "HNSW0", "IVF50000000,Flat", "RR100000,Flat", "PQ4x4fs_0", "OPQ1000000,PQ4", "SQfp16", "PQ4")
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 1e9, 10**9, 10**12, 2**31, 2**63, -(2**63), 10**30, 0.0, -0.0, 1e-320, 1e308,
    -1e308, 0.5, 2.0, float("nan"), float("inf"), "", "x", "exact", "../../x", "/etc/passwd", "a" * 5000, "\ud800",
    "\0", [], [None], [0] * 50, {}, {"x": 1}, [[]], "cuda:9", "float64", "int8", "gelu", "knn-ue", "dac", *_PLAIN,
)  # fmt: skip
_NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-320, 1e30, 1e38, -1e38, 1e300, 0.5, 65536.0)
_WHOLES = (-(2**63), -1, 0, 1, 2, 3, 100, 10**9, 2**31, 2**62, 2**63 - 1)


def spoil(folder: Path, rng: random.Random) -> str:
    """Damage a folder as a bad disk, a bad copy or a careless hand does; return what was done."""
    path = rng.choice(_files(folder))
    action = rng.choice([_flip, _flip, _set_bytes, _cut, _grow, _drop, _swap, _vanish, _empty, _become_strange])
    return f"{action.__name__} {path.relative_to(folder)}: {action(path, folder, rng)}"


def forge(folder: Path, rng: random.Random) -> str:
    """Write hostile values and make every size and checksum fit again; return what was done."""
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # A forged index may end the process, like any model file (SECURITY).
        path = rng.choice([path for path in _files(folder) if path.suffix != ".faiss"])
        name = path.relative_to(folder)
        if path.suffix == ".json" and rng.random() < 0.9:
            done.append(f"{name} {_forge_json(path, rng)}")
        elif path.suffix == ".safetensors" and rng.random() < 0.8:
            done.append(f"{name} {_forge_arrays(path, rng)}")
        elif path.name.startswith("rows.") and rng.random() < 0.7:
            done.append(f"{name} {forge_rows(path, rng)}")
        elif path.name == DATABASE and rng.random() < 0.9:
            done.append(f"{name} {_forge_database(path, rng)}")
        else:
            done.append(f"{name} {rng.choice([_flip, _set_bytes, _plant, _cut, _drop])(path, folder, rng)}")
    seal(folder)
    return "; ".join(done)


def seal(folder: Path) -> None:
    """Make all sizes and checksums right for the files as they are."""
    for path in folder.glob("fitted-*/fitted.json"):
        try:
            document = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
            for name, part in document["parts"].items():
                for file, entry in part["files"].items():
                    entry |= _fingerprint(path.parent / name / file)
            path.write_text(json.dumps(document), encoding="utf-8")
        except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
            pass  # what was forged leaves nothing to seal here; the checksum below may still fit
        try:
            with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
                database.execute("update folder set sha256 = ?", (hashlib.sha256(path.read_bytes()).hexdigest(),))
        except (sqlite3.Error, OSError):
            continue


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _fingerprint(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


# --- bytes -----------------------------------------------------------------------------------------------------


def _place(size: int, rng: random.Random) -> int:
    return rng.randrange(min(size, 400) if rng.random() < 0.5 else size) if size else 0


def _edit(path: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    if content:
        change(content)
    path.write_bytes(content)


def _flip(path: Path, _: Path, rng: random.Random) -> str:
    def change(content: bytearray) -> None:
        for _ in range(rng.choice([1, 1, 3])):
            content[_place(len(content), rng)] ^= 1 << rng.randrange(8)

    _edit(path, change)
    return "bits flipped"


def _set_bytes(path: Path, _: Path, rng: random.Random) -> str:
    def change(content: bytearray) -> None:
        place = _place(len(content), rng)
        length = min(rng.choice([1, 2, 8, 64, 512]), len(content) - place)
        content[place : place + length] = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])

    _edit(path, change)
    return "bytes set"


def _plant(path: Path, _: Path, rng: random.Random) -> str:
    number = rng.choice(_WHOLES)

    def change(content: bytearray) -> None:
        place = _place(len(content), rng) // 4 * 4
        content[place : place + 8] = struct.pack("<q", number)[: len(content) - place]

    _edit(path, change)
    return f"{number} planted"


def _cut(path: Path, _: Path, rng: random.Random) -> str:
    size = path.stat().st_size
    os.truncate(path, rng.randrange(size) if size else 0)
    return "cut"


def _grow(path: Path, _: Path, rng: random.Random) -> str:
    with path.open("ab") as file:
        file.write(rng.choice([bytes(rng.randrange(1, 300)), rng.randbytes(rng.randrange(1, 300)), b"\n"]))
    return "grown"


def _drop(path: Path, _: Path, rng: random.Random) -> str:
    def change(content: bytearray) -> None:
        place = _place(len(content), rng)
        del content[place : place + rng.randrange(1, 9)]

    _edit(path, change)
    return "bytes dropped"


def _swap(path: Path, folder: Path, rng: random.Random) -> str:
    other = rng.choice(_files(folder))
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)
    return f"swapped with {other.name}"


def _vanish(path: Path, folder: Path, rng: random.Random) -> str:
    if path.parent != folder and rng.random() < 0.3:
        shutil.rmtree(path.parent)
        return "its folder removed"
    path.unlink()
    return "removed"


def _empty(path: Path, _: Path, rng: random.Random) -> str:
    path.write_bytes(b"")
    return "emptied"


def _become_strange(path: Path, folder: Path, rng: random.Random) -> str:
    content = path.read_bytes()
    path.unlink()
    kind = rng.randrange(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(rng.choice(["/dev/zero", "/nowhere", str(path)]))
    else:
        (folder.parent / "elsewhere").write_bytes(content)
        path.symlink_to(folder.parent / "elsewhere")
    return ("a pipe", "a folder", "a link to a device, nowhere or itself", "a link out of the folder")[kind]


# --- values ----------------------------------------------------------------------------------------------------


def _forge_json(path: Path, rng: random.Random) -> str:
    try:
        document = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return "is not JSON any more"
    holder = document
    if path.name == "fitted.json" and isinstance(document, dict) and rng.random() < 0.9:
        # Of the other entries a few are tried; the parameters of the parts are what schemas are about.
        parts = document["parts"].values() if isinstance(document.get("parts"), dict) else ()
        holder = rng.choice([p["state"] for p in parts if isinstance(p, dict) and p.get("state")] or [document])
    done = _forge_inside(holder, rng)
    path.write_text(json.dumps(document), encoding="utf-8")
    return done


def _forge_inside(holder: Any, rng: random.Random) -> str:
    """Replace, remove, repeat or add one value somewhere in a tree of JSON."""
    keys: list[Any] = []
    while True:
        inside = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not inside:
            break
        key = rng.choice(inside)
        if isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.8:
            keys.append(key)
            holder = holder[key]
            continue
        break
    where = "/".join(map(str, keys))
    if not inside or rng.random() < 0.05:
        value = rng.choice(HOSTILE)
        holder.append(value) if isinstance(holder, list) else holder.__setitem__(rng.choice(["x", "kind"]), value)
        return f"{where} got {value!r:.40}"
    if rng.random() < 0.15:
        del holder[key]
        return f"{where}/{key} removed"
    old = holder[key]
    near = [old * 2, old + 1, -old, old / 3] if isinstance(old, int | float) and not isinstance(old, bool) else []
    holder[key] = rng.choice(near) if near and rng.random() < 0.3 else rng.choice(HOSTILE)
    return f"{where}/{key} = {holder[key]!r:.40}"


def _forge_arrays(path: Path, rng: random.Random) -> str:
    try:
        arrays = {name: array.copy() for name, array in load(path.read_bytes()).items()}
    except Exception:
        return "is no safetensors file any more"
    if not arrays:
        arrays["x"] = np.zeros(3)
    name = rng.choice(sorted(arrays))
    done = forge_array(arrays, name, rng)
    path.write_bytes(save({key: np.ascontiguousarray(array) for key, array in arrays.items()}))
    return done


def forge_array(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    """Change one of the arrays as no writer of ours would."""
    array, kind = arrays[name], rng.randrange(8)
    if kind == 0:
        del arrays[name]
        return f"{name} removed"
    if kind == 1:
        arrays[name] = array.astype(rng.choice([np.float64, np.float32, np.int64, np.uint8, np.bool_, np.int32]))
        return f"{name} as {arrays[name].dtype}"
    if kind == 2 and array.size:
        arrays[name] = rng.choice([array[:-1], array[None], array.reshape(-1), array[:0], np.tile(array, 2)])
        return f"{name} of shape {arrays[name].shape}"
    if kind == 3:
        other = rng.choice(sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
        return f"{name} and {other} exchanged"
    if not array.size or array.dtype == np.bool_:
        arrays[name] = ~array if array.dtype == np.bool_ else array
        return f"{name} inverted"
    floating = array.dtype.kind == "f"
    value = rng.choice(_NUMBERS if floating else _WHOLES)
    with np.errstate(all="ignore"):
        wanted = np.array(value).astype(array.dtype) if floating else np.array(value & 2**63 - 1).astype(array.dtype)
        wanted = -wanted if not floating and value < 0 and array.dtype.kind == "i" else wanted
    if kind == 4:
        array[...] = wanted
        return f"{name} all {value}"
    flat = array.reshape(-1)
    for _ in range(rng.choice([1, 3])):
        flat[rng.randrange(flat.size)] = wanted
    arrays[name] = flat.reshape(array.shape)
    return f"{name} with {value}"


def _forge_database(path: Path, rng: random.Random) -> str:
    """Change a row of the database, or its schema, and write checksums that fit."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            done = rng.choice([_forge_row, _forge_row, _forge_row, _forge_row, _forge_schema])(database, rng)
            for table in ("added", "parts"):
                for number, *row in database.execute(f"select rowid, * from {table}").fetchall():
                    database.execute(f"update {table} set crc = ? where rowid = ?", (_crc(row[:-1]), number))
    except (sqlite3.Error, OSError, ValueError, UnicodeError, OverflowError) as error:
        return f"cannot be forged ({str(error)[:60]})"
    return done


def _forge_row(database: sqlite3.Connection, rng: random.Random) -> str:
    table = rng.choice(["folder", "added", "added", "removed", "parts", "parts", "parts", "sqlite_sequence"])
    columns = [name for _, name, *_ in database.execute(f"pragma table_info({table})")]
    rows = database.execute(f"select rowid, * from {table}").fetchall()
    if not rows:
        return f"{table} has no row"
    number, *row = rng.choice(rows)
    place = rng.randrange(len(columns))
    old = row[place]
    if rng.random() < 0.1:
        database.execute(f"delete from {table} where rowid = ?", (number,))
        return f"{table} without row {number}"
    if columns[place] == "state" and old and rng.random() < 0.8:
        document = json.loads(old)
        done = _forge_inside(document, rng)
        value: Any = json.dumps(document)
    elif columns[place] == "arrays" and old and rng.random() < 0.8:
        arrays = {name: array.copy() for name, array in load(old).items()}
        done = forge_array(arrays, rng.choice(sorted(arrays)), rng)
        value = save({key: np.ascontiguousarray(array) for key, array in arrays.items()})
    elif columns[place] == "vector":
        value = np.full(len(old) // 4, rng.choice(_NUMBERS), np.float64).astype(np.float32).tobytes()
        done = f"vector of {value[:4]!r}"
    else:
        value = rng.choice([*_WHOLES, None, "", "x", "../../x", "a" * 5000, b"", rng.randbytes(20)])
        done = f"{columns[place]} = {value!r:.40}"
    database.execute(f"update {table} set {columns[place]} = ? where rowid = ?", (value, number))
    return f"{table} {done}"


def _forge_schema(database: sqlite3.Connection, rng: random.Random) -> str:
    """Give the database what a stranger might hope that we run, or that SQLite stumbles over."""
    statement = rng.choice([
        "create trigger t after insert on added begin delete from added; end",
        "create view v as select load_extension('x')",
        "create table other (x)",
        "create index i on added (abs(label))",
        "alter table added rename to added2",
        "pragma journal_mode = wal",
        "pragma user_version = 7",
        "pragma application_id = 7",
        "pragma encoding = 'UTF-16'",
        "drop table removed",
        "delete from folder",
    ])  # fmt: skip
    database.execute(statement).fetchall()
    return statement

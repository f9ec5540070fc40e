"""Files of rows as users have them, and what an enemy or an accident makes of them."""

import gzip
import json
import random
import zlib
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tiny_models import ROWS

_MOST_ROWS = 5000
_LONG = 5 << 20  # beyond what a row may have
_LINES = (
    b"", b" ", b'"', b"'", b",", b",,,,,,,", b"\t\t", b"{", b"}", b"[", b"null", b"3", b"\0" * 1000, b"\xff\xfe",
    b"\xef\xbb\xbf", b"[" * 100_000, b'{"text": ' * 20_000, b'{"text": null}', b'{"text": 3, "label": []}',
    b'{"label": "pos"}', b'{"text": ""}', b'{"text": "\\ud800", "label": "pos"}',
    b'{"text": "a", "label": "b", "label": 1e999}', b"x," * 100_000, b"a b c d",
    b'{"tokens": ["a"], "tags": ["O", "O"]}', b'{"tokens": [], "tags": []}', b'{"tokens": [1], "tags": [2]}',
    b"a\tB-PER\textra", b'{"text": "' + b"a" * _LONG + b'"}', b'"' + b"a long text in quotes\n" * (_LONG // 22),
    b"a O\n" * 150_000,
    b" " * (1 << 20), b"-DOCSTART- -X- O O", b'{"text": "a", "label": 1234567890123456789012345678901234567890}',
    b'{"text": "a", "label": {"a": [1, 2]}}',
)  # fmt: skip


def make_file(path: Path, name: str, task: str) -> None:
    """Write a folder with one file of rows; its ending says how."""
    path.mkdir()
    content = _ENCODED[name.removesuffix(".gz").rpartition(".")[2]](ROWS[task](40))
    (path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)


def use_file(path: Path, task: str) -> Any:
    """Read the file, as a command does."""
    from knn_ue.data import read_rows

    (file,) = path.iterdir()
    for labeled in (True, False):
        for row in islice(read_rows(str(file), task, labeled=labeled), _MOST_ROWS):
            assert row is not None


def forge_rows(path: Path, rng: random.Random) -> str:
    """Put a hostile line into a file of rows, or make it a small file that is large when unpacked."""
    line = rng.choice(_LINES)
    if path.suffix == ".gz":
        if rng.random() < 0.2:
            path.write_bytes(_bomb())
            return "became a bomb"
        try:
            content = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error):
            return "is no gzip file any more"
        path.write_bytes(gzip.compress(_with_line(content, line, rng), 1, mtime=0))
    else:
        path.write_bytes(_with_line(path.read_bytes(), line, rng))
    return f"got {len(line)} bytes that begin with {line[:20]!r}"


def _with_line(content: bytes, line: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    lines.insert(rng.randrange(len(lines)), line)
    return b"\n".join(lines)


@cache
def _bomb() -> bytes:
    return gzip.compress(b'{"text": "' + b"a" * (256 << 20), 1, mtime=0)


def _as_csv(rows: list[Any]) -> bytes:
    return "".join([",".join(rows[0]) + "\n", *(",".join(row.values()) + "\n" for row in rows)]).encode()


def _as_conll(rows: list[Any]) -> bytes:
    sentences = ("".join(f"{t} {g}\n" for t, g in zip(row["tokens"], row["tags"], strict=True)) for row in rows)
    return "\n".join(sentences).encode()


_ENCODED = {
    "jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows).encode(),
    "csv": _as_csv,
    "conll": _as_conll,
}

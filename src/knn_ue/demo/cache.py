"""What the demo keeps between runs: outputs under a key made of everything that determines them."""

import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from knn_ue.data import Row
from knn_ue.folder import Part, open_folder, write_folder
from knn_ue.folder.tensors import outputs_from_arrays, outputs_to_arrays
from knn_ue.types import Outputs

KIND = "demo-outputs"
_LIBRARIES = ("knn-ue", "torch", "transformers", "tokenizers", "accelerate", "numpy")
_ALL_LIBRARIES = (*_LIBRARIES, "scipy", "faiss-cpu", "matplotlib")


def key_of(*parts: object) -> str:
    """Return a short name for plain values: equal values, equal name.

    >>> key_of("a", 1) == key_of("a", 1), key_of("a", 1) == key_of("a", 2)
    (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def key_of_rows(rows: Iterable[Row]) -> str:
    """Return a short name for the content of rows, wherever they were read; a key that a row lacks changes nothing."""
    return key_of(
        [{name: value for name, value in asdict(row).items() if not _is_left_out(name, value)} for row in rows]
    )


def _is_left_out(name: str, value: object) -> bool:
    # Fields that came later are left out where a row does not have them: keys of what was measured before stay.
    return name in ("place", "extra", "given", "document") or (
        name in ("domain", "sample_weight", "raw_text") and value is None
    )


def key_of_program(*stages: str) -> str:
    """Return a short name for the libraries and for our code, all of it or that of some `stages`."""
    root = Path(__file__).parents[1]
    files = (path for folder in (stages or (".",)) for path in sorted((root / folder).rglob("*")))
    sources = [path for path in files if path.suffix in (".py", ".css")]  # a style sheet shapes the report
    versions = {name: _version(name) for name in (_LIBRARIES if stages else _ALL_LIBRARIES)}
    return key_of(platform.machine(), versions, [*map(digest, sources)])


@cache
def key_of_folder(folder: Path) -> str:
    """Return a short name for the content of a folder's files, in whatever order the disk lists them."""
    return key_of({path.name: digest(path) for path in sorted(folder.iterdir()) if path.is_file()})


def save_outputs(path: Path, outputs: Outputs) -> None:
    """Write labeled or unlabeled outputs, with or without their texts, in one step."""
    outputs.require_features("the cache")
    options = {"class_names": list(outputs.class_names or ())}
    write_folder(path, Part(kind=KIND, state=options, arrays=outputs_to_arrays(outputs)))


def load_outputs(path: Path) -> Outputs:
    """Return what `save_outputs` wrote, after verifying it."""
    stored = open_folder(path, kind=KIND)
    return outputs_from_arrays(stored.arrays, stored.state["class_names"])


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

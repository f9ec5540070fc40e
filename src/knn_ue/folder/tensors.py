"""Arrays, texts and `Outputs` <-> safetensors: written block by block, read memory-mapped, or as bytes where small.

The safetensors library builds the whole file in memory when it writes and copies what it reads; a datastore may
be larger than memory, so both are done here on the same format. The library still judges every file that is read.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.errors import StorageError
from knn_ue.types import LAYER, Outputs

_DTYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}
_CHUNK_BYTES = 1 << 24
# Small files are read whole: mapping them would keep a descriptor and save nothing.
_MAPPED_BYTES = 1 << 26


def write_arrays(target: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Write and sync a new safetensors file; return its size and SHA-256, computed on the way."""
    names = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}
    header: dict[str, Any] = {}
    start = 0
    # The format wants every tensor aligned to its item size: the widest first makes that so without padding.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    for name, array in ordered:
        end = start + array.nbytes
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    digest = hashlib.sha256()
    with target.open("xb") as file:
        for block in (len(encoded).to_bytes(8, "little"), encoded):
            digest.update(block)
            file.write(block)
        for _, array in ordered:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for offset in range(0, len(flat), _CHUNK_BYTES):
                chunk = flat[offset : offset + _CHUNK_BYTES].data
                digest.update(chunk)
                file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return {"size": file.tell(), "sha256": digest.hexdigest()}


class StagedRows:
    """Rows that do not fit into memory, appended to a file without a name: it goes when the process goes."""

    def __init__(self, folder: Path, dtype: type[np.generic], n_columns: int) -> None:
        self.dtype = np.dtype(dtype)
        self.n_columns = n_columns
        self.n_rows = 0
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 (closed by `close`)

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Write `rows` (n, n_columns) behind the others."""
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n_rows += len(rows)

    def map(self) -> npt.NDArray[Any]:
        """Return all rows (n, n_columns), mapped and writable."""
        self._file.flush()
        shape = (self.n_rows, self.n_columns)
        if not self.n_rows:
            return np.empty(shape, dtype=self.dtype)
        return np.asarray(np.memmap(self._file, dtype=self.dtype, mode="r+", shape=shape))

    def close(self) -> None:
        """Give the disk space back; what was mapped stays until it is let go."""
        self._file.close()


def map_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a safetensors file that the safetensors library itself finds well-formed.

    They are read into memory where the file is smaller than 64 MiB; where it is larger they are mapped.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        with safe_open(path, framework="numpy") as tensors:
            names = set(tensors.keys())
        mapped = path.stat().st_size > _MAPPED_BYTES
        content = np.memmap(path, dtype=np.uint8, mode="r") if mapped else np.fromfile(path, dtype=np.uint8)
        content.flags.writeable = False
        header = json.loads(content[8 : 8 + length].tobytes())
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name in names:
            start, end = (8 + length + offset for offset in header[name]["data_offsets"])
            dtype = np.dtype(_DTYPES[header[name]["dtype"]])
            if start % dtype.itemsize:
                raise ValueError("its arrays are not aligned")
            arrays[name] = np.asarray(content[start:end]).view(dtype).reshape(header[name]["shape"])
        return arrays
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{path} is not a safetensors file written by knn-ue ({error}): restore it") from None


def arrays_to_bytes(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return a safetensors document in memory."""
    from safetensors.numpy import save

    document: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    return document


def arrays_from_bytes(document: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a safetensors document; ValueError where it is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: dict[str, npt.NDArray[Any]] = load(document)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a safetensors document ({error})") from None
    return arrays


def stored_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: type[np.generic], n_dimensions: int
) -> npt.NDArray[Any]:
    """Return one of the `arrays` that were read, refusing one that is not what we write under that name."""
    if name not in arrays or arrays[name].dtype != dtype or arrays[name].ndim != n_dimensions:
        raise ValueError(f"{name} is not a stored {n_dimensions}-dimensional array of {np.dtype(dtype).name}")
    return arrays[name]


def valid_unicode(text: str) -> str:
    """Return `text` with U+FFFD for each half of a surrogate pair, and the very same text where there is none.

    >>> valid_unicode("a" + chr(0xD800) + "b") == "a" + chr(0xFFFD) + "b"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclass(frozen=True, eq=False)
class PackedTexts:
    """n optional strings: UTF-8 `content`, `ends` (n,) of each string in it, `present` (n,)."""

    content: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        starts = np.concatenate(([0], self.ends[:-1]))
        if len(self.present) != len(self.ends) or (starts > self.ends).any() or (self.ends > len(self.content)).any():
            raise ValueError("its texts contradict each other")

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> str | None:
        """Return one string, None where the row has no text.

        >>> PackedTexts.pack(["a", None, ""])[0], PackedTexts.pack(["a", None, ""])[1]
        ('a', None)
        """
        if not self.present[row]:
            return None
        start = self.ends[row - 1] if row else 0
        content = self.content[start : self.ends[row]].tobytes()
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            pass
        try:
            return valid_unicode(content.decode("utf-8", "surrogatepass"))  # as earlier versions wrote it
        except UnicodeDecodeError:
            raise StorageError(f"the text stored in row {row} is not UTF-8: restore the folder from a backup") from None

    def __iter__(self) -> Iterator[str | None]:
        return (self[row] for row in range(len(self)))

    @classmethod
    def pack(cls, texts: Sequence[str | None]) -> "PackedTexts":
        """Pack `texts`; half a surrogate pair, which is no character, becomes U+FFFD."""
        encoded = [b"" if text is None else valid_unicode(text).encode() for text in texts]
        return cls(
            np.frombuffer(b"".join(encoded), dtype=np.uint8),
            np.cumsum([len(text) for text in encoded], dtype=np.int64),
            np.array([text is not None for text in texts], dtype=bool),
        )

    def to_arrays(self, name: str = "text") -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store; their names begin with `name`."""
        return {f"{name}_content": self.content, f"{name}_ends": self.ends, f"{name}_present": self.present}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]], name: str = "text") -> "PackedTexts":
        """Return the texts stored in `arrays` under `name`; ValueError where they are not as we write them."""
        return cls(
            stored_array(arrays, f"{name}_content", np.uint8, 1),
            stored_array(arrays, f"{name}_ends", np.int64, 1),
            stored_array(arrays, f"{name}_present", np.bool_, 1),
        )


Arrays = dict[str, npt.NDArray[Any]]
_WORD, _SEES_CASE = "word", "sees_case"
_OPTIONAL = ("features", "labels", "views", "decoded", "groups", "documents")


def outputs_to_arrays(outputs: Outputs) -> Arrays:
    """Return the arrays to store; the class names are for the folder's options."""
    arrays: Arrays = {"logits": outputs.logits}
    arrays |= {name: values for name in _OPTIONAL if (values := getattr(outputs, name)) is not None}
    arrays |= {f"{LAYER}{number}": layer for number, layer in enumerate(outputs.layers or ())}
    if outputs.pairs is not None:  # one after the other, since texts shows them joined
        arrays |= PackedTexts.pack([text for pair in outputs.pairs for text in pair]).to_arrays()
    elif outputs.texts is not None:
        arrays |= PackedTexts.pack(outputs.texts).to_arrays()
    if outputs.words is not None:
        arrays |= PackedTexts.pack(outputs.words).to_arrays(_WORD)
    if outputs.sees_case:
        arrays[_SEES_CASE] = np.array([True])
    return arrays


def outputs_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], class_names: Sequence[str] | None) -> Outputs:
    """Return what `outputs_to_arrays` stored; ValueError or KeyError where it is not that. Other arrays are ignored."""
    n_layers = sum(name.startswith(LAYER) for name in arrays)
    texts = [text or "" for text in PackedTexts.from_arrays(dict(arrays))] if "text_ends" in arrays else []
    words = None
    if f"{_WORD}_ends" in arrays:
        words = [word or "" for word in PackedTexts.from_arrays(dict(arrays), _WORD)]
    paired = 0 < len(texts) == 2 * len(arrays["logits"])
    return Outputs(
        logits=arrays["logits"],
        **{name: arrays.get(name) for name in _OPTIONAL},
        layers=[arrays[f"{LAYER}{number}"] for number in range(n_layers)] or None,
        class_names=class_names,
        texts=None if paired else texts or None,
        pairs=list(zip(texts[::2], texts[1::2], strict=True)) if paired else None,
        words=words,
        sees_case=_SEES_CASE in arrays,
    )

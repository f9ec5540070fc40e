"""Arrays <-> one safetensors file, written block by block and read memory-mapped.

The safetensors library builds the whole file in memory when it writes and copies what it reads; a datastore may
be larger than memory, so both are done here on the same format. The library still judges every file that is read.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.errors import StorageError

_DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}
_MAX_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 24


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


def map_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Map the arrays of a safetensors file that the safetensors library itself finds well-formed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
    except (SafetensorError, OSError, ValueError) as error:
        raise StorageError(f"{path} is not a safetensors file ({error}): restore it from a copy") from None
    content = np.memmap(path, dtype=np.uint8, mode="r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > _MAX_HEADER_BYTES:
        raise StorageError(f"{path} has a header of {length} bytes, more than we ever write: do not trust this folder")
    header = json.loads(content[8 : 8 + length].tobytes())
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in names:
        entry = header[name]
        dtype = _DTYPES.get(entry["dtype"])
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        if dtype is None or start % np.dtype(dtype).itemsize:
            raise StorageError(f"{path} holds {name!r} in a layout we never write: do not trust this folder")
        arrays[name] = np.asarray(content[start:end]).view(dtype).reshape(entry["shape"])
    return arrays

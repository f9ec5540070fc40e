"""A faiss index <-> a file. What is read may come from an enemy, and faiss trusts much of what it reads.

faiss checks most of a file itself, but mutated files of some kinds make its search hang or crash. Only the kinds that
withstood our fuzzing are written and read; what faiss leaves unchecked in them is checked here.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import Lock
from typing import Any

from knn_ue.errors import InvalidInputError, StorageError

_FUZZED = {
    "IndexPreTransform",
    "IndexFlat",
    "IndexFlatL2",
    "IndexPQ",
    "IndexPQFastScan",
    "IndexScalarQuantizer",
    "IndexIVFFlat",
    "IndexIVFPQ",
    "IndexIVFPQFastScan",
    "IndexIVFScalarQuantizer",
    "IndexHNSWFlat",
    "IndexHNSWPQ",
    "IndexHNSWSQ",
}
# Where a pre-transform holds its index, an IVF its coarse quantizer, an HNSW its vectors.
_INSIDE = ("index", "quantizer", "storage")
_reading = Lock()


def check_writable(index: Any) -> None:
    """Raise unless a faiss index is of a kind that is read back safely."""
    strange = _kinds(index) - _FUZZED
    if strange:
        raise InvalidInputError(
            f"a faiss {strange.pop()} cannot be saved, because faiss does not read it back safely: "
            'choose "exact", or build from Flat, PQ, SQ, IVF and HNSW'
        )


def write_faiss(index: Any, path: Path) -> None:
    """Write a faiss index to a file."""
    import faiss

    check_writable(index)
    try:
        with path.open("wb") as file:  # faiss's own files do not notice when the disk refuses the last bytes
            faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise OSError(faiss_reason(error)) from None


def read_faiss(path: Path, shape: tuple[int, ...]) -> Any:
    """Read the faiss index of `shape` (rows, columns) from a file whose checksum was verified."""
    import faiss

    size = path.stat().st_size
    strange = StorageError(f"{path} is not a faiss index written by knn-ue: do not trust this folder")
    if _names_another_file(path, size):
        raise strange
    try:
        with _bounded_by(size):
            # Without its tables, which may be larger than the file: they are computed again below.
            index = faiss.read_index(str(path), faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
        if index is None or _kinds(index) - _FUZZED or not all(_is_sound(part) for part in parts_of(index)):
            raise strange
        for part in parts_of(index):
            if hasattr(part, "use_precomputed_table") and not part.precomputed_table.size():
                part.precompute_table()
    except (RuntimeError, MemoryError) as error:
        raise StorageError(
            f"{path} is not a usable faiss index ({faiss_reason(error)}): restore it from a backup"
        ) from None
    if not index.is_trained or (index.ntotal, index.d) != shape:
        raise StorageError(f"{path} indexes {index.ntotal} rows of {index.d}, not {shape}: it was replaced")
    return index


def parts_of(index: Any) -> list[Any]:
    """Return the index and those inside it, each as its own class."""
    import faiss

    part = faiss.downcast_index(index)
    inner = [getattr(part, name) for name in _INSIDE if getattr(part, name, None) is not None]
    return [part, *(deeper for child in inner for deeper in parts_of(child))]


def faiss_reason(error: Exception) -> str:
    """Keep the last clause of faiss's message: the rest is a C++ function signature."""
    return re.sub(r"\s+", " ", str(error)).split(": ", 1)[-1].removeprefix("Error: ").strip()


def _kinds(index: Any) -> set[str]:
    return {type(part).__name__ for part in parts_of(index)}


def _is_sound(part: Any) -> bool:
    """Check what faiss does not: that nothing inside is missing, and that a fast scan stays within its codes."""
    import faiss

    if any(hasattr(part, name) and getattr(part, name) is None for name in (*_INSIDE, "invlists")):
        return False
    scans = hasattr(part, "bbs")
    # A factory string never sets the other three, and each makes a scan read elsewhere.
    if scans and (part.bbs < 1 or part.implem or part.qbs or getattr(part, "qbs2", 0)):
        return False
    if hasattr(part, "invlists"):
        lists: Any = faiss.downcast_InvertedLists(part.invlists)
        if (part.quantizer.ntotal, part.quantizer.d) != (part.nlist, part.d):
            return False
        if not scans:
            return type(lists).__name__ == "ArrayInvertedLists"
        return type(lists).__name__ == "BlockInvertedLists" and bool(lists.n_per_block == part.bbs)
    padded = -(-part.ntotal // part.bbs) * part.bbs if scans else 0
    return not scans or bool(part.ntotal2 == padded and part.codes.size() >= padded * part.M2 // 2)


def _names_another_file(path: Path, size: int) -> bool:
    """Say whether the index keeps its lists in a file of any name, which faiss would open: "ilod" and their number."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) if size else nullcontext(b"") as content:
        place = content.find(b"ilod")
        while place >= 0:
            if int.from_bytes(content[place + 4 : place + 12], "little") <= size:
                return True
            place = content.find(b"ilod", place + 1)
    return False


@contextmanager
def _bounded_by(n_bytes: int) -> Iterator[None]:
    """Let no part of a file claim more than a file of `n_bytes` can mean; the limits are the process's, so in turn."""
    import faiss

    with _reading:
        limits = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
        # A fast scan with residuals computes a table of up to 16 times the file, and none above two gigabytes.
        faiss.set_deserialization_vector_byte_limit(max(n_bytes, min(16 * n_bytes, 1 << 31)) + 1)
        faiss.set_deserialization_loop_limit(n_bytes)
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(limits[0])
            faiss.set_deserialization_loop_limit(limits[1])

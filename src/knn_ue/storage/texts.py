"""Many strings as two arrays, so that they can be memory-mapped and read one at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.errors import StorageError
from knn_ue.storage.tensors import stored_array


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
            raise StorageError(f"the text stored in row {row} is not UTF-8: restore the folder from a copy") from None

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

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store."""
        return {"text_content": self.content, "text_ends": self.ends, "text_present": self.present}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> "PackedTexts":
        """Return the texts stored in `arrays`; ValueError where they are not as we write them."""
        return cls(
            stored_array(arrays, "text_content", np.uint8, 1),
            stored_array(arrays, "text_ends", np.int64, 1),
            stored_array(arrays, "text_present", np.bool_, 1),
        )

"""DataFrames in memory (pandas, polars, pyarrow, whatever narwhals knows) -> records."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from knn_ue.data.columns import proposal
from knn_ue.data.lines import Place
from knn_ue.data.reading import Reading, Record
from knn_ue.errors import InvalidInputError, require

# A frame can exist only where its library is loaded: asking costs nothing where none is.
_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf", "dask", "duckdb", "ibis", "pyspark")


def is_frame(given: object) -> bool:
    """Say whether `given` is a DataFrame of any library that narwhals knows."""
    return _narwhals(given) is not None


def is_series(given: object) -> bool:
    """Say whether `given` is one column of a frame."""
    if not _from_library(given):
        return False
    require("narwhals", extra="frames", purpose="reading a DataFrame")
    import narwhals as nw

    return bool(nw.dependencies.is_into_series(given))


def frame_records(given: Any, reading: Reading) -> Iterator[tuple[Place, Record]]:
    """Yield each row of a frame as a mapping from column to value; a missing value is None."""
    import narwhals as nw

    frame = _narwhals(given)
    names = [str(name) for name in frame.columns]  # pandas has numbers too
    check_columns(names, reading, Place("the frame", 0, "row"))
    if not reading.extras:
        wanted = reading.wanted(names)
        frame = frame.select([nw.col(name) for name in frame.columns if str(name) in wanted])
    for number, record in enumerate(frame.iter_rows(named=True)):
        yield Place("the frame", number, "row"), {str(name): _value(value) for name, value in record.items()}


def check_columns(names: Sequence[str], reading: Reading, place: Place) -> None:
    """Raise where a column that is needed is not among `names`, and propose which one may be meant."""
    needed = reading.needed(names)
    missing = [key for key, column in needed.items() if column not in names]
    if not missing:
        return
    python, shell = proposal(missing, names)
    rule = f"{place.source} must have the columns {', '.join(needed.values())}"
    said = f"{rule}; missing: {', '.join(needed[key] for key in missing)}; it has {', '.join(names)}: "
    raise InvalidInputError(f"{said}{python}", shell=f"{said}{shell}")


def _narwhals(given: object) -> Any:
    if not _from_library(given):
        return None
    require("narwhals", extra="frames", purpose="reading a DataFrame")
    import narwhals as nw

    try:
        frame = nw.from_native(given, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = list(map(str, getattr(given, "columns", ())))
        twice = next((name for name, n_times in Counter(names).items() if n_times > 1), "the same")
        raise InvalidInputError(f"the frame has several columns called {twice!r}: rename or drop all but one") from None
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def _from_library(given: object) -> bool:
    module = type(given).__module__.partition(".")[0]
    return module in _LIBRARIES and module in sys.modules


def _value(value: Any) -> Any:
    # pandas has three ways to write a missing value: a number that is not equal to itself, and two objects.
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return None if isinstance(value, (float, np.floating)) and value != value else value

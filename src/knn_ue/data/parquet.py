"""Parquet files, a batch of rows at a time."""

from collections.abc import Iterator
from pathlib import Path

from knn_ue.data.frames import check_columns
from knn_ue.data.lines import Place
from knn_ue.data.reading import Reading, Record
from knn_ue.errors import InvalidInputError, require

_BATCH_ROWS = 1024


def read_parquet(path: Path, reading: Reading) -> Iterator[tuple[Place, Record]]:
    """Yield each row as a mapping from column to value; only the columns that are needed are read."""
    require("pyarrow", extra="frames", purpose=f"reading {path.name}")
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            check_columns(names, reading, Place(str(path), 1, "row"))
            wanted = names if reading.extras else reading.wanted(names)
            for batch in file.iter_batches(_BATCH_ROWS, columns=[name for name in wanted if name in names]):
                for record in batch.to_pylist():
                    number += 1
                    yield Place(str(path), number, "row"), record
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0][:200]
        raise InvalidInputError(f"{path} is not a readable parquet file ({reason}): write it again") from None

"""CSV and TSV files with a header, read one record at a time."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from knn_ue.data.fields import Record
from knn_ue.data.limits import RAISE_ROW, Limits
from knn_ue.data.lines import Place, read_lines


def read_table(path: Path, *, delimiter: str, needed: Sequence[str], limits: Limits) -> Iterator[tuple[Place, Record]]:
    """Yield each record as a mapping from column to field, with the place of its first line.

    The first line names the columns (case ignored), `needed` among them. A field in double quotes may hold delimiters
    and line ends; a quote inside it is written twice.
    """
    # The default of 131,072 characters refuses long texts; the setting belongs to the process, so it only grows.
    csv.field_size_limit(max(csv.field_size_limit(), limits.row_bytes))
    begun: list[str] = []  # the first line of the record being read: the csv module does not hand it out when it fails
    reader = csv.reader(_remembering(read_lines(path, limits), begun, limits), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        begun.clear()
        place = Place(str(path), reader.line_num + 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise place.error(
                f"the record that begins here is broken ({error})",
                "".join(begun),
                "close the quotes, and write a quote inside a quoted field twice",
            ) from None
        if fields is None:
            return
        if not fields:
            continue
        if header is None:
            header = _checked_header(fields, needed, delimiter, place)
            continue
        if len(fields) != len(header):
            raise place.error(
                f"a record must have {len(header)} fields as the header has, this one has {len(fields)}",
                delimiter.join(fields),
                "put fields that hold the delimiter into double quotes",
            )
        yield place, dict(zip(header, fields, strict=True))


def _checked_header(fields: list[str], needed: Sequence[str], delimiter: str, place: Place) -> list[str]:
    header = [name.strip().casefold() for name in fields]
    missing = [name for name in needed if name not in header]
    if missing:
        comma = "tabs" if delimiter == "\t" else "commas"
        raise place.error(
            f"the header must name the columns {', '.join(needed)}, parted by {comma}; {', '.join(missing)} is missing",
            delimiter.join(fields),
            "add or rename the columns",
        )
    double = next((name for name in needed if header.count(name) > 1), None)
    if double:
        raise place.error(f"the header must name {double} once", delimiter.join(fields), "rename the other column")
    return header


def _remembering(lines: Iterator[tuple[Place, str]], begun: list[str], limits: Limits) -> Iterator[str]:
    first, n_bytes = Place("", 0), 0
    for place, line in lines:
        if not begun:
            begun.append(line)
            first, n_bytes = place, 0
        # A quote that is never closed would make one record of the rest of the file.
        n_bytes += len(line.encode())
        if n_bytes > limits.row_bytes:
            raise first.error(limits.row_rule, begun[0], RAISE_ROW)
        yield line

"""CSV and TSV files with a header, read one record at a time."""

import csv
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path

from knn_ue.data.columns import proposal
from knn_ue.data.faults import OnError
from knn_ue.data.lines import RAISE_ROW, Limits, Place, read_lines
from knn_ue.data.reading import Record


def read_table(
    path: Path, *, delimiters: str, needed: Mapping[str, str], extras: bool, limits: Limits, on_error: OnError
) -> Iterator[tuple[Place, Record]]:
    """Yield each record as a mapping from column to field, with the place of its first line.

    The first line names the columns, those that our keys `needed` among them (case ignored), separated by one of
    `delimiters`. With `extras` no other name may stand there twice: one of its columns would be lost. A field in double
    quotes may hold delimiters and line ends; a quote inside it is written twice.
    """
    # The default of 131,072 characters refuses long texts; the setting belongs to the process, so it only grows.
    csv.field_size_limit(max(csv.field_size_limit(), limits.row_bytes))
    begun: list[str] = []  # the first line of the record being read: the csv module does not hand it out when it fails
    delimiter, lines = _find_delimiter(read_lines(path, limits), delimiters, needed)
    reader = csv.reader(_remembering(lines, begun, limits), delimiter=delimiter, strict=True)
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
            if extras:
                _check_names(header, needed.values(), delimiter.join(fields), place)
            continue
        if len(fields) != len(header):
            on_error(
                place.error(
                    f"a record must have {len(header)} fields as the header has, this one has {len(fields)}",
                    delimiter.join(fields),
                    "put fields that hold the delimiter into double quotes",
                )
            )
            continue
        yield place, dict(zip(header, fields, strict=True))


def _find_delimiter(
    lines: Iterator[tuple[Place, str]], delimiters: str, needed: Mapping[str, str]
) -> tuple[str, Iterator[tuple[Place, str]]]:
    """Return the delimiter with which the first line names the most columns, needed ones above all, and all lines."""
    read: list[tuple[Place, str]] = []
    for place, line in lines:
        read.append((place, line))
        if line.strip():
            break

    if read and "\r" in read[-1][1].rstrip("\r\n"):
        raise read[-1][0].error(
            "lines must end with a line feed, this one holds carriage returns",
            read[-1][1],
            "save it with other line ends",
        )

    def n_found(delimiter: str) -> tuple[int, int]:
        header = next(csv.reader([read[-1][1]], delimiter=delimiter), []) if read else []
        found = {name.strip().casefold() for name in header} & {name.casefold() for name in needed.values()}
        return len(found), len(header)

    return max(delimiters, key=n_found), chain(read, lines)


def _checked_header(fields: list[str], needed: Mapping[str, str], delimiter: str, place: Place) -> list[str]:
    header = [name.strip() for name in fields]
    folded = [name.casefold() for name in header]
    missing = [key for key, column in needed.items() if column.casefold() not in folded]
    if missing:
        separator = {"\t": "tabs", ";": "semicolons"}.get(delimiter, "commas")
        columns = [needed[key] for key in missing]
        python, shell = proposal(missing, header)
        way_out = "write the names of the columns in the first line, or "
        raise place.error(
            f"the header has no column {' or '.join(columns)} (columns are separated by {separator})",
            delimiter.join(fields),
            way_out + python,
            shell=way_out + shell,
        )
    for column in needed.values():
        if folded.count(column.casefold()) > 1:
            raise place.error(f"the header must name {column} once", delimiter.join(fields), "rename the other column")
        header[folded.index(column.casefold())] = column
    return header


def _check_names(header: list[str], needed: Collection[str], line: str, place: Place) -> None:
    """Raise where two columns have one name."""
    n_times = Counter(header)
    twice = next((name for name in header if n_times[name] > 1 and name not in needed), None)
    if twice is not None:
        raise place.error(
            f"the header must name {twice or 'a column without a name'} once", line, "rename the other column"
        )


def _remembering(lines: Iterator[tuple[Place, str]], begun: list[str], limits: Limits) -> Iterator[str]:
    first, n_bytes = Place("", 0), 0
    for place, line in lines:
        if not begun:
            begun.append(line)
            first, n_bytes = place, 0
        # A quote that is never closed would make one record of the rest of the file.
        n_bytes += len(line.encode())
        if n_bytes > limits.row_bytes:
            raise first.error(limits.row_rule, begun[0], RAISE_ROW.python, shell=RAISE_ROW.shell)
        yield line

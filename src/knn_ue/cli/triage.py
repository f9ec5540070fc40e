"""`knn-ue triage`: which answers are let through, and which a person sees first."""

import json
import secrets
from collections.abc import Iterator
from itertools import islice, tee
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from knn_ue.cli.options import AbstainBelow, AsJson, Device, Domain, Overwrite, Ue, takes_columns
from knn_ue.cli.terminal import echo, loading, progress_bars, say
from knn_ue.errors import InvalidInputError, StorageError

if TYPE_CHECKING:
    from knn_ue.data.columns import ColumnNames
    from knn_ue.pipeline.triage import Triage

_SUFFIXES = (".csv", ".jsonl", ".html")


@takes_columns("text", "premise", "hypothesis", "tokens", "answer", "confidence")
def triage(
    ue: Ue,
    inputs: Annotated[
        str, typer.Option("--input", metavar="F", help="Texts, or texts with answers; labels are ignored.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(metavar="F", help="The queue: .csv, .jsonl or .html (default: only the summary is printed)."),
    ] = None,
    target_precision: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Estimate what may be let through at this precision, in place of a fitted promise."
        ),
    ] = None,
    abstain_below: AbstainBelow = None,
    domain: Domain = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Say which answers need no person, and put the others into the order in which a person finds most errors.

    What is let through keeps the promise of [bold]knn-ue fit --target-precision[/bold]; without one it is estimated
    from the scores. Unfamiliar inputs always go to a person.

    Example: [bold]knn-ue triage ue --input new.jsonl --output queue.html[/bold]
    """
    from knn_ue.data import Columns, read_rows
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.triage import Scores
    from knn_ue.pipeline.triage import triage as divide

    _check(output, target_precision, abstain_below, overwrite=overwrite)
    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device).patient()
    rows, kept = tee(read_rows(inputs, pipe.task, labeled=False, columns=Columns(**columns), extras=True))
    answers = pipe.predict_stream(rows, abstain_below=abstain_below, top=0, domain=domain, suggest=True)
    scores = Scores()
    with TemporaryFile() as lines, progress_bars() as progress:
        starts = _write_lines(lines, zip(kept, answers, strict=True), scores, progress)
        found = divide(scores, pipe.fitted_, abstain_below=abstain_below, target_precision=target_precision)
        if output is not None:
            _write(output, found, _in_order(lines, starts, found), source=f"{ue}, {inputs}")
    if as_json:
        echo(json.dumps(found.to_dict() | ({"output": str(output)} if output else {}), ensure_ascii=False))
        return
    for sentence in found.sentences():
        echo(sentence)
    if output is not None:
        say(f"queue: {output}")


def _check(output: Path | None, target: float | None, least: float | None, *, overwrite: bool) -> None:
    if target is not None and not 0 < target < 1:
        raise InvalidInputError(f"--target-precision must lie strictly between 0 and 1, got {target}: try 0.95")
    if target is not None and least is not None:
        raise InvalidInputError("--target-precision and --abstain-below both say what is let through: pass one of them")
    if output is None:
        return
    if output.suffix.lower() not in _SUFFIXES:
        raise InvalidInputError(f"a queue is written as {', '.join(_SUFFIXES)}, got {output.name!r}: choose one")
    if output.is_dir() or not output.parent.is_dir():
        raise StorageError(f"{output} is no place for a file: choose a name in a folder that exists")
    if output.exists() and not overwrite:
        raise StorageError(f"{output} already exists: pass --overwrite or choose another file")


def _write_lines(lines: BinaryIO, answered: Iterator[Any], scores: Any, progress: Any) -> list[int]:
    """Write one line per row as they come, remember their scores, and return where each begins."""
    from knn_ue.pipeline.answers import answer_line

    starts = [0]
    for row, answer in answered:
        scores.add(answer)
        starts.append(starts[-1] + lines.write(answer_line(row, answer.to_dict())))
        progress("scored", len(starts) - 1, None)
    return starts


def _in_order(lines: BinaryIO, starts: list[int], found: "Triage") -> Iterator[dict[str, Any]]:
    """Yield the lines of the queue, those for a person first."""
    from knn_ue.pipeline.triage import line_of

    for place, row in enumerate(found.order.tolist(), start=1):
        lines.seek(starts[row])
        yield line_of(found, row, place, json.loads(lines.read(starts[row + 1] - starts[row])))


def _write(output: Path, found: "Triage", queue: Iterator[dict[str, Any]], *, source: str) -> None:
    """Write the queue beside its place, then move it there."""
    from knn_ue.cli.answer_formats import convert
    from knn_ue.folder import library_version, storage_errors
    from knn_ue.report.queue import MOST_SHOWN, queue_page

    drafts = f".{output.name}.{secrets.token_hex(4)}"
    lines, table = (output.with_name(f"{drafts}.{part}") for part in ("lines", "table"))
    suffix = output.suffix.lower()
    with storage_errors(f"{output} cannot be written", "choose another place"):
        try:
            with lines.open("x", encoding="utf-8") as draft:
                if suffix == ".html":
                    n_person = len(found.order) - found.n_through
                    shown, more = islice(queue, min(MOST_SHOWN, n_person)), max(0, n_person - MOST_SHOWN)
                    made = f"Made by knn-ue {library_version()} triage from {source}."
                    draft.write(queue_page("What to look at first", found.sentences(), shown, more=more, made=made))
                else:
                    draft.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in queue)
            if suffix == ".csv":
                with table.open("xb") as draft_of_table:
                    convert(lines, draft_of_table, suffix)
            (table if suffix == ".csv" else lines).replace(output)
        finally:
            for path in (lines, table):
                path.unlink(missing_ok=True)

"""`knn-ue predict`: a file of texts in, a file of calibrated answers out, of any size."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from knn_ue.cli.engine import Address, Engine, PartRows, Workers, predict_on_ray
from knn_ue.cli.options import (
    AbstainBelow,
    AsJson,
    Device,
    Domain,
    Overwrite,
    Top,
    TopK,
    Ue,
    one_of,
    takes_columns,
)
from knn_ue.cli.terminal import cut_note, loading, progress_bars, say
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue.answers import AnyAnswer
    from knn_ue.cli.answer_file import AnswerFile
    from knn_ue.data import Row
    from knn_ue.data.columns import ColumnNames
    from knn_ue.pipeline import UncertaintyPipeline

    Ask = Callable[[Iterator[Row]], Iterator[AnyAnswer]]

_FLUSH_SECONDS = 1.0


@takes_columns("text", "premise", "hypothesis", "tokens", "answer", "confidence")
def predict(
    ue: Ue,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="F",
            help="Texts to answer; labels are ignored. Repeatable with --engine ray.",
            rich_help_panel="Data",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            metavar="F",
            help="File for the answers: .jsonl, .csv or .parquet; a folder with --engine ray.",
            rich_help_panel="Data",
        ),
    ],
    abstain_below: AbstainBelow = None,
    top: Top = 5,
    domain: Domain = None,
    top_k: TopK = None,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Of given answers: name the label that is likelier, where there is one.",
            rich_help_panel="Answers",
        ),
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(
            metavar="stop|skip",
            callback=one_of(("stop", "skip")),
            help="What to do with a row that cannot be read.",
            rich_help_panel="Data",
        ),
    ] = "stop",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an unfinished run.", rich_help_panel="Data")
    ] = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    part_rows: PartRows = 10_000,
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Answer every row of a file with a label and a calibrated score; memory does not grow with the file.

    A row may name its own domain in a field or column "domain"; --domain is for the others.

    Other columns of the input, such as an id, are passed on. Until all rows are done the answers are in OUTPUT.part, as
    JSON lines; after an interruption --resume continues from there.

    Example: [bold]knn-ue predict ue --input new.jsonl --output answers.jsonl --abstain-below 0.8[/bold]
    """
    from knn_ue.cli.answer_file import AnswerFile
    from knn_ue.data import Columns, Skipped, read_rows
    from knn_ue.data.faults import stop
    from knn_ue.pipeline import UncertaintyPipeline

    named = Columns(**columns)
    if engine == "ray" and suggest:
        raise InvalidInputError(
            "--suggest is for one machine: leave it out with --engine ray, alternatives say the same"
        )
    if engine == "ray":
        predict_on_ray(
            ue,
            inputs,
            output,
            {"abstain_below": abstain_below, "top": top, "top_k": top_k, "domain": domain},
            columns=named,
            on_error=on_error,
            overwrite=overwrite,
            address=address,
            workers=workers,
            part_rows=part_rows,
            resume=resume,
            device=device,
            as_json=as_json,
        )
        return
    if len(inputs) != 1:
        raise InvalidInputError(
            f"one --input is answered at a time, got {len(inputs)}: use --engine ray for many files"
        )
    (input_rows,) = inputs
    began = time.monotonic()
    answers = AnswerFile(output)
    answers.check(resume=resume, overwrite=overwrite)
    if output.exists() and Path(input_rows).exists() and output.samefile(input_rows):
        raise InvalidInputError(f"{output} is the input itself: write the answers to another file")
    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device).patient()
    skipped = Skipped() if on_error == "skip" else None
    rows = read_rows(
        input_rows,
        pipe.task,
        labeled=False,
        columns=named,
        extras=True,
        on_error=skipped or stop,
    )
    ask = partial(
        pipe.predict_stream, abstain_below=abstain_below, top=top, top_k=top_k, domain=domain, suggest=suggest
    )
    n_cut = n_again = 0
    try:
        with answers.open(resume=resume) as file:
            if resume:
                rows, n_again = _continue(answers, file, rows, pipe, ask)
            n_resumed, n_cut = answers.n_lines, pipe.encoder.n_truncated  # the row asked twice counts once
            _write_all(answers, file, rows, ask, n_again=n_again)
    except BaseException:
        if answers.part.exists():
            say(f"knn-ue: the answers are kept in {answers.part}: continue with --resume")
        raise
    if as_json:
        done = {"output": str(output), "rows": answers.n_lines, "resumed": n_resumed, "abstained": answers.n_abstained}
        done |= {"skipped": skipped.n_rows} if skipped and skipped.n_rows else {}
        done |= {"truncated": pipe.encoder.n_truncated - n_cut, "seconds": round(time.monotonic() - began, 1)}
        typer.echo(json.dumps(done, ensure_ascii=False))
        return
    if skipped and skipped.n_rows:
        say(str(skipped))
    kept = f" ({n_resumed} from an earlier run)" if n_resumed else ""
    cut = cut_note(pipe.encoder, before=n_cut)
    seconds = time.monotonic() - began
    answered = f"{answers.n_lines} answer{'' if answers.n_lines == 1 else 's'}{kept}"
    abstained = f"{answers.n_abstained} abstention{'' if answers.n_abstained == 1 else 's'}"
    typer.echo(f"{output}: {answered}, {abstained}{cut}, {seconds:.1f} s")


def _continue(
    answers: "AnswerFile",
    file: BinaryIO,
    rows: "Iterator[Row]",
    pipe: "UncertaintyPipeline",
    ask: "Ask",
) -> "tuple[Iterator[Row], int]":
    """Return the rows to ask, and how many of them, at the front, have an answer that is kept.

    Those share a window with rows that have none. It is checked, if possible, that the last answer would be the same
    today.
    """
    from knn_ue.cli.answer_file import same_answer
    from knn_ue.pipeline.answers import passed_on

    begun = _LastWindow(pipe)
    last, rows = answers.keep_complete(file, begun.passed_on(rows))
    again = begun.rows_before(answers.n_lines)
    rows = chain(again, rows)
    if last is None:
        return rows, len(again)
    if getattr(pipe.encoder.options, "passes", 1) > 1:
        return rows, len(again)  # dropout is drawn for a batch: a row asked alone gets another answer
    row, before = last
    (answer,) = ask(iter([row]))
    if not same_answer(before, json.loads(json.dumps(passed_on(row, answer.to_dict())))):
        raise InvalidInputError(
            f"the last answer in {answers.part} is not what this folder says with these options: "
            "use those of the first run, or start again with --overwrite"
        )
    return rows, len(again)


class _LastWindow:
    """Remembers the rows of the window that a run was in: asked together again, all get the answers they would have
    had, to the last digit."""

    def __init__(self, pipe: "UncertaintyPipeline") -> None:
        from knn_ue.encoding.inputs import WindowCounter

        self._task, self._words_of = pipe.task, pipe.encoder.words_of
        self._counter = WindowCounter(batch_size=pipe.encoder.options.batch_size)
        self._rows: list[Row] = []
        self._start = 0  # the number of rows before this window
        self._is_whole = False

    def passed_on(self, rows: "Iterator[Row]") -> "Iterator[Row]":
        """Yield the rows."""
        from knn_ue.encoding.inputs import read_example

        for row in rows:
            if self._is_whole:
                self._start += len(self._rows)
                self._rows = []
            self._rows.append(row)
            self._is_whole = self._counter.ends_with(read_example(row, self._task, words_of=self._words_of))
            yield row

    def rows_before(self, n_rows: int) -> "list[Row]":
        """Return those of the first `n_rows` rows that are in the last window; none where that is complete."""
        n_inside = n_rows - self._start
        return [] if self._is_whole and n_inside == len(self._rows) else self._rows[:n_inside]


def _write_all(
    answers: "AnswerFile",
    file: BinaryIO,
    rows: "Iterator[Row]",
    ask: "Ask",
    *,
    n_again: int,
) -> None:
    """Write the answers to all rows but the first `n_again`, which are asked with the others."""
    asked, kept = tee(rows)  # holds what the pipeline has read ahead, a bounded number of rows
    flushed = time.monotonic()
    with progress_bars() as progress:
        answered = zip(kept, ask(asked), strict=True)
        for row, answer in islice(answered, n_again, None):
            answers.write(file, row, answer.to_dict())
            if time.monotonic() - flushed > _FLUSH_SECONDS:
                file.flush()
                flushed = time.monotonic()
                progress("answered", answers.n_lines, None)

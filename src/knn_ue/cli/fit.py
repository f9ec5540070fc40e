"""`knn-ue fit`: a fine-tuned model and its data in, a UE folder out."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knn_ue.cli.display import cut_note, progress_bars, say
from knn_ue.cli.options import AsJson, Device, Method, Overwrite, TaskName, TrainRows
from knn_ue.cli.places import check_ue_folder
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue.data import Task
    from knn_ue.types import Outputs


def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder or a name on the hub.")],
    train_rows: TrainRows,
    validation: Annotated[str, typer.Option(metavar="F", help="Labelled texts the model did not learn from.")],
    out: Annotated[Path, typer.Option(metavar="UE", help="The folder to write.")],
    method: Method = "knn-ue",
    index: Annotated[str, typer.Option(metavar="I", help="auto, exact, or a faiss factory string.")] = "auto",
    store: Annotated[
        str | None,
        typer.Option(metavar="S", help="Address of a store elsewhere, SCHEME://... (default: in the UE folder)."),
    ] = None,
    neighbors: Annotated[int, typer.Option(min=1, metavar="K", help="How many neighbors to look at.")] = 32,
    max_stored: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Store at most N examples (words), of every class as many; all."),
    ] = None,
    target_risk: Annotated[
        float | None, typer.Option(metavar="R", help="Choose the threshold that keeps errors below R, such as 0.05.")
    ] = None,
    delta: Annotated[float, typer.Option(help="How likely that promise may fail.")] = 0.1,
    task: Annotated[TaskName | None, typer.Option(help="Needed if knn-ue did not train the model.")] = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Store the training texts, fit the method on the validation texts, write a UE folder.

    The promise of --target-risk holds for texts of the same domain, and if the validation rows did not choose the
    model: those that [bold]knn-ue train[/bold] left aside did not.

    Example: [bold]knn-ue fit model --train train.csv --validation dev.csv --out ue --target-risk 0.05[/bold]
    """
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.stores import TunableStore

    check_ue_folder(out, overwrite=overwrite)
    pipe = UncertaintyPipeline.from_pretrained(model, task.task if task else _task_of(model), device=device)
    with progress_bars() as progress, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no threshold is known")  # said below
        pipe.fit(
            train_rows,
            validation,
            method=method,
            index=index,
            store=store,
            n_neighbors=neighbors,
            max_stored=max_stored,
            target_risk=target_risk,
            delta=delta,
            progress=progress,
        )
    pipe.save(out)
    tuned = [found for found in pipe.calibrator_.stores.values() if isinstance(found, TunableStore)]
    threshold = pipe.threshold_
    if threshold is not None:
        _doubt_promise(model, pipe.validation_)
    if as_json:
        done: dict[str, Any] = {"ue": str(out), "method": method, "task": pipe.task, "labels": list(pipe.class_names)}
        done |= {"n_validation": len(pipe.validation_), "truncated": pipe.encoder.n_truncated}
        done["threshold"] = None if threshold is None else asdict(threshold)
        done["index"] = next((asdict(found.options) for found in tuned), None)
        typer.echo(json.dumps(done, ensure_ascii=False))
        return
    cut = cut_note(pipe.encoder)
    n_fitted = int((~pipe.fitted_.held_out).sum())  # with --target-risk the others choose the threshold
    typer.echo(f"{out}: {method} for {pipe.task}, fitted on {n_fitted} validation rows{cut}")
    indexes = {str(found.options) for found in tuned}
    if index == "auto" and indexes:
        say(f"neighbors are found by {', '.join(indexes)} (knn-ue index tune shows what else was tried)")
    if threshold is not None:
        typer.echo(f"{threshold}{'' if threshold.found else '; every answer will be an abstention'}")
    say(f"next: knn-ue evaluate {out} --test F, or knn-ue predict {out} --input F --output answers.jsonl")


def _doubt_promise(model: str, validation: "Outputs") -> None:
    """Say so where the model was stopped by more rows than the half that fits, as with train --all-validation."""
    from knn_ue.training.folder import read_record

    record = read_record(model)
    n_watched = 0 if record is None else record.get("result", {}).get("n_validation", 0)
    n_rows = len(validation) if validation.groups is None else len(set(validation.groups.tolist()))
    if n_watched > n_rows // 2:
        say(
            f"{n_watched} rows decided when to stop the training of {model}, more than half of these {n_rows}: "
            "the promise of --target-risk may not hold, unless these are other rows"
        )


def _task_of(model: str) -> "Task":
    """Return what the model was trained for, as its folder records it, or as its architecture tells."""
    from knn_ue.arrays import check_choice
    from knn_ue.encoding.inputs import TASKS
    from knn_ue.training.folder import read_record

    record = read_record(model)
    if record is not None:
        task: Task = record["task"]
        check_choice(task, f"the task in {model}", TASKS)
        return task
    config = Path(model) / "config.json"
    try:
        architectures = json.loads(config.read_text(encoding="utf-8")).get("architectures") or [""]
    except (OSError, ValueError):
        architectures = [""]
    if str(architectures[0]).endswith("ForTokenClassification"):
        return "token-classification"
    raise InvalidInputError(f"{model} does not say what it was trained for: add --task text, --task pair or --task ner")

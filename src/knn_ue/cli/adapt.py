"""`knn-ue adapt` and `knn-ue sample`: recalibrate with a few labels of a new domain, and choose which rows to label."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.options import AsJson, Device, Overwrite, Ue, takes_columns
from knn_ue.cli.terminal import echo, loading, say
from knn_ue.errors import InvalidInputError, StorageError

if TYPE_CHECKING:
    from knn_ue.data.columns import ColumnNames


@takes_columns("text", "label", "premise", "hypothesis", "tokens", "tags", "answer", "confidence")
def adapt(
    ue: Ue,
    labeled: Annotated[
        str | None,
        typer.Option(metavar="F", help="Labeled texts of the domain, drawn at random (knn-ue sample draws them)."),
    ] = None,
    domain: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the domain; 'default' is used for inputs that name none.")
    ] = "default",
    add: Annotated[bool, typer.Option("--add", help="Add to the labels that the domain already has.")] = False,
    not_random: Annotated[
        bool,
        typer.Option("--not-random", help="The rows are not a random sample (corrections, for example): only measure."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Apply the scale even if the checks advise against it.")
    ] = False,
    verifier: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With 50 labels and more: a small reader that learns from them, such as instant.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the domain and its labels.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Recalibrate the scores for a new domain with a few labeled texts of it; predictions do not change.

    Use about 50 labels, at least 10. Before and after are cross-validated. Where there are too few rows or no
    significant gain, no scale is applied and the note gives the reason.

    Example: [bold]knn-ue adapt ue --labeled labeled.jsonl --domain tweets[/bold], then
    [bold]knn-ue predict ue --domain tweets ...[/bold]
    """
    from knn_ue.data.columns import Columns
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.domains import adapt_fitted, check_domain_name, forget_domain
    from knn_ue.pipeline.folder import OpenedFolder
    from knn_ue.pipeline.rows import labeled_examples
    from knn_ue.pipeline.sampling import weights_of

    if undo:
        if labeled is not None:
            raise InvalidInputError("--undo removes a domain and takes no labels: leave out --labeled")
        OpenedFolder.open(ue).edit(lambda now: (forget_domain(now, domain), None))
        echo(json.dumps({"ue": str(ue), "forgot": domain}) if as_json else f"{ue}: removed the domain {domain}")
        return
    if labeled is None:
        raise InvalidInputError("adapt needs labeled texts: pass --labeled F, or --undo to remove a domain")
    check_domain_name(domain)
    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device)
    examples = labeled_examples(labeled, pipe.task, pipe.class_names, name="labeled", columns=Columns(**columns))
    outputs = pipe.encoder.encode(examples)
    adaptation = pipe.opened.edit(
        lambda now: adapt_fitted(
            now,
            outputs,
            domain=domain,
            sample_weight=weights_of(examples),
            random_sample=not not_random,
            add=add,
            force=force,
            verifier=verifier,
        ),
    )
    if as_json:
        done = {"ue": str(ue), "domain": domain, "applied": adaptation.applied}
        echo(json.dumps(done | adaptation.to_plain(), ensure_ascii=False))
        return
    echo(f"{ue}: domain {domain}")
    echo(str(adaptation))
    if adaptation.applied:
        say(f"next: knn-ue predict {ue} --input F --output G" + ("" if domain == "default" else f" --domain {domain}"))
        say(f"undo: knn-ue adapt {ue} --domain {domain} --undo")


@takes_columns("text", "premise", "hypothesis", "tokens", "answer", "confidence")
def sample(
    ue: Ue,
    pool: Annotated[str, typer.Option("--input", metavar="POOL", help="Texts of the domain; labels are ignored.")],
    output: Annotated[Path, typer.Option(metavar="F", help="The file to write.")],
    n: Annotated[int, typer.Option(min=1, metavar="N", help="Number of rows to label.")] = 50,
    strategy: Annotated[
        str, typer.Option(metavar="S", help="random, or stratified (by score, with weights that correct for it).")
    ] = "random",
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="jsonl or label-studio.")] = "jsonl",
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the draw.")] = 0,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Choose which texts of a domain to label for [bold]knn-ue adapt[/bold]; the labels are left empty.

    The model's answers are not shown, because they would bias the people who label.

    Example: [bold]knn-ue sample ue --input tweets.txt --n 50 --output to_label.jsonl[/bold]
    """
    from knn_ue.arrays import check_choice
    from knn_ue.folder import storage_errors
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.sampling import label_studio_config, label_studio_tasks

    check_choice(strategy, "strategy", ("random", "stratified"))
    check_choice(form, "format", ("jsonl", "label-studio"))
    if output.exists() and not overwrite:
        raise StorageError(f"{output} already exists: pass --overwrite or choose another file")
    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device)
    rows = pipe.sample(pool, n, strategy=strategy, seed=seed, **columns)  # type: ignore[arg-type]
    if form == "jsonl":
        content = "".join(json.dumps(row.to_dict(pipe.task), ensure_ascii=False) + "\n" for row in rows)
    else:
        content = label_studio_tasks(rows, pipe.task)
    with storage_errors(f"{output} cannot be written", "choose another place"):
        output.write_text(content, encoding="utf-8")
    if as_json:
        echo(json.dumps({"output": str(output), "rows": len(rows), "strategy": strategy}))
        return
    fewer = "" if len(rows) == n else ", all different rows of the pool"
    echo(f"{output}: {len(rows)} rows to label{fewer}")
    if form == "label-studio":
        echo(label_studio_config(pipe.task, pipe.encoder.labels))
    else:
        say(f"fill in each label ({', '.join(pipe.encoder.labels)}), then: knn-ue adapt {ue} --labeled {output}")

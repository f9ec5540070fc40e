"""The app: its commands, and what every command does alike when something goes wrong."""

import errno
import warnings
from typing import Annotated, Any

import typer

from knn_ue.cli.adapt import adapt, sample
from knn_ue.cli.backup import backup
from knn_ue.cli.demo import demo
from knn_ue.cli.evaluate import evaluate
from knn_ue.cli.explain import explain
from knn_ue.cli.fit import fit
from knn_ue.cli.index import index_app
from knn_ue.cli.index_move import move
from knn_ue.cli.plugins import help_of, plugin_commands
from knn_ue.cli.predict import predict
from knn_ue.cli.serve import serve
from knn_ue.cli.spacy import spacy_app
from knn_ue.cli.terminal import PlainCommand, PlainGroup, echo, exit_code, stops_raise
from knn_ue.cli.train import train
from knn_ue.cli.triage import triage
from knn_ue.cli.watch import watch
from knn_ue.errors import KnnUeError


class _OneSentence(PlainGroup):
    """Runs a command; what the library raises on purpose, or the disk says, needs no traceback."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # Other packages are asked only for what is not ours: one that adds a command may import this one.
        return super().get_command(ctx, cmd_name) or plugin_commands().get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        ours = super().list_commands(ctx)
        return [*ours, *(name for name in plugin_commands() if name not in ours)]

    def invoke(self, ctx: Any) -> Any:
        try:
            with stops_raise(), warnings.catch_warnings():
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                return super().invoke(ctx)
        except KnnUeError as error:
            echo(f"knn-ue: {error.shell}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt as stop:
            echo("knn-ue: interrupted", err=True)
            raise typer.Exit(exit_code(stop)) from None
        except OSError as error:
            if error.errno is None or error.errno == errno.EPIPE:  # a closed pipe is typer's to handle
                raise
            place = f" ({error.filename})" if error.filename else ""
            echo(f"knn-ue: {error.strerror}{place}", err=True)
            raise typer.Exit(1) from None


def _show_warning(message: Warning | str, *_where: object) -> None:
    """Print a warning as a sentence: where in the code it was raised is of no use to people at a command line."""
    echo(f"warning: {message}", err=True)


app = typer.Typer(
    name="knn-ue",
    cls=_OneSentence,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from knn_ue.folder import library_version

        echo(f"knn-ue {library_version()}")
        raise typer.Exit


def main(
    context: typer.Context,
    max_row_mib: Annotated[
        float,
        typer.Option(metavar="N", help="Maximum size of a row in a data file, in MiB."),
    ] = 4,
    max_words: Annotated[
        int, typer.Option(metavar="N", help="Maximum number of words per sentence in a data file.")
    ] = 100_000,
    pipe_seconds: Annotated[
        float, typer.Option(metavar="S", help="Maximum wait for the first byte of a pipe, in seconds.")
    ] = 60,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Calibrated confidence for text classifiers and taggers, with the training examples behind it.

    Start with [bold]knn-ue demo --out my-demo[/bold], or with your own files: train, fit, predict,
    evaluate, explain, serve; sample and adapt for a new domain.

    Data (F) is JSON lines, CSV/TSV or CoNLL columns, each also .gz, or a source: vader:movies, hub:owner/name:split.

    Exit codes: 0 success, 1 a problem with data or disk (one sentence on stderr), 2 usage, 3 a promise is
    broken (watch), 130 Ctrl-C, 143 SIGTERM.
    """
    from knn_ue.data.lines import Limits, use_limits

    limits = Limits(row_bytes=int(max_row_mib * (1 << 20)), sentence_words=max_words, pipe_seconds=pipe_seconds)
    context.with_resource(use_limits(limits))


app.callback(help=help_of(main))(main)
_PANELS = {
    "Start": (demo, train, fit),
    "Use": (predict, triage, explain, serve, evaluate, watch, backup),
    "A new domain": (sample, adapt),
}
for panel, commands in _PANELS.items():
    for command in commands:
        app.command(help=help_of(command), rich_help_panel=panel, cls=PlainCommand)(command)
index_app.command()(move)
for name, group in (("index", index_app), ("spacy", spacy_app)):
    for registered in group.registered_commands:
        if registered.callback is not None:
            registered.help, registered.cls = help_of(registered.callback), PlainCommand
    app.add_typer(group, name=name, rich_help_panel="More", cls=PlainGroup)

"""The command line as a whole: help, errors and how it ends. The commands have files of their own."""

import errno
import os
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from typer.main import get_command

from cli_files import run, start
from knn_ue import demo as demo_module
from knn_ue.cli import app
from knn_ue.cli.terminal import announce
from knn_ue.demo import Demo
from knn_ue.errors import StorageError
from knn_ue.evaluation import Evaluation, EvaluationOptions, Table
from knn_ue.methods import METHODS, recommended_method

SCORES = {"ece": 0.125, "nll": 0.5, "e_aurc": 0.01}
COMMANDS = ["train", "fit", "predict", "evaluate", "explain", "demo"]


@pytest.fixture
def folders(monkeypatch):
    """The folders that a toy demo was asked to write to; nothing is written."""
    seen = []

    def run_demo(out):
        seen.append(out)
        methods = ("raw", "knn-ue-no-label")
        tables = {
            name: Table(caption=name, n=7, scores={method: SCORES | {"fpr95": 0.25} for method in methods})
            for name in ("test", "out_of_domain", "out_of_domain/detection")
        }
        evaluation = Evaluation(n=7, n_classes=2, options=EvaluationOptions(), tables=tables)
        return Demo(report=Path(out) / "report.md", evaluation=evaluation, pictures=(Path(out) / "a.png",))

    monkeypatch.setattr(demo_module, "run_demo", run_demo)
    return seen


def fail_with(monkeypatch, error):
    def run_demo(out):
        raise error

    monkeypatch.setattr(demo_module, "run_demo", run_demo)


def test_version_is_that_of_the_package():
    assert run("--version").stdout == f"knn-ue {version('knn-ue')}\n"


def test_the_toy_demo_writes_where_it_is_told(folders):
    run("demo", "--toy", "--out", "some/where")

    assert folders == [Path("some/where")]


def test_the_toy_demo_has_a_folder_of_its_own_by_default(folders):
    run("demo", "--toy")

    assert folders == [Path("knn-ue-demo")]


def test_the_toy_demo_prints_a_line_for_each_method(folders):
    lines = [line.split() for line in run("demo", "--toy").stdout.splitlines()]

    assert ["knn-ue-no-label", "12.50", "0.5000", "10.00", "12.50", "25.00"] in lines


def test_the_toy_demo_says_where_report_and_pictures_are_even_if_the_path_is_long(folders):
    folder = "a-long-name/" * 20

    shown = run("demo", "--toy", "--out", folder).stdout

    assert f"report: {folder}report.md\npicture: {folder}a.png\n" in shown


def test_the_help_names_every_command():
    shown = run("--help").stdout

    assert [name for name in [*COMMANDS, "index"] if name not in shown] == []


def commands_in(group, *path):
    """Yield the words of every command, those inside of groups as well."""
    for name, command in group.commands.items():
        yield from commands_in(command, *path, name) if hasattr(command, "commands") else [[*path, name]]


@pytest.mark.parametrize("command", list(commands_in(get_command(app))), ids=" ".join)
def test_the_help_of_each_command_shows_an_example(command):
    assert f"Example: knn-ue {' '.join(command)} " in run(*command, "--help").stdout


def test_an_argument_that_may_be_repeated_has_three_dots():
    assert "UE TEXT... " in run("explain", "--help").stdout


def test_a_paragraph_of_the_help_is_not_torn_where_the_source_ends_its_line():
    lines = [line.strip() for line in run("train", "--help").stdout.splitlines()]
    (paragraph,) = [line for line in lines if line.startswith("One half of the validation rows")]

    assert "so that knn-ue fit --target-risk may choose" in paragraph


@pytest.mark.parametrize(
    "command", [["--help"], ["predict", "--help"], ["index", "info", "--help"], ["spacy", "fit", "-h"]]
)
def test_the_help_shows_flags_without_a_type_and_arguments_without_braces(command):
    shown = run(*command).stdout

    assert "<bool>" not in shown
    assert "{UE}" not in shown and "{PIPELINE}" not in shown


def test_the_help_of_spacy_fit_shows_the_form_of_its_rows_in_full():
    assert '"entities": [[start, end, type]]' in " ".join(run("spacy", "fit", "--help").stdout.split())


def test_without_a_command_the_help_is_shown():
    assert "demo" in run().output


def test_an_error_of_the_library_is_one_sentence_and_exit_code_1(monkeypatch):
    fail_with(monkeypatch, StorageError("the disk is full: make room"))

    result = run("demo", "--toy")

    assert (result.exit_code, result.stderr) == (1, "knn-ue: the disk is full: make room\n")


def test_an_error_of_the_disk_is_one_sentence_and_exit_code_1(monkeypatch):
    fail_with(monkeypatch, OSError(errno.ENOSPC, "No space left on device", "a/file"))

    result = run("demo", "--toy")

    assert (result.exit_code, result.stderr) == (1, "knn-ue: No space left on device (a/file)\n")


def test_an_error_that_is_a_bug_is_not_hidden(monkeypatch):
    fail_with(monkeypatch, ZeroDivisionError())

    assert isinstance(run("demo", "--toy").exception, ZeroDivisionError)


def test_an_interrupt_ends_with_exit_code_130(monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())

    result = run("demo", "--toy")

    assert (result.exit_code, result.stderr) == (130, "knn-ue: interrupted\n")


TRAIN_FILES = ["--encoder", "e", "--train", "a", "--validation", "b", "--out", "c"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["dance"],
        ["demo", "--toy", "--quick"],
        ["fit", "model", "--train", "a", "--validation", "b", "--out", "c", "--method", "magic"],
        ["train", "--task", "poetry", *TRAIN_FILES],
        ["predict", "ue", "--input", "a.jsonl", "--output", "b.jsonl", "--abstain-below", "1.5"],
        ["index", "remove", "ue", "--ids", "one"],
        ["index", "remove", "ue", "--ids", "5-2"],
        ["index", "remove", "ue", "--ids", "1-99999999999"],
        ["index", "remove", "ue", "--ids", "9" * 30],
        ["index", "tune", "ue", "--tolerance", "-1"],
        ["index", "tune", "ue", "--max-mb", "nan"],
        ["index", "tune", "ue", "--max-mb", "inf"],
        ["index", "tune", "ue", "--max-mb", "0"],
        ["index", "tune", "ue", "--picture", "frontier.xyz"],
        ["index", "tune", "ue", "--picture", "no/such/folder/frontier.png"],
        ["train", "--task", "text", *TRAIN_FILES, "--set", "bound"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_exit_code_2(arguments):
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    "command", [["predict", "--input", "a.jsonl", "--output", "b.jsonl"], ["explain", "a text"], ["index", "info"]]
)
def test_a_folder_that_is_not_there_is_named(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = 2 if command[0] == "index" else 1

    result = run(*command[:place], "nowhere", *command[place:])

    assert result.exit_code == 1
    assert result.stderr == "knn-ue: the folder nowhere does not exist: check the path\n"


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_real_process_without_a_traceback(tmp_path, sent, code):
    process = start("demo", "--toy", "--out", tmp_path / "out")
    marker = tmp_path / "out" / ".knn-ue-demo"  # written as the work begins
    while process.poll() is None and not marker.exists():
        time.sleep(0.01)

    os.kill(process.pid, sent)
    _, shown = process.communicate(timeout=300)

    assert (process.returncode, shown) == (code, "knn-ue: interrupted\n")


def test_a_command_leaves_the_signals_of_its_process_as_they_were(tmp_path):
    before = signal.getsignal(signal.SIGTERM)

    assert run("index", "info", tmp_path).exit_code == 1

    assert signal.getsignal(signal.SIGTERM) is before


def test_the_help_names_every_method():
    shown = " ".join(run("fit", "--help").stdout.split())

    assert all(name in shown for name in METHODS)


def test_a_misspelled_command_or_method_is_recognized():
    command = run("explian", "ue", "a text")
    method = run("fit", "model", "--train", "a", "--validation", "b", "--out", "c", "--method", "knn-eu")

    assert (command.exit_code, method.exit_code) == (2, 2)
    assert "Did you mean 'explain'?" in " ".join(command.stderr.split())
    assert "did you mean 'knn-ue'?" in " ".join(method.stderr.replace("│", "").split())


def test_explaining_a_model_folder_says_to_fit_first(tmp_path):
    (tmp_path / "config.json").write_text("{}")

    result = run("explain", tmp_path, "a text")

    assert result.exit_code == 1
    assert f"is a model folder, not a UE folder: run knn-ue fit {tmp_path} " in result.stderr


def test_shell_completion_is_offered():
    assert "--install-completion" in run("--help").stdout


@pytest.mark.parametrize(
    ("task", "method", "better"),
    [
        ("token-classification", "knn-ue", "knn-ue-entity"),
        ("text-classification", "knn-ue", "knn-ue"),
        ("token-classification", "temperature", "temperature"),
    ],
)
def test_hints_recommend_the_method_for_the_task(task, method, better):
    assert recommended_method(method, task) == better


@pytest.mark.parametrize("terminal", ["stderr", "stdout"])
def test_an_announcement_stands_by_itself_in_whichever_stream_is_a_terminal(monkeypatch, capsys, terminal):
    monkeypatch.setattr(getattr(sys, terminal), "isatty", lambda: True)

    announce("Open http://127.0.0.1:8000 (Ctrl-C to stop)")

    shown = capsys.readouterr()._asdict()
    assert "  Open http://127.0.0.1:8000 (Ctrl-C to stop)\n" in click.unstyle(shown.pop(terminal.removeprefix("std")))
    assert list(shown.values()) == [""]


def test_a_log_has_no_announcement_among_its_lines(capsys):
    announce("Open http://127.0.0.1:8000 (Ctrl-C to stop)")

    assert capsys.readouterr() == ("", "")

"""Commands that other packages add to `knn-ue`, and those that are missing."""

from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from knn_ue.cli import app, plugins


def greet(name: str) -> None:
    """Say hello to NAME."""
    plugins.typer.echo(f"hello {name}")


@pytest.fixture
def installed(monkeypatch):
    """Return a function that says which entry points are installed."""

    def only(*entries):
        found = [EntryPoint(name=name, value=value, group=plugins.GROUP) for name, value in entries]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == plugins.GROUP else [])

    return only


def invoke(*arguments):
    return CliRunner().invoke(app, arguments)


def test_a_command_of_another_package_runs_and_is_listed(installed, monkeypatch):
    monkeypatch.setattr(plugins, "greet", greet, raising=False)
    installed(("greet", "knn_ue.cli.plugins:greet"))

    assert invoke("greet", "Ada").output == "hello Ada\n"
    assert "Say hello to NAME." in invoke("--help").output


@pytest.mark.parametrize("arguments", [[], ["all", "--data", "folder", "--seeds", "3"], ["list"]])
def test_reproduce_says_in_one_sentence_how_to_install_it_where_it_is_missing(installed, arguments):
    installed()

    shown = invoke("reproduce", *arguments)

    assert shown.exit_code == 1
    assert shown.output.splitlines() == [
        "knn-ue: knn-ue reproduce needs the package knn-ue-lab. "
        "Install it from a clone of the repository with: pip install ./lab"
    ]


@pytest.mark.parametrize("value", ["no_such_package:run", "knn_ue.errors:no_such_name"])
def test_a_package_that_cannot_be_loaded_costs_its_own_command_only(installed, value):
    installed(("broken", value))

    shown = invoke("broken", "--anything")

    assert shown.exit_code == 1
    assert shown.output.startswith(f"knn-ue: knn-ue broken cannot be loaded from {value}: ")
    assert invoke("--version").exit_code == 0


def test_no_package_replaces_a_command_of_the_library(installed):
    installed(("fit", "no_such_package:run"))

    assert "cannot be loaded" not in invoke("fit", "--help").output

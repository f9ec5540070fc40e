"""Old names still work, and the warning is enough to replace them."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from knn_ue.deprecated import REMOVED_IN, RENAMED
from knn_ue.stores import Datastore

CHANGES = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
MODULES = {"knn_ue.datastore": "Datastore", "knn_ue.selective": "choose_threshold"}  # each with a name it had
METHODS = ["knn_ue.stores.Datastore.detached"]
NAMES = sorted(RENAMED.keys() - MODULES.keys() - set(METHODS))


def warning_of(old):
    return f"^{old} is now {RENAMED[old]}: use that, the old name is removed in {REMOVED_IN}$".replace(".", r"\.")


def found_at(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def test_every_row_of_the_table_is_tested_here():
    assert {*MODULES, *METHODS, *NAMES} == RENAMED.keys()


@pytest.mark.parametrize("old", NAMES)
def test_an_old_name_is_the_new_one_with_a_warning(old):
    with pytest.warns(DeprecationWarning, match=warning_of(old)) as warned:
        found = found_at(old)

    assert found is found_at(RENAMED[old])
    assert warned[0].filename == __file__


@pytest.mark.parametrize(("old", "name"), MODULES.items())
def test_what_an_old_module_had_is_found_in_the_new_one_with_a_warning(old, name):
    with pytest.warns(DeprecationWarning, match=warning_of(old)):
        found = found_at(f"{old}.{name}")

    assert found is found_at(f"{RENAMED[old]}.{name}")


def test_detached_is_snapshot_with_a_warning():
    store = Datastore.build(np.eye(3), np.arange(3))

    with pytest.warns(DeprecationWarning, match=warning_of("knn_ue.stores.Datastore.detached")):
        copy = store.detached()
    store.remove([0])

    assert (len(copy), len(store)) == (3, 2)


@pytest.mark.parametrize(
    "line",
    [
        "from knn_ue.datastore import Datastore",
        "from knn_ue import datastore; datastore.Datastore",
        "import knn_ue.datastore as old; old.Datastore",
        "from knn_ue.report import evaluate",
    ],
)
def test_each_way_to_import_an_old_name_warns_once_and_names_the_line(line):
    shown = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stderr

    assert shown.count("DeprecationWarning") == 1 and shown.startswith("<string>:1: ")


@pytest.mark.parametrize("module", ["knn_ue", "knn_ue.report", *MODULES])
def test_a_name_that_never_was_is_still_an_error(module):
    with pytest.raises(AttributeError, match="no attribute '__never__'"):
        import_module(module).__never__  # noqa: B018


@pytest.mark.parametrize("old", [*MODULES, "knn_ue.report.evaluate", "Datastore.detached"])
def test_the_changelog_says_until_when_an_old_name_works(old):
    (line,) = [
        line for line in CHANGES.splitlines() if f"`{old.removeprefix('knn_ue.report.')}" in line and "now" in line
    ]

    assert f"until {REMOVED_IN}" in line

"""`make torture`, a few seconds of each attack, so that it cannot rot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torture.attacks import ATTACKS
from torture.ledger import Ledger
from torture.tally import Tally, table

TESTS = Path(__file__).parents[1]


def torture(*arguments):
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "torture", "--workers", "1", *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_every_attack_finds_nothing_in_a_few_seconds(tmp_path):
    done = torture("--minutes", 0.05, "--seed", 0, "--folder", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert all(attack.title in done.stdout for attack in ATTACKS.values())
    assert "| 0 | 0 | 0 | 0 |" not in done.stdout  # every attack tried something
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_was_acknowledged_and_is_gone_is_lost(tmp_path):
    ledger, tally = Ledger(tmp_path / "ledger"), Tally("attack")
    ledger.added([1, 2, 3], ["one", "two", "three"])
    ledger.removing([3])

    ledger.check({1: "one", 2: "another"}, tally, "here")

    assert (tally.lost, tally.wrong, tally.crashed) == (1, 0, 0)


def test_a_row_that_was_removed_and_is_back_is_wrong(tmp_path):
    ledger, tally = Ledger(tmp_path / "ledger"), Tally("attack")
    ledger.added([1], ["one"])
    ledger.removing([1])
    ledger.removed([1])

    ledger.check({1: "one"}, tally, "here")

    assert (tally.lost, tally.wrong) == (0, 1)


def test_an_id_that_is_given_twice_is_wrong(tmp_path):
    ledger, tally = Ledger(tmp_path / "ledger"), Tally("attack")
    ledger.added([1, 1], ["one", "two"])

    ledger.check({1: "two"}, tally, "here")

    assert tally.wrong == 1


def test_the_table_has_a_row_per_attack():
    tally = Tally("an attack", tried=1200, seconds=3.2)

    assert table([tally]).splitlines()[-1] == "| an attack | 1,200 | 0 | 0 | 0 | 3 |"
    assert not Tally("an attack", wrong=1).is_clean

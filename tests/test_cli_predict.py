"""`predict` loses no answer: not to Ctrl-C, a kill, a bad line or a full disk, and overwrites nothing unasked."""

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest

from cli_files import data_of, read_lines, run, write_rows
from knn_ue.cli.answer_file import AnswerFile, same_answer
from knn_ue.data import TextRow
from knn_ue.errors import InvalidInputError, StorageError
from tiny_models import text_rows, tiny_model
from torture.processes import start_command, wait

pytest.importorskip("torch")
pytest.importorskip("transformers")

__all__ = ["tiny_model"]

N_ROWS = 2500  # more than two windows of the pipeline


@pytest.fixture(scope="module")
def ue(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ue")
    train, validation, _ = data_of("text", folder)
    options = ["--task", "text", "--neighbors", 8, "--out", folder / "ue"]
    model = tiny_model("bert", "text-classification")
    result = run("fit", model, "--train", train, "--validation", validation, *options)
    assert result.exit_code == 0, result.output
    return folder / "ue"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return write_rows(tmp_path_factory.mktemp("input") / "input.jsonl", text_rows(N_ROWS))


@pytest.fixture(scope="module")
def expected(ue, source, tmp_path_factory) -> list[object]:
    output = tmp_path_factory.mktemp("expected") / "answers.jsonl"
    assert run("predict", ue, "--input", source, "--output", output).exit_code == 0
    return read_lines(output)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_interrupted_run_is_continued_to_the_same_answers(
    ue, source, expected, tmp_path, tmp_path_factory, sent, code
):
    output = tmp_path / "answers.jsonl"
    part = tmp_path / "answers.jsonl.part"
    log = tmp_path_factory.mktemp("log") / "log"
    process = start_command(log, "predict", ue, "--input", source, "--output", output)
    while process.is_alive() and not (part.exists() and part.stat().st_size):
        time.sleep(0.005)

    os.kill(process.pid, sent)

    assert (wait(process, 60), output.exists(), "Traceback" in log.read_text()) == (code, False, False)
    resumed = run("predict", ue, "--input", source, "--output", output, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert same_answer(read_lines(output), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl"]


def test_half_a_line_is_answered_again(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(6))
    output, part = tmp_path / "answers.jsonl", tmp_path / "answers.jsonl.part"
    run("predict", ue, "--input", source, "--output", output)
    whole = output.read_bytes()
    lines = whole.splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    output.unlink()

    result = run("predict", ue, "--input", source, "--output", output, "--resume", "--json")

    assert json.loads(result.stdout)["resumed"] == 3
    assert same_answer(read_lines(output), [json.loads(line) for line in lines])


@pytest.mark.slow
def test_a_resumed_run_writes_the_bytes_of_an_undisturbed_one(ue, tmp_path):
    rows = [{"text": row["text"] + " indeed" * (7 * number % 20)} for number, row in enumerate(text_rows(1100))]
    source = write_rows(tmp_path / "input.jsonl", rows)
    output, part = tmp_path / "answers.jsonl", tmp_path / "answers.jsonl.part"
    run("predict", ue, "--input", source, "--output", output)
    lines = output.read_bytes().splitlines(keepends=True)

    for n_kept, torn in ((3, 20), (33, 0), (700, 0), (1023, 5), (1024, 0), (1030, 1)):
        output.unlink()
        part.write_bytes(b"".join(lines[:n_kept]) + lines[n_kept][:torn])
        result = run("predict", ue, "--input", source, "--output", output, "--resume", "--json")

        assert json.loads(result.stdout)["resumed"] == n_kept
        assert output.read_bytes() == b"".join(lines)


def test_a_finished_output_is_not_overwritten_unless_told(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(2))
    output = tmp_path / "answers.jsonl"
    output.write_text("years of work")

    refused = run("predict", ue, "--input", source, "--output", output)
    kept = output.read_text()
    allowed = run("predict", ue, "--input", source, "--output", output, "--overwrite")

    assert (refused.exit_code, kept, allowed.exit_code, len(read_lines(output))) == (1, "years of work", 0, 2)


def test_an_unfinished_run_is_not_thrown_away_unless_told(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(2))
    (tmp_path / "answers.jsonl.part").write_text("{}\n")

    result = run("predict", ue, "--input", source, "--output", tmp_path / "answers.jsonl")

    assert result.exit_code == 1
    assert "holds the answers of an unfinished run: continue with --resume, or pass --overwrite" in result.stderr


def test_answers_to_another_input_are_not_continued(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(4))
    write_rows(tmp_path / "answers.jsonl.part", [{"text": "something else", "label": "pos"}])

    result = run("predict", ue, "--input", source, "--output", tmp_path / "answers.jsonl", "--resume")

    assert result.exit_code == 1
    assert "line 1 of " in result.stderr
    assert "is not about row 1 of the input" in result.stderr


def test_answers_with_other_options_are_not_continued(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(4))
    output, part = tmp_path / "answers.jsonl", tmp_path / "answers.jsonl.part"
    run("predict", ue, "--input", source, "--output", output, "--top", 2)
    part.write_bytes(b"".join(output.read_bytes().splitlines(keepends=True)[:2]))
    output.unlink()

    result = run("predict", ue, "--input", source, "--output", output, "--resume", "--top", 3)

    assert result.exit_code == 1
    assert "is not what this folder says with these options" in result.stderr


@pytest.mark.slow
def test_what_was_answered_before_a_bad_line_is_kept_and_continued(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(1100))
    good = source.read_text()
    source.write_text(good + '{"text"\n')
    output = tmp_path / "answers.jsonl"

    failed = run("predict", ue, "--input", source, "--output", output)
    source.write_text(good)
    resumed = run("predict", ue, "--input", source, "--output", output, "--resume")

    assert (failed.exit_code, resumed.exit_code, len(read_lines(output))) == (1, 0, 1100)
    assert "line 1101: a line must be one JSON object" in failed.stderr
    assert "the answers are kept in" in failed.stderr


def test_nothing_is_left_where_nothing_was_answered(ue, tmp_path):
    (tmp_path / "input.jsonl").write_text("")

    result = run("predict", ue, "--input", tmp_path / "input.jsonl", "--output", tmp_path / "answers.jsonl")

    assert (result.exit_code, [path.name for path in tmp_path.iterdir()]) == (1, ["input.jsonl"])


def test_a_full_disk_is_one_sentence_and_the_answers_can_be_continued(ue, tmp_path, monkeypatch):
    source = write_rows(tmp_path / "input.jsonl", text_rows(5))
    output = tmp_path / "answers.jsonl"

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("knn_ue.cli.answer_file.os.fsync", full)
        failed = run("predict", ue, "--input", source, "--output", output)
    exists = output.exists()
    resumed = run("predict", ue, "--input", source, "--output", output, "--resume")

    assert (failed.exit_code, exists, resumed.exit_code, len(read_lines(output))) == (1, False, 0, 5)
    assert "cannot be written (No space left on device): make room or choose another place; --resume" in failed.stderr


def test_a_part_file_that_is_a_link_is_not_followed(ue, source, tmp_path):
    (tmp_path / "answers.jsonl.part").symlink_to("/dev/zero")

    result = run("predict", ue, "--input", source, "--output", tmp_path / "answers.jsonl", "--resume")

    assert result.exit_code == 1
    assert "is not a plain file" in result.stderr


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_an_output_that_is_no_plain_file_is_never_replaced(ue, source, tmp_path, kind):
    output = tmp_path / "answers.jsonl"
    if kind == "link":
        output.symlink_to(tmp_path / "elsewhere.jsonl")
    else:
        os.mkfifo(output)

    result = run("predict", ue, "--input", source, "--output", output, "--overwrite")

    assert (result.exit_code, output.is_file()) == (1, False)
    assert "is a link, pipe or device: choose a regular file" in result.stderr


def test_the_input_is_never_the_output(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(2))

    result = run("predict", ue, "--input", source, "--output", source, "--overwrite")

    assert result.exit_code == 1
    assert len(read_lines(source)) == 2


def test_a_second_run_leaves_the_file_of_the_first_alone(tmp_path):
    first, second = AnswerFile(tmp_path / "answers.jsonl"), AnswerFile(tmp_path / "answers.jsonl")

    with first.open(resume=False) as file:
        with pytest.raises(StorageError, match="is being written by another process"), second.open(resume=True):
            pass
        first.write(file, TextRow("fine"), {"label": "pos"})

    assert read_lines(tmp_path / "answers.jsonl") == [{"text": "fine", "label": "pos"}]


def test_a_second_run_does_not_empty_the_output_that_the_first_has_just_finished(tmp_path, monkeypatch):
    answers = AnswerFile(tmp_path / "answers.jsonl")

    def finished_meanwhile(_file, *, seconds):
        answers.part.write_text("whole")
        answers.part.replace(answers.output)
        return True

    monkeypatch.setattr("knn_ue.cli.answer_file.take_lock", finished_meanwhile)
    with pytest.raises(StorageError, match="is being written by another process"), answers.open(resume=False):
        pass

    assert answers.output.read_text() == "whole"


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_later_of_two_runs_does_not_replace_what_the_earlier_finished(tmp_path, overwrite):
    output = tmp_path / "answers.jsonl"
    output.write_text("old") if overwrite else None
    first, second = AnswerFile(output), AnswerFile(output)
    for run_of in (first, second):
        run_of.check(resume=False, overwrite=overwrite)
    with first.open(resume=False) as file:
        first.write(file, TextRow("fine"), {"label": "pos"})

    with (
        pytest.raises(StorageError, match="was written by another process meanwhile and is left as it is"),
        second.open(resume=False),
    ):
        pass

    assert read_lines(output) == [{"text": "fine", "label": "pos"}]
    assert [path.name for path in tmp_path.iterdir()] == ["answers.jsonl"]


def test_a_file_that_appears_at_the_output_during_the_run_is_left_alone(tmp_path):
    answers = AnswerFile(tmp_path / "answers.jsonl")

    with (
        pytest.raises(StorageError, match="was written by another process meanwhile and is left as it is"),
        answers.open(resume=False) as file,
    ):
        answers.write(file, TextRow("fine"), {"label": "pos"})
        answers.output.write_text("years of work")

    assert answers.output.read_text() == "years of work"
    assert read_lines(answers.part) == [{"text": "fine", "label": "pos"}]


def test_answers_that_a_killed_run_left_after_the_check_are_not_emptied(tmp_path):
    answers = AnswerFile(tmp_path / "answers.jsonl")
    answers.check(resume=False, overwrite=False)
    answers.part.write_text('{"text": "fine"}\n')

    with pytest.raises(StorageError, match="was written by another process meanwhile"), answers.open(resume=False):
        pass

    assert answers.part.read_text() == '{"text": "fine"}\n'


@pytest.mark.parametrize(
    "content",
    [
        "years of work",
        "years of work\nand more\n",
        '{"text": "fine"}\nyears of work\n',
        '{"text": "fine"}\nyears of work',
        '{"text": "another text"',
        '["a list"]\n',
        '{"text": "fine"}\n[1]\n{"text": "so so"}\n',
        "[" * 100_000 + "\n",
    ],
)
def test_resume_leaves_a_part_file_that_is_not_ours_as_it_is(tmp_path, content):
    answers = AnswerFile(tmp_path / "answers.jsonl")
    answers.part.write_text(content)

    with (
        pytest.raises(InvalidInputError, match=r"is not an answer|is not about row|more answers than"),
        AnswerFile(tmp_path / "answers.jsonl").open(resume=True) as file,
    ):
        answers.keep_complete(file, iter([TextRow("fine"), TextRow("so so"), TextRow("bad")]))

    assert answers.part.read_text() == content


def test_an_answer_cut_at_any_byte_is_answered_again(tmp_path):
    rows = [TextRow("fine ä"), TextRow("so so")]
    lines = [b'{"text": "fine \xc3\xa4", "label": "pos"}\n', b'{"text": "so so", "label": "neg"}\n']
    answers = AnswerFile(tmp_path / "answers.jsonl")

    for size in range(len(lines[1])):
        answers.part.write_bytes(lines[0] + lines[1][:size] + bytes(size % 3))
        with answers.part.open("a+b") as file:
            last, left = answers.keep_complete(file, iter(rows))
        assert (last[0], list(left)) == (rows[0], rows[1:])
        assert answers.part.read_bytes() == lines[0]


def test_abstentions_are_counted_over_both_runs(ue, tmp_path):
    rows, output = write_rows(tmp_path / "rows.jsonl", text_rows(6)), tmp_path / "answers.jsonl"
    options = ["--input", rows, "--output", output, "--abstain-below", 1, "--json"]
    run("predict", ue, *options)
    kept = output.read_bytes().splitlines(keepends=True)[:4]
    output.unlink()
    (tmp_path / "answers.jsonl.part").write_bytes(b"".join(kept))

    result = json.loads(run("predict", ue, *options, "--resume").stdout)

    assert (result["rows"], result["resumed"], result["abstained"]) == (6, 4, 6)


NEAR = [{"id": 3, "label": "pos", "distance": 1.0}, {"id": 9, "label": "neg", "distance": 1.0000001}]


def test_neighbors_at_the_same_distance_may_change_places_between_runs():
    assert same_answer({"label": "pos", "neighbors": NEAR}, {"label": "pos", "neighbors": NEAR[::-1]})


def test_neighbors_at_other_distances_are_another_answer():
    farther = [NEAR[0], NEAR[1] | {"distance": 1.5}]

    assert not same_answer({"label": "pos", "neighbors": NEAR}, {"label": "pos", "neighbors": farther})


def test_other_columns_are_passed_on_and_a_label_is_renamed(ue, tmp_path):
    rows = [{"id": number, **row} for number, row in enumerate(text_rows(3))]
    source = write_rows(tmp_path / "new.jsonl", rows)

    assert run("predict", ue, "--input", source, "--output", tmp_path / "a.jsonl").exit_code == 0

    answers = read_lines(tmp_path / "a.jsonl")
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert [answer["input_label"] for answer in answers] == [row["label"] for row in rows]


def test_rows_that_cannot_be_read_are_skipped_counted_and_listed(ue, tmp_path):
    source = tmp_path / "new.csv"
    source.write_text("id,review\n1,fine\n2,\n3,dull\n")
    options = ["--input", source, "--text-column", "review", "--on-error", "skip"]

    result = run("predict", ue, *options, "--output", tmp_path / "a.jsonl")

    assert result.exit_code == 0, result.output
    assert [answer["id"] for answer in read_lines(tmp_path / "a.jsonl")] == ["1", "3"]
    assert "1 row was skipped" in result.stderr and "line 3" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_the_name_of_the_output_chooses_its_format(ue, tmp_path, name):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    source = write_rows(tmp_path / "new.jsonl", [{"id": number, **row} for number, row in enumerate(text_rows(3))])
    run("predict", ue, "--input", source, "--output", tmp_path / "a.jsonl", "--top-k", 2)

    assert run("predict", ue, "--input", source, "--output", tmp_path / name, "--top-k", 2).exit_code == 0

    found = pandas.read_csv(tmp_path / name) if name == "a.csv" else pandas.read_parquet(tmp_path / name)
    expected = read_lines(tmp_path / "a.jsonl")
    assert found["id"].tolist() == [0, 1, 2]
    assert found["score"].tolist() == pytest.approx([answer["score"] for answer in expected])
    assert [json.loads(cell) for cell in found["probabilities"]] == [answer["probabilities"] for answer in expected]
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".part", ".draft")]


def test_a_format_we_cannot_write_is_refused_before_the_model_is_loaded(ue, tmp_path):
    result = run("predict", ue, "--input", tmp_path / "new.jsonl", "--output", tmp_path / "a.xlsx")

    assert result.exit_code == 1
    assert "answers are written as .jsonl, .csv or .parquet, got 'a.xlsx'" in result.stderr

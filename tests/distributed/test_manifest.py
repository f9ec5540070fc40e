"""Where files are cut, and what tells two runs apart."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.distributed.manifest import plan, rows_of
from knn_ue.errors import InvalidInputError
from knn_ue.folder import Part, write_folder

TEXT = "text-classification"


def make(folder, name="a.jsonl", n_rows=25, text="row {}"):
    path = folder / name
    lines = [json.dumps({"text": text.format(number)}) + "\n" for number in range(n_rows)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def ue(tmp_path):
    folder = tmp_path / "ue"
    folder.mkdir()
    write_folder(folder, Part(kind="pipeline"))
    return folder


def planned(paths, ue, part_rows=10, **options):
    return plan(paths, ue, options, part_rows=part_rows, cut=True)


def texts_of(manifest):
    return [row.text for part in manifest.parts for row in rows_of(part, TEXT, labeled=False)]


def test_parts_hold_every_row_once_in_order(tmp_path, ue):
    manifest = planned([make(tmp_path), make(tmp_path, "b.jsonl", 10, "other {}")], ue)

    assert [part.n_lines for part in manifest.parts] == [10, 10, 5, 10]
    assert [part.first_row for part in manifest.parts] == [0, 10, 20, 25]
    assert texts_of(manifest) == [f"row {n}" for n in range(25)] + [f"other {n}" for n in range(10)]


@settings(max_examples=30, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="aé\r 中", max_size=6), max_size=30),
    part_rows=st.integers(1, 7),
    end=st.sampled_from(["", "\n", "\n\n"]),
)
def test_any_file_is_cut_into_all_of_its_rows(lines, part_rows, end, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    write_folder(folder, Part(kind="pipeline"))
    written = "\n".join("" if not line.strip() else json.dumps({"text": line}, ensure_ascii=False) for line in lines)
    path = folder / "rows.jsonl"
    path.write_bytes((written + end).encode())

    found = texts_of(planned([path], folder, part_rows))

    assert found == [line for line in lines if line.strip()]


def test_compressed_and_other_files_stay_whole(tmp_path, ue):
    plain = make(tmp_path)
    with gzip.open(tmp_path / "b.jsonl.gz", "wb") as file:
        file.write(plain.read_bytes())
    (tmp_path / "c.csv").write_text("text\n" + "a row\n" * 30)

    manifest = planned([tmp_path / "b.jsonl.gz", tmp_path / "c.csv"], ue)

    assert [part.end for part in manifest.parts] == [None, None]
    assert len(texts_of(manifest)) == 55


def test_an_error_names_the_line_of_the_whole_file(tmp_path, ue):
    path = make(tmp_path)
    lines = path.read_text().splitlines()
    lines[17] = '{"text": 7}'
    path.write_text("\n".join(lines))

    with pytest.raises(InvalidInputError, match=r"a\.jsonl, line 18: "):
        texts_of(planned([path], ue))


def test_a_changed_input_folder_or_option_is_told_apart(tmp_path, ue):
    path = make(tmp_path)
    before = json.loads(json.dumps(planned([path], ue, top=5).to_plain()))

    planned([path], ue, top=5).check_same(before, tmp_path)
    with pytest.raises(InvalidInputError, match="an option has changed"):
        planned([path], ue, top=6).check_same(before, tmp_path)
    path.write_text(path.read_text().replace("row 7", "ROW 7"))
    with pytest.raises(InvalidInputError, match="an input has changed"):
        planned([path], ue, top=5).check_same(before, tmp_path)
    make(tmp_path)
    write_folder(ue, Part(kind="pipeline"))
    with pytest.raises(InvalidInputError, match="the UE folder has changed"):
        planned([path], ue, top=5).check_same(before, tmp_path)


def test_no_input_and_a_missing_one_are_refused(tmp_path, ue):
    with pytest.raises(InvalidInputError, match="at least one input"):
        planned([], ue)
    with pytest.raises(InvalidInputError, match="is not a file"):
        planned([tmp_path / "none.jsonl"], ue)

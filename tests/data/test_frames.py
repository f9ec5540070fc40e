"""DataFrames, data sets, parquet, JSON arrays and tables of any delimiter give the rows that JSON lines give."""

import json

import numpy as np
import pytest

from knn_ue.data import Columns, PairRow, Skipped, TaggedRow, TextRow, read_rows
from knn_ue.errors import InvalidInputError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
datasets = pytest.importorskip("datasets")

TEXT, PAIR, WORDS = "text-classification", "text-pair", "token-classification"
REVIEWS = {"id": [7, 8], "review": ["a fine film", "dull"], "sentiment": ["pos", "neg"]}
NAMED = Columns(text="review", label="sentiment")
EXPECTED = [TextRow("a fine film", "pos"), TextRow("dull", "neg")]


def parquet(tmp_path):
    pq.write_table(pa.table(REVIEWS), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def array(tmp_path):
    rows = [dict(zip(REVIEWS, values, strict=True)) for values in zip(*REVIEWS.values(), strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=2))
    return tmp_path / "a.json"


def semicolons(tmp_path):
    (tmp_path / "a.csv").write_text("ID;Review;sentiment\n7;a fine film;pos\n8;dull;neg\n")
    return tmp_path / "a.csv"


def saved(tmp_path):
    datasets.Dataset.from_dict(REVIEWS).save_to_disk(tmp_path / "set")
    return tmp_path / "set"


SOURCES = {
    "pandas": lambda _: pd.DataFrame(REVIEWS, index=[3, 3]),
    "polars": lambda _: pl.DataFrame(REVIEWS),
    "lazy polars": lambda _: pl.LazyFrame(REVIEWS),
    "arrow": lambda _: pa.table(REVIEWS),
    "dataset": lambda _: datasets.Dataset.from_dict(REVIEWS),
    "parquet": parquet,
    "array": array,
    "semicolons": semicolons,
    "saved dataset": saved,
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_every_source_gives_the_same_rows(source, tmp_path):
    assert list(read_rows(source(tmp_path), TEXT, columns=NAMED)) == EXPECTED


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_other_columns_are_kept_where_they_are_asked_for(source, tmp_path):
    rows = read_rows(source(tmp_path), TEXT, columns=Columns(text="review"), labeled=False, extras=True)

    extras = [{name.lower(): str(value) for name, value in row.extra.items()} for row in rows]

    assert extras == [{"id": "7", "sentiment": "pos"}, {"id": "8", "sentiment": "neg"}]


@pytest.mark.parametrize("name", ["pandas", "polars", "parquet", "semicolons"])
def test_columns_of_other_names_are_an_error_that_proposes_them(name, tmp_path):
    with pytest.raises(InvalidInputError, match=r"text(, | or )label.*text='[Rr]eview', label='sentiment'") as caught:
        list(read_rows(SOURCES[name](tmp_path), TEXT))

    assert "--text-column" not in str(caught.value)
    assert "--label-column sentiment" in caught.value.shell


def test_a_json_line_without_our_key_proposes_the_flag(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"review": "fine", "label": "pos"}\n')

    with pytest.raises(InvalidInputError, match=r"line 1: the key 'text' is missing.*text='review'") as caught:
        list(read_rows(tmp_path / "a.jsonl", TEXT))

    assert "--text-column review" in caught.value.shell


def test_class_numbers_of_a_data_set_become_the_names_of_its_feature():
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["neg", "pos"]))
    found = datasets.Dataset.from_dict({"text": ["fine"], "label": [1]}, features=features)

    assert list(read_rows(found, TEXT)) == [TextRow("fine", "pos")]


def test_a_dictionary_of_splits_is_refused_with_their_names(tmp_path):
    both = datasets.DatasetDict(train=datasets.Dataset.from_dict(REVIEWS), test=datasets.Dataset.from_dict(REVIEWS))
    both.save_to_disk(tmp_path / "sets")

    with pytest.raises(InvalidInputError, match=r"holds the splits train, test, but one is needed: .*sets/train"):
        list(read_rows(tmp_path / "sets", TEXT))
    assert list(read_rows(tmp_path / "sets" / "test", TEXT, columns=NAMED)) == EXPECTED


def test_a_dictionary_of_splits_in_memory_is_refused_with_the_way_to_pass_one():
    both = datasets.DatasetDict(train=datasets.Dataset.from_dict(REVIEWS))

    with pytest.raises(
        InvalidInputError, match=r"holds the splits train, but one is needed: pass one, data\['train'\]"
    ):
        list(read_rows(both, "text"))


def test_columns_of_the_same_name_are_refused():
    frame = pd.DataFrame([["a", "b", "pos"]], columns=["text", "text", "label"])

    with pytest.raises(InvalidInputError, match="the frame has several columns called 'text': rename or drop"):
        list(read_rows(frame, "text"))


def test_pairs_and_tagged_sentences_come_from_frames_too():
    pairs = pd.DataFrame({"a": ["A man sleeps."], "b": ["He is awake."], "label": ["contradiction"]})
    words = pl.DataFrame({"words": [["Ada", "wrote"]], "tags": [["B-PER", "O"]]})

    assert list(read_rows(pairs, PAIR, columns=Columns(premise="a", hypothesis="b"))) == [
        PairRow("A man sleeps.", "He is awake.", "contradiction")
    ]
    assert list(read_rows(words, WORDS, columns=Columns(tokens="words"))) == [
        TaggedRow(("Ada", "wrote"), ("B-PER", "O"))
    ]


def test_a_missing_value_of_a_frame_is_an_error_at_its_row():
    frame = pd.DataFrame({"text": ["fine", None], "label": ["pos", "neg"]})

    with pytest.raises(InvalidInputError, match="the frame, row 1: text must not be null"):
        list(read_rows(frame, TEXT))


def test_labels_that_pandas_made_floats_are_whole_numbers_again():
    frame = pd.DataFrame({"text": ["fine", "dull"], "label": [1.0, 0.0]})

    assert [row.label for row in read_rows(frame, TEXT)] == ["1", "0"]


def test_a_column_that_the_task_has_no_use_for_is_refused():
    with pytest.raises(
        InvalidInputError,
        match="the columns of text-classification are text, label, answer, confidence, got premise='a'",
    ):
        read_rows(pd.DataFrame(REVIEWS), TEXT, columns=Columns(premise="a"))


def test_bad_rows_are_skipped_and_listed_with_their_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\nnonsense\n{"text": ""}\n{"text": "dull"}\n')
    skipped = Skipped()

    rows = list(read_rows(tmp_path / "a.jsonl", TEXT, labeled=False, on_error=skipped))

    assert [row.text for row in rows] == ["fine", "dull"]
    assert skipped.n_rows == 2
    assert [reason.split(":")[0].rsplit(", ")[-1] for reason in skipped.reasons] == ["line 2", "line 3"]


@pytest.mark.parametrize("content", [b"PAR1", b"", b"no parquet at all"])
def test_a_broken_parquet_file_is_one_sentence(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)

    with pytest.raises(InvalidInputError, match=r"a\.parquet is not a readable parquet file"):
        list(read_rows(tmp_path / "a.parquet", TEXT))


def test_an_array_that_is_no_array_of_objects_is_an_error(tmp_path):
    (tmp_path / "a.json").write_text('[{"text": "fine", "label": "pos"}, 7]')

    with pytest.raises(InvalidInputError, match="item 2: an item of the array must be an object, got 7"):
        list(read_rows(tmp_path / "a.json", TEXT))


TEXTS = {"id": [7, 8], "text": ["Ada  wrote.", "so"]}


def text_lines(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": 7, "text": text}) + "\n" for text in TEXTS["text"]))
    return tmp_path / "a.jsonl"


def text_table(tmp_path):
    (tmp_path / "a.csv").write_text("ID;Text\n7;Ada  wrote.\n8;so\n")
    return tmp_path / "a.csv"


@pytest.mark.parametrize(
    "source",
    [
        lambda _: pd.DataFrame(TEXTS),
        lambda _: pl.DataFrame(TEXTS),
        lambda _: datasets.Dataset.from_dict(TEXTS),
        text_lines,
        text_table,
    ],
    ids=["pandas", "polars", "dataset", "lines", "table"],
)
def test_a_tagger_reads_texts_where_there_are_no_words(source, tmp_path):
    rows = list(read_rows(source(tmp_path), WORDS, labeled=False))

    assert [(row.tokens, row.raw_text) for row in rows] == [(("Ada", "wrote."), "Ada  wrote."), (("so",), "so")]


def test_words_come_before_texts_unless_the_texts_are_named():
    frame = pd.DataFrame({"text": ["Ada wrote."], "tokens": [["Ada", "wrote", "."]]})

    (by_words,) = read_rows(frame, WORDS, labeled=False)
    (by_text,) = read_rows(frame, WORDS, labeled=False, columns=Columns(text="text"))

    assert by_words.tokens == ("Ada", "wrote", ".") and by_words.raw_text is None
    assert by_text.raw_text == "Ada wrote."


def test_texts_to_tag_are_labeled_by_a_column_of_entities():
    with pytest.raises(InvalidInputError, match="missing: tokens, tags"):
        list(read_rows(pd.DataFrame(TEXTS), WORDS))
    with pytest.raises(InvalidInputError, match="missing: body, label"):
        list(read_rows(pd.DataFrame(TEXTS), WORDS, columns=Columns(text="body")))


ODD_FRAMES = {
    "numbers as column names": (pd.DataFrame([["fine", "pos"]]), Columns(text="0", label="1")),
    "labels of float32": (pd.DataFrame({"text": ["fine"], "label": np.float32([1])}), None),
    "nullable numbers": (pd.DataFrame({"text": ["fine"], "label": pd.array([1], dtype="Int64")}), None),
}


@pytest.mark.parametrize(("frame", "columns"), ODD_FRAMES.values(), ids=list(ODD_FRAMES))
def test_an_odd_frame_is_read(frame, columns):
    (row,) = read_rows(frame, TEXT, columns=columns)

    assert row.text == "fine" and row.label in ("pos", "1")


@pytest.mark.parametrize("dtype", ["string", "string[pyarrow]", "category", "object"])
def test_a_missing_value_of_pandas_is_missing_whatever_its_type(dtype):
    frame = pd.DataFrame({"text": ["a", "b"], "label": pd.Series(["pos", None], dtype=dtype)})

    with pytest.raises(InvalidInputError, match="the frame, row 1: label must not be null, got None"):
        list(read_rows(frame, TEXT))


def test_missing_values_are_passed_on_as_null():
    frame = pd.DataFrame({"text": ["a"], "when": pd.to_datetime([None]), "n": pd.array([None], dtype="Int64")})

    (row,) = read_rows(frame, TEXT, labeled=False, extras=True)

    assert row.extra == {"when": None, "n": None}


def test_truth_values_are_no_labels_and_the_way_out_is_named():
    with pytest.raises(InvalidInputError, match="write 1 and 0, or names"):
        list(read_rows(pd.DataFrame({"text": ["a"], "label": [True]}), TEXT))


@pytest.mark.parametrize("form", ["numpy", "torch", "pandas", "arrow"])
def test_the_format_of_a_data_set_does_not_change_its_labels(form):
    labels = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": labels})
    found = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, features=features)

    assert [row.label for row in read_rows(found.with_format(form), TEXT)] == ["neg", "pos"]


def test_line_ends_of_old_computers_are_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,label\rgood,pos\rbad,neg\r")

    with pytest.raises(InvalidInputError, match="lines must end with a line feed"):
        list(read_rows(tmp_path / "a.csv", TEXT))


def test_white_space_around_a_column_name_is_seen():
    with pytest.raises(InvalidInputError, match="text=' text', label='label '"):
        list(read_rows(pd.DataFrame({" text": ["a"], "label ": ["pos"]}), TEXT))


def test_a_stream_that_does_not_know_its_columns_is_asked_for_its_first_row():
    stream = datasets.IterableDataset.from_generator(lambda: iter([{"id": 1, "text": "fine", "label": "pos"}]))

    assert list(read_rows(stream, TEXT)) == [TextRow("fine", "pos")]
    (row,) = read_rows(stream, TEXT, labeled=False, extras=True)
    assert row.extra == {"id": 1, "label": "pos"}


def test_a_stream_without_rows_is_empty():
    with pytest.raises(InvalidInputError, match="the data set"):
        list(read_rows(datasets.IterableDataset.from_generator(lambda: iter([])), TEXT))

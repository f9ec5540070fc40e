"""DataFrames, data sets, parquet, JSON arrays and tables of any delimiter give the rows that JSON lines give."""

import json

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
    with pytest.raises(InvalidInputError, match=r"missing: text, label.*text='[Rr]eview', label='sentiment'") as caught:
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
    with pytest.raises(InvalidInputError, match="the columns of text-classification are text, label, got premise='a'"):
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

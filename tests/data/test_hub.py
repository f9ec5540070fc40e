"""Hub data sets, played by small ones in memory or in a local folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knn_ue.data import PairRow, TaggedRow, TextRow, read_rows
from knn_ue.errors import InvalidInputError, MissingExtraError

datasets = pytest.importorskip("datasets", reason="the extra [hf] is not installed")

Offer = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Let the hub hold one data set, and return the list of what is asked of it."""

    def offer_rows(rows: list[dict[str, Any]], **features: Any) -> list[tuple[Any, ...]]:
        dataset = datasets.Dataset.from_list(rows, features=datasets.Features(features) if features else None)
        asked: list[tuple[Any, ...]] = []

        def load_dataset(*names: Any, **options: Any) -> Any:
            asked.append((*names, options))
            return dataset

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return asked

    return offer_rows


def string() -> Any:
    return datasets.Value("string")


def test_class_numbers_become_names(offer: Offer) -> None:
    offer([{"text": "fine", "label": 1}], text=string(), label=datasets.ClassLabel(names=["neg", "pos"]))

    assert list(read_rows("hub:owner/name:train", "text-classification")) == [TextRow("fine", "pos")]


def test_split_config_and_nothing_else_reach_the_library(offer: Offer) -> None:
    asked = offer([{"sentence": "fine", "label": "pos"}])

    list(read_rows("hub:owner/name/config:train[:10]", "text-classification"))

    assert asked == [("owner/name", "config", {"split": "train[:10]"})]


def test_common_column_names_are_known(offer: Offer) -> None:
    offer([{"sentence1": "a", "sentence2": "b", "label": 2, "idx": 7}])

    assert list(read_rows("hub:owner/name:test", "text-pair")) == [PairRow("a", "b", "2")]


def test_tag_numbers_become_tags(offer: Offer) -> None:
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER", "I-PER"]))
    offer([{"tokens": ["Ada", "wrote"], "ner_tags": [1, 0]}], tokens=datasets.Sequence(string()), ner_tags=tags)

    assert list(read_rows("hub:owner/name:test", "token-classification")) == [
        TaggedRow(("Ada", "wrote"), ("B-PER", "O"))
    ]


def test_tags_of_another_scheme_are_converted(offer: Offer) -> None:
    offer([{"words": ["Ada", "wrote"], "tags": ["S-PER", "O"]}])

    (row,) = read_rows("hub:owner/name:test", "token-classification")

    assert row.tags == ("B-PER", "O")


def test_tag_numbers_without_names_are_an_error(offer: Offer) -> None:
    offer([{"tokens": ["Ada"], "ner_tags": [1]}])

    with pytest.raises(
        InvalidInputError, match="hub:owner/name:test, row 0: ner_tags must be a list of strings, got 1"
    ):
        list(read_rows("hub:owner/name:test", "token-classification"))


def test_a_row_without_label_is_an_error_that_names_the_option(offer: Offer) -> None:
    offer([{"text": "fine", "label": 1}, {"text": "so so", "label": -1}])

    with pytest.raises(
        InvalidInputError,
        match=r"row 1: every row must have a label, got .*: name hub:owner/name:test\?unlabeled=drop",
    ):
        list(read_rows("hub:owner/name:test", "text-classification"))


@pytest.mark.parametrize("option", ["unlabeled", "unlabelled"])
def test_rows_without_label_are_left_out_on_demand(offer: Offer, option: str) -> None:
    offer([{"text": "fine", "label": 1}, {"text": "so so", "label": -1}, {"text": "poor", "label": None}])

    rows = list(read_rows(f"hub:owner/name:test?{option}=drop", "text-classification"))

    assert rows == [TextRow("fine", "1")]


def test_labels_may_be_missing_for_prediction(offer: Offer) -> None:
    offer([{"text": "fine"}])

    assert list(read_rows("hub:owner/name:test", "text-classification", labeled=False)) == [TextRow("fine")]


def test_a_bad_row_is_named(offer: Offer) -> None:
    offer([{"text": "fine", "label": "pos"}, {"text": "", "label": "neg"}])

    with pytest.raises(InvalidInputError, match="hub:owner/name:test, row 1: text must not be empty"):
        list(read_rows("hub:owner/name:test", "text-classification"))


def test_missing_columns_are_listed(offer: Offer) -> None:
    offer([{"body": "fine", "stars": 5}])

    with pytest.raises(InvalidInputError, match=r"must have one of the columns text; sentence; .*, got body, stars"):
        read_rows("hub:owner/name:test", "text-classification")


@pytest.mark.parametrize("source", ["hub:owner/name", "hub:name:train", "hub:a/b/c/d:train", "hub:/name:train", "hub:"])
def test_a_name_that_is_no_hub_source_is_an_error(source: str) -> None:
    with pytest.raises(InvalidInputError, match=r"must be hub:owner/name:split or hub:owner/name/config:split, got"):
        read_rows(source, "text-classification")


def test_an_unreachable_hub_is_one_sentence_without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach https://hub.example/owner/name\nand so on")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)

    with pytest.raises(
        InvalidInputError, match=r"cannot be loaded \(ConnectionError: Couldn't reach \.\.\.\): check owner, name"
    ):
        read_rows("hub:owner/name:test", "text-classification")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match=r'hub:owner/name:test needs datasets.*pip install "knn-ue\[hf\]"'):
        read_rows("hub:owner/name:test", "text-classification")


def test_the_library_really_loads_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "owner" / "name"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text(json.dumps({"text": "fine", "label": "pos"}) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    assert list(read_rows("hub:owner/name:test", "text-classification")) == [TextRow("fine", "pos")]

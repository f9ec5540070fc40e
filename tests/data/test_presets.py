"""The paper's splits, with small data in the place of the hub's."""

from dataclasses import replace
from typing import Any

import pytest

from knn_ue.data import PAPER_SETS, PaperSet, TaggedRow, presets, read_rows
from knn_ue.errors import InvalidInputError


class SmallDataset:
    """As much of `datasets.Dataset` as the reader of the hub uses."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.features: dict[str, Any] = dict.fromkeys(rows[0])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def with_format(self, kind: str | None) -> "SmallDataset":
        assert kind is None
        return self

    def select(self, numbers: list[int]) -> "SmallDataset":
        return SmallDataset([self.rows[number] for number in numbers])

    def select_columns(self, names: list[str]) -> "SmallDataset":
        return SmallDataset([{name: row[name] for name in names} for row in self.rows])


def shrink(monkeypatch: pytest.MonkeyPatch, name: str, n_rows: dict[str, int], rows: list[dict[str, Any]]) -> None:
    """Let the set `name` have splits of `n_rows` and the hub hold `rows`."""
    original = PAPER_SETS[name]
    splits = {split: replace(original.splits[split], n_rows=n) for split, n in n_rows.items()}
    monkeypatch.setattr(presets, "PAPER_SETS", {name: PaperSet(task=original.task, splits=splits)})
    monkeypatch.setattr(presets, "load_split", lambda _: SmallDataset(rows))


def texts(n: int) -> list[dict[str, Any]]:
    return [{"text": f"text {number}", "label": "pos"} for number in range(n)]


def test_validation_and_test_are_the_two_halves_of_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, "imdb", {"validation": 4, "test": 5}, texts(9))

    halves = [list(read_rows(f"paper:imdb:{split}", "text-classification")) for split in ("validation", "test")]

    assert sorted(row.text for half in halves for row in half) == [f"text {number}" for number in range(9)]


def test_both_halves_come_from_one_source() -> None:
    for name in ("imdb", "mnli"):
        splits = PAPER_SETS[name].splits
        assert splits["validation"].source == splits["test"].source


@pytest.mark.parametrize(("name", "n_source"), [("imdb", 25_000), ("mnli", 9_815)])
def test_the_halves_have_the_papers_sizes(name: str, n_source: int) -> None:
    splits = PAPER_SETS[name].splits

    assert (splits["validation"].n_rows, splits["test"].n_rows) == (n_source // 2, n_source - n_source // 2)


def test_yelp_is_the_second_half_with_the_labels_of_imdb(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": f"text {number}", "label": "12"[number % 2]} for number in range(40)]
    shrink(monkeypatch, "yelp", {"test": 20}, rows)

    labels = {row.label for row in read_rows("paper:yelp:test", "text-classification")}

    assert labels == {"neg", "pos"}


def test_an_unexpected_label_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, "yelp", {"test": 5}, texts(10))

    with pytest.raises(InvalidInputError, match="must be 1, 2, got 'pos'"):
        list(read_rows("paper:yelp:test", "text-classification"))


def test_pairs_without_gold_label_are_left_out_of_snli(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "label": label} for label in (0, -1, 2)]
    shrink(monkeypatch, "snli", {"test": 2}, rows)

    assert [row.label for row in read_rows("paper:snli:test", "text-pair")] == ["0", "2"]


def test_another_number_of_rows_than_the_papers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, "imdb", {"train": 10}, texts(9))

    with pytest.raises(InvalidInputError, match="paper:imdb:train has 10 rows in the paper but 9 in hub:stanfordnlp"):
        list(read_rows("paper:imdb:train", "text-classification"))


def test_ontonotes_is_read_from_the_users_file(write) -> None:
    path = write("bn.conll", "Ada S-PERSON\n\nParis B-GPE\nTexas E-GPE\n")

    rows = list(read_rows(f"paper:ontonotes-bn:train?path={path}", "token-classification"))

    assert rows == [TaggedRow(("Ada",), ("B-PERSON",)), TaggedRow(("Paris", "Texas"), ("B-GPE", "I-GPE"))]


@pytest.mark.parametrize(
    ("source", "task", "words"),
    [
        ("paper:sst:test", "text-classification", "must be one of imdb, yelp, .*got 'sst'"),
        ("paper:yelp:train", "text-classification", "paper:yelp has the splits test, got 'train'"),
        ("paper:imdb", "text-classification", "has the splits train, validation, test, got ''"),
        ("paper:imdb:test", "text-pair", "is a source for the task text-classification, got 'text-pair'"),
        ("paper:imdb:test?path=a.conll", "text-classification", "takes no path, got 'a.conll'"),
        (
            "paper:ontonotes-nw:test",
            "token-classification",
            r"license forbids it: .*paper:ontonotes-nw:test\?path=FILE",
        ),
        ("paper:ontonotes-nw:test?path=no.conll", "token-classification", "no.conll does not exist"),
    ],
)
def test_a_wrong_name_is_an_error(source: str, task, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_rows(source, task)

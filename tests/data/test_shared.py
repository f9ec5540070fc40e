"""Every row of the shared evaluation data can be read; skipped where it is not at hand."""

from pathlib import Path

import pytest

from knn_ue.data import read_rows

FOLDER = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared data is not at hand")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task", "n_rows"),
    [
        ("sentiment/dynasent-yelp/test", "text-classification", 2_399),
        ("intent/clinc150/val", "text-classification", 2_993),
        ("nli/chaosnli-mnli/test", "text-pair", 1_599),
        ("ner/wikigold/test", "token-classification", 1_687),
        ("ner/crossner-science/test", "token-classification", 532),
    ],
)
def test_the_rows_are_as_many_as_its_readme_says(name: str, task, n_rows: int) -> None:
    assert sum(1 for _ in read_rows(FOLDER / f"{name}.jsonl.gz", task)) == n_rows


def test_one_hundred_raters_judged_each_pair_of_chaosnli() -> None:
    rows = read_rows(FOLDER / "nli/chaosnli-mnli/test.jsonl.gz", "text-pair")

    assert {sum(row.label_counts.values()) for row in rows} == {100}

"""Keys of what was measured: the same rows have the same key, in later versions too."""

from dataclasses import replace

import pytest

from knn_ue.data import PairRow, TaggedRow, TextRow
from knn_ue.demo.cache import key_of_rows


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (TextRow("a", "b"), "4dad0cd9023739eb"),
        (PairRow("a", "b", "c"), "37434a5926f25468"),
        (TaggedRow(("Ada",), ("B-PER",)), "e4bec904de99c4a1"),
    ],
    ids=["text", "pair", "tagged"],
)
def test_the_key_of_rows_is_that_of_committed_cells(row, key):
    # If this fails, a field was added to the rows: leave it out of the key where a row does not have it.
    assert key_of_rows([row]) == key


def test_the_key_of_rows_tells_their_content_and_not_where_they_were_read():
    row = TaggedRow(("Ada",), ("B-PER",))

    assert key_of_rows([replace(row, place="line 3")]) == key_of_rows([row])
    assert key_of_rows([replace(row, raw_text="Ada")]) != key_of_rows([row])
    assert key_of_rows([row, row]) != key_of_rows([row])

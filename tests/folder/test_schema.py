"""The schema of a folder: every value is of the type and within the range that its annotation states, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Interval, Len
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.errors import InvalidInputError, NotFittedError, StorageError
from knn_ue.folder.schema import ArrayRule, as_written, check_arrays, from_plain, to_plain


@dataclass(frozen=True, kw_only=True)
class Inner:
    scale: Annotated[float, Interval(ge=0.5, le=2.0)]


@dataclass(frozen=True, kw_only=True)
class Stored:
    count: Annotated[int, Interval(ge=1, le=5)]
    name: Annotated[str, Len(1, 3)]
    kind: Literal["a", "b"]
    flag: bool
    pair: tuple[float, float]
    many: Annotated[tuple[int, ...], Len(1, 3)]
    inner: Inner | None
    rest: Mapping[str, Any]
    added_later: int = 7


GOOD = {
    "count": 3,
    "name": "abc",
    "kind": "b",
    "flag": False,
    "pair": [1, 2.5],
    "many": [1, 2],
    "inner": {"scale": 1.0},
    "rest": {"x": None},
}
BAD = {
    "count": [None, True, 0, 6, 1.0, "3", [3], 10**400, float("nan")],
    "name": [None, 3, "", "abcd", ["a"]],
    "kind": [None, "c", 0, ["a"], {}],
    "flag": [None, 0, 1, "true"],
    "pair": [None, [], [1], [1, 2, 3], [1, "2"], [1, float("inf")], [1, float("nan")], [1, 10**400], "ab", {"0": 1}],
    "many": [None, [], [1, 2, 3, 4], [1.5], [True]],
    "inner": [{}, {"scale": 0.1}, {"scale": None}, {"scale": 1.0, "other": 1}, [], "x"],
    "rest": [None, [], "x"],
    "added_later": [None, "x", 1.5],
}


def test_a_record_is_read_with_its_defaults():
    found = from_plain(Stored, GOOD)

    assert found == Stored(
        count=3,
        name="abc",
        kind="b",
        flag=False,
        pair=(1.0, 2.5),
        many=(1, 2),
        inner=Inner(scale=1.0),
        rest={"x": None},
    )


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD.items() for value in values])
def test_a_value_that_breaks_its_rule_is_refused_by_name(key, value):
    with pytest.raises(ValueError, match=key) as error:
        from_plain(Stored, GOOD | {key: value})

    assert len(str(error.value)) < 200


@pytest.mark.parametrize("key", [*GOOD])
def test_a_missing_field_is_named(key):
    with pytest.raises(ValueError, match=f"{key} is missing"):
        from_plain(Stored, {name: value for name, value in GOOD.items() if name != key})


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="strange is unknown"):
        from_plain(Stored, GOOD | {"strange": 1})


def test_half_a_surrogate_pair_is_refused_in_both_directions():
    with pytest.raises(ValueError, match="not JSON of valid Unicode"):
        from_plain(Stored, GOOD | {"name": "a\ud800"})
    with pytest.raises(ValueError, match="not JSON of valid Unicode"):
        to_plain(replace(from_plain(Stored, GOOD), name="a\ud800"))


@pytest.mark.parametrize(("key", "value"), [("count", 6), ("name", ""), ("pair", (1.0, float("nan"))), ("many", ())])
def test_what_could_not_be_read_back_is_not_written(key, value):
    with pytest.raises(ValueError, match=key):
        to_plain(replace(from_plain(Stored, GOOD), **{key: value}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "scale"]), inner, max_size=4),
)


@given(plain=JSON, key=st.sampled_from([*GOOD]))
def test_any_json_gives_a_record_or_a_value_error(plain, key):
    for whole in (plain, GOOD | {key: plain}):
        try:
            found = from_plain(Stored, whole)
        except ValueError:
            continue
        assert from_plain(Stored, to_plain(found)) == found
        assert 1 <= found.count <= 5
        assert np.isfinite(found.pair).all()


RULES = {
    "means": ArrayRule(dtype=np.float64, shape=("classes", "columns"), least=-1, most=1),
    "square": ArrayRule(dtype=np.float64, shape=("columns", "columns")),
    "levels": ArrayRule(dtype=np.float64, shape=(3,), rising=True, optional=True),
}
ARRAYS = {"means": np.zeros((2, 4)), "square": np.eye(4), "levels": np.array([0.0, 1.0, 1.0])}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"levels": None},
        {"unknown": np.zeros(1)},
        {"means": np.zeros((0, 4))},
    ],
)
def test_arrays_that_keep_the_rules_pass(change):
    check_arrays({name: array for name, array in (ARRAYS | change).items() if array is not None}, RULES)


@pytest.mark.parametrize(
    "change",
    [
        {"means": None},
        {"means": np.zeros((2, 4), dtype=np.float32)},
        {"means": np.zeros(4)},
        {"means": np.full((2, 4), np.nan)},
        {"means": np.full((2, 4), 2.0)},
        {"square": np.eye(3)},
        {"square": np.zeros((4, 4, 1))},
        {"levels": np.zeros(2)},
        {"levels": np.array([0.0, 2.0, 1.0])},
    ],
)
def test_arrays_that_break_a_rule_are_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        check_arrays({name: array for name, array in (ARRAYS | change).items() if array is not None}, RULES)


def test_a_size_that_is_known_is_held():
    with pytest.raises(ValueError, match="square"):
        check_arrays({"square": np.eye(4)}, {"square": RULES["square"]}, {"columns": 5})


@pytest.mark.parametrize("error", [ValueError("v"), KeyError("v"), TypeError("v"), OverflowError("v"), IndexError("v")])
def test_what_goes_wrong_with_a_value_is_one_storage_error(error):
    with (
        pytest.raises(StorageError, match=r"folder does not hold a valid thing"),
        as_written(Path("folder"), "thing"),
    ):
        raise error


def test_a_rule_of_our_own_is_a_storage_error_too_and_other_errors_stay_what_they_are():
    with pytest.raises(StorageError), as_written(Path("folder"), "thing"):
        raise InvalidInputError("n must be 1")
    with pytest.raises(NotFittedError), as_written(Path("folder"), "thing"):
        raise NotFittedError("it")

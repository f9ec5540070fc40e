"""The instant reader: what ships, what it gives, and what it does not load."""

import subprocess
import sys
from importlib.resources import files

import numpy as np

from knn_ue.verifying import InstantReader, SparseRows
from knn_ue.verifying.instant import static_vectors


def cosine(first, second):
    one, other = static_vectors().read([first, second])
    return float(one @ other)


def test_texts_that_mean_the_same_are_nearer_than_others():
    asked = "I want my money back"

    assert cosine(asked, "please give me a refund") > cosine(asked, "the weather in Paris is sunny") + 0.1


def test_vectors_have_unit_length():
    vectors = static_vectors().read(["a good film", "refund"])

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_a_text_without_known_tokens_is_zero_not_nan():
    assert not static_vectors().read(["", "\u0f0b\u0f0b"])[0].any()


def test_a_text_is_read_alike_alone_and_with_others():
    alone = InstantReader().read(["bad service"])
    beside = InstantReader().read(["a film", "bad service"])

    np.testing.assert_array_equal(alone["static"][0], beside["static"][1])
    np.testing.assert_array_equal(alone["words"].columns, beside["words"].take(np.array([1])).columns)


def test_three_views_are_read_one_dense_and_two_sparse():
    views = InstantReader().read(["one text", "another"])

    assert views["static"].shape == (2, 240)
    assert all(isinstance(views[name], SparseRows) and len(views[name]) == 2 for name in ("characters", "words"))


def test_no_texts_give_empty_views():
    assert [len(view) for view in InstantReader().read([]).values()] == [0, 0, 0]


def test_what_ships_is_between_4_and_8_megabytes():
    size = len(files("knn_ue.verifying").joinpath("instant.safetensors").read_bytes())

    assert 4e6 < size < 8e6


def test_reading_loads_nothing_heavy():
    heavy = ("torch", "transformers", "tokenizers", "sklearn", "onnxruntime", "scipy")
    code = (
        "import sys; from knn_ue.verifying import InstantReader; InstantReader().read(['a text']); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "[]"

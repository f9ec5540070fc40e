"""The registry of methods: ours, and those that installed packages bring."""

from importlib.metadata import EntryPoint

import pytest

from knn_ue import methods
from knn_ue.errors import MissingExtraError
from knn_ue.methods import IN_THE_LAB, METHODS, Methods, check_method
from knn_ue_lab.methods import LAB


def test_the_lab_brings_the_methods_that_only_comparisons_need():
    assert set(LAB) == set(IN_THE_LAB)
    assert set(LAB) <= set(METHODS)


def test_without_the_lab_its_methods_say_how_to_install_it(monkeypatch):
    monkeypatch.setattr(methods, "entry_points", lambda **_: [])
    monkeypatch.setattr(methods, "METHODS", Methods({"softmax": METHODS["softmax"]}))

    with pytest.raises(MissingExtraError, match=r"the method sngp is part of the package knn-ue-lab\. Install it"):
        check_method("sngp")


def test_a_package_adds_methods_by_an_entry_point(monkeypatch):
    entry = EntryPoint(name="lab", value="knn_ue_lab.methods:LAB", group="knn_ue.methods")
    monkeypatch.setattr(methods, "entry_points", lambda **_: [entry])

    found = Methods({"softmax": METHODS["softmax"]})

    assert list(found) == ["softmax", *LAB]

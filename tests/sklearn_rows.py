"""Rows for the tests of `knn_ue.sklearn`, as fixtures."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.datasets import make_classification

from knn_ue.sklearn import KnnUEClassifier


@pytest.fixture(scope="module")
def data():
    rows, labels = make_classification(600, 6, n_informative=4, n_classes=3, class_sep=0.7, random_state=0)
    return rows[:400], labels[:400], rows[400:], labels[400:]


@pytest.fixture(scope="module")
def fitted(data):
    rows, labels, *_ = data
    return KnnUEClassifier(n_neighbors=8).fit(rows, labels)


@pytest.fixture(scope="module")
def reviews():
    nouns = ["film", "plot", "actor", "scene", "song", "ending"]
    praise = ["great", "lovely", "clever", "moving"]
    blame = ["dull", "awful", "silly", "boring"]
    texts = [
        f"the {noun} was {word} and {more}"
        for noun in nouns
        for words in (praise, blame)
        for word in words
        for more in words
    ]
    labels = np.array([label for _ in nouns for label in ("pos", "neg") for _ in range(16)])
    return texts, labels

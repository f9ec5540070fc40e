"""A batch searches each store once and fetches texts once per request kind; any calibrator and method is answered."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.arrays import softmax
from knn_ue.calibrators import Calibrator
from knn_ue.encoding import Example
from knn_ue.errors import InvalidInputError
from knn_ue.serving.work.answering import Work, run_batch
from knn_ue.serving.work.state import load_served
from pipelines import TEXT, WORDS

TEXTS = [Example(("a great film",)), Example(("an awful film",)), Example(("a film",))]
SENTENCES = [Example(("Ada", "Lovelace", "went", "to", "Oslo")), Example(("Oslo",))]


class Counting:
    """A store that counts what it is asked, and is its own copy, as one on a server may be."""

    def __init__(self, store):
        self.store = store
        self.asked = []

    def __len__(self):
        return len(self.store)

    def __getattr__(self, name):
        return getattr(self.store, name)

    def detached(self):
        return self

    def search(self, features, n_neighbors):
        self.asked.append("search")
        return self.store.search(features, n_neighbors)

    def texts_of(self, ids):
        self.asked.append("texts_of")
        return self.store.texts_of(ids)

    def vectors_of(self, ids):
        self.asked.append("vectors_of")
        return self.store.vectors_of(ids)


class Mixed(Calibrator):
    """Mixes the softmax with the uniform distribution: no logit scaling, no store, no terms."""

    kind = "mixed"
    keeps_prediction = False

    def _fit(self, validation, found, /):
        del validation, found

    def _predict_proba(self, outputs, found, /):
        del found
        return 0.5 * softmax(outputs.logits) + 0.5 / outputs.n_classes


def served_with(path, change):
    served = load_served(path, device="cpu", trust_remote_code=False)
    fitted = served.pipe.fitted_
    served.pipe.fitted_ = replace(fitted, calibrator=change(fitted.calibrator))
    return served


def counted(path):
    stores = {}

    def change(calibrator):
        stores.update({name: Counting(store) for name, store in calibrator.stores.items()})
        return calibrator.with_stores(stores)

    return served_with(path, change), stores


@pytest.mark.parametrize(
    ("task", "method", "examples"),
    [
        (TEXT, "knn-ue", TEXTS),
        (TEXT, "dac", TEXTS),
        (WORDS, "knn-ue", SENTENCES),
        (WORDS, "knn-ue-entity", SENTENCES),
    ],
)
def test_answers_of_many_requests_need_one_search_and_one_fetch_of_texts(task, method, examples, folders):
    served, stores = counted(folders(task, method))

    run_batch(served, [Work(kind="answer", examples=[example], top=3) for example in examples])

    *others, last = stores.values()
    assert last.asked == ["search", "texts_of"]
    assert all(store.asked == ["search"] for store in others)


@pytest.mark.parametrize("method", ["knn-ue", "dac"])
def test_an_explanation_searches_no_second_time(method, folders):
    served, stores = counted(folders(TEXT, method))

    run_batch(served, [Work(kind="explain", examples=TEXTS, top=3)])

    asked = [name for store in stores.values() for name in store.asked]
    assert [asked.count(name) for name in ("search", "vectors_of")] == [len(stores), 1]


def test_a_calibrator_that_scales_no_logits_is_answered_and_explained_without_a_weight(folders):
    served = served_with(folders(TEXT, "softmax"), lambda _: Mixed().fit(served_validation(folders)))

    (done,) = run_batch(served, [Work(kind="explain", examples=TEXTS, top=3)])

    probs = 0.5 * softmax(done.outputs.logits) + 0.25
    assert [answer.label for answer in done.answers] == [served.pipe.class_names[n] for n in done.outputs.predicted]
    np.testing.assert_array_equal([answer.score for answer in done.answers], probs.max(axis=1))
    assert all(answer.neighbors == () for answer in done.answers)
    assert [(why[0].weight, why[0].map, why[0].score) for why in done.why] == [
        (None, None, answer.score) for answer in done.answers
    ]
    assert done.near is None


def test_explain_of_a_method_without_terms_is_refused_in_one_sentence(folders):
    served = served_with(folders(TEXT, "softmax"), lambda _: Mixed().fit(served_validation(folders)))

    with pytest.raises(InvalidInputError, match="explain needs the method knn-ue"):
        served.pipe.explain("a film")


def test_neighbors_are_cut_to_what_each_request_asked_for(folders):
    served = load_served(folders(TEXT), device="cpu", trust_remote_code=False)

    works = [Work(kind="answer", examples=TEXTS[:1], top=top) for top in (0, 2, 5)]

    assert [len(done.answers[0].neighbors) for done in run_batch(served, works)] == [0, 2, 5]


def served_validation(folders):
    return load_served(folders(TEXT, "softmax"), device="cpu", trust_remote_code=False).pipe.validation_


def test_a_tokenizer_that_panics_fails_its_own_request_and_no_other(folder, client_of, monkeypatch):
    from knn_ue.encoding.huggingface import HuggingFaceEncoder

    class Panic(BaseException):
        pass

    def panic(encoder, examples, **options):
        if any("panic" in part for example in examples for part in example.parts):
            raise Panic("index out of bounds")
        return encode(encoder, examples, **options)

    encode = HuggingFaceEncoder.encode
    monkeypatch.setattr(HuggingFaceEncoder, "encode", panic)
    client = client_of(folder())

    assert client.post("/predict", json={"inputs": "a fine film"}).status_code == 200
    found = client.post("/predict", json={"inputs": "panic"})
    assert found.status_code == 500 and "its log says more" in found.json()["error"] and "panic" not in found.text
    assert client.post("/predict", json={"inputs": "a fine film"}).status_code == 200
    assert client.get("/ready").status_code == 200

"""A store of another kind, defined here and registered with one entry, goes through everything without touching src."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from cli_files import data_of, read_lines, run, write_rows
from knn_ue.calibrators import DensityAwareCalibration, KnnUE
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import Part, write_folder
from knn_ue.methods import make_calibrator
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.fitted import add_rows
from knn_ue.pipeline.folder import OpenedFolder
from knn_ue.stores import STORES, Datastore, NeighborStore, StoreKind, TunableStore, WritableStore, open_store
from knn_ue.types import Neighbors
from marks import slow_but
from pipelines import N_NEIGHBORS, TEXT, fit
from tiny_models import ROWS, one_thread, text_rows, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")

__all__ = ["one_thread", "tiny_model"]

ADDRESS = "memory://films"


class MemoryStore:
    """Rows in three arrays, compared one by one; it counts what it is asked for."""

    def __init__(self, where, features, labels, texts):
        self.where = where
        self.features = np.asarray(features, dtype=np.float32)
        self.labels = np.asarray(labels)
        self.texts = [None] * len(self.labels) if texts is None else list(texts)
        self.searches, self.fetches = [], []

    @classmethod
    def build(cls, address, features, labels, *, texts, index):
        assert index == "auto"  # as the user gave it: what it means is up to the store
        return cls(address, features, labels, texts)

    @classmethod
    def from_part(cls, part):
        arrays, state = part.arrays, part.state
        return cls(state["where"], arrays["features"], arrays["labels"], state["texts"])

    @property
    def n_columns(self):
        return self.features.shape[1]

    def __len__(self):
        return len(self.labels)

    def search(self, features, n_neighbors):
        self.searches.append(len(features))
        gaps = np.asarray(features, dtype=np.float64)[:, None, :] - self.features[None]
        distances = np.sqrt((gaps**2).sum(axis=2))
        ids = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
        return Neighbors(ids=ids, distances=np.take_along_axis(distances, ids, axis=1), labels=self.labels[ids])

    def texts_of(self, ids):
        self.fetches.append(len(ids))
        return [self.texts[number] for number in ids]

    def vectors_of(self, ids):
        return self.features[np.asarray(ids)]

    def normalized(self, features):
        return np.asarray(features, dtype=np.float32)

    def to_part(self):
        arrays = {"features": self.features, "labels": self.labels}
        return Part(kind="memory", state={"where": self.where, "texts": self.texts}, arrays=arrays)

    def detached(self):
        return self


class GrowingStore(MemoryStore):
    """One that can be written, but not copied: as on a server."""

    def add(self, features, labels, *, texts=None):
        ids = np.arange(len(self), len(self) + len(labels))
        self.features = np.vstack([self.features, features])
        self.labels = np.concatenate([self.labels, labels])
        self.texts += [None] * len(labels) if texts is None else list(texts)
        return ids

    def remove(self, ids):
        raise NotImplementedError


@contextmanager
def registered(kind=MemoryStore):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STORES, "memory", StoreKind(load=kind.from_part, build=kind.build))
        yield


@pytest.fixture(scope="module", autouse=True)
def memory():
    with registered():
        yield


@pytest.fixture(scope="module")
def model(tiny_model):
    return tiny_model("bert", TEXT)


@pytest.fixture(scope="module")
def pipe(model):
    return fit(model, TEXT, store=ADDRESS)


@pytest.fixture(scope="module")
def ue(pipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "ue"
    pipe.save(folder)
    return folder


@pytest.fixture(scope="module")
def client(ue):
    from starlette.testclient import TestClient

    from knn_ue.serving import ServeOptions, create_app

    app = create_app(ue, ServeOptions(device="cpu", watch_seconds=0))
    with TestClient(app, base_url="http://127.0.0.1") as found:
        yield found


def test_it_is_a_store_by_what_it_can_do_not_by_its_class(pipe):
    (store,) = pipe.calibrator_.stores.values()

    assert isinstance(store, NeighborStore)
    assert not isinstance(store, WritableStore) and not isinstance(store, TunableStore)


def test_a_datastore_can_do_everything():
    store = Datastore.build([[0.0]], [0])

    assert isinstance(store, WritableStore) and isinstance(store, TunableStore)


def test_it_gives_the_answers_of_a_datastore_of_the_same_rows(pipe, model):
    inputs = [row["text"] for row in ROWS[TEXT](10, start=300)]

    expected = fit(model, TEXT, index="exact").calibrator_
    outputs = pipe.outputs([{"text": text, "label": "pos"} for text in inputs])

    np.testing.assert_allclose(pipe.calibrator_.predict_proba(outputs), expected.predict_proba(outputs), rtol=1e-6)


@pytest.mark.parametrize("risk", [None, 0.9])
@pytest.mark.parametrize("method", slow_but("dac", ["knn-ue", "dac"]))
def test_fit_searches_the_validation_rows_once(method, risk, model):
    pipe = fit(model, TEXT, store=ADDRESS, method=method, target_risk=risk)

    assert [store.searches for store in pipe.calibrator_.stores.values()] == [[40]] * len(pipe.calibrator_.stores)


def test_fit_with_a_datastore_searches_the_validation_rows_once(model, monkeypatch):
    searched = []
    search = Datastore.search

    def counting(store, features, n_neighbors):
        searched.append(len(features))
        return search(store, features, n_neighbors)

    monkeypatch.setattr(Datastore, "search", counting)

    fit(model, TEXT, target_risk=0.9)

    assert searched == [40]


@pytest.mark.parametrize("method", ["knn-ue", "dac"])
def test_a_batch_of_answers_fetches_its_texts_in_one_call(method, model):
    pipe = fit(model, TEXT, store=ADDRESS, method=method)
    store = list(pipe.calibrator_.stores.values())[-1]

    pipe([row["text"] for row in ROWS[TEXT](20, start=300)], top=3)

    assert store.fetches == [60]


def test_an_explanation_names_its_rows(pipe):
    text = ROWS[TEXT](1)[0]["text"]

    (explanation,) = pipe.explain(text, top=1)

    assert [near.text for near in explanation.neighbors] == [text]


def test_it_is_evaluated(pipe):
    assert "knn-ue" in pipe.evaluate(ROWS[TEXT](30, start=300))


def test_a_loaded_folder_gives_the_same_answers(pipe, ue):
    loaded = UncertaintyPipeline.load(ue, device="cpu")

    (store,) = loaded.calibrator_.stores.values()
    assert type(store) is MemoryStore and store.where == ADDRESS
    assert loaded("a film") == pipe("a film")


def test_a_loaded_folder_saved_over_itself_is_the_same(pipe, ue):
    UncertaintyPipeline.load(ue, device="cpu").save(ue)

    assert UncertaintyPipeline.load(ue, device="cpu")("a film") == pipe("a film")


def test_dac_has_a_store_for_each_layer_under_a_name_of_its_own(model):
    pipe = fit(model, TEXT, store=ADDRESS, method="dac")

    assert [store.where for store in pipe.calibrator_.stores.values()] == [
        f"{ADDRESS}_{name}" for name in pipe.calibrator_.stores
    ]


@pytest.mark.slow
def test_the_commands_fit_predict_explain_and_evaluate_with_it(model, tmp_path):
    train, validation, test = data_of("text", tmp_path)
    ue, answers = tmp_path / "ue", tmp_path / "answers.jsonl"
    options = ["--task", "text", "--neighbors", N_NEIGHBORS, "--store", ADDRESS, "--out", ue]

    done = [
        run("fit", model, "--train", train, "--validation", validation, *options),
        run("predict", ue, "--input", test, "--output", answers, "--top", 2),
        run("explain", ue, "a film", "--json"),
        run("evaluate", ue, "--test", test, "--json"),
        run("index", "info", ue, "--json"),
    ]

    assert [result.exit_code for result in done] == [0] * 5, [result.output for result in done]
    assert all(near["text"] for answer in read_lines(answers) for near in answer["neighbors"])
    (shown,) = json.loads(done[-1].stdout)["datastores"]
    assert (shown["folder"], shown["examples"]) == (ADDRESS, 60)


@pytest.mark.parametrize("command", ["add", "remove", "compact", "tune"])
def test_what_it_cannot_do_is_refused_with_its_name(command, ue, tmp_path):
    options = {"add": ["--input", write_rows(tmp_path / "new.jsonl", text_rows(3))], "remove": ["--ids", "3"]}

    result = run("index", command, ue, *options.get(command, []))

    assert result.exit_code == 1
    assert ADDRESS in result.stderr and "cannot be" in result.stderr


def test_the_server_answers_and_explains_with_it(client):
    text = ROWS[TEXT](1)[0]["text"]

    (answer,) = client.post("/predict", json={"inputs": text, "top": 1}).json()["answers"]

    assert [near["text"] for near in answer["neighbors"]] == [text]
    assert client.post("/explain", json={"inputs": text}).status_code == 200
    assert client.get("/info").json()["n_stored"] == 60


@pytest.mark.parametrize(
    ("method", "address"), [("POST", "/examples"), ("DELETE", "/examples/3")], ids=["add", "remove"]
)
def test_the_server_refuses_to_change_it_with_its_name(method, address, client):
    body = {"json": {"examples": [{"text": "a film", "label": "pos"}]}} if method == "POST" else {}

    found = client.request(method, address, **body)

    assert found.status_code == 409 and ADDRESS in found.json()["error"]


def test_the_server_refits_with_it(client):
    assert client.post("/refit").status_code == 200
    assert client.get("/info").json()["n_stored"] == 60


def test_stores_that_cannot_be_copied_do_not_change_together(model, tmp_path):
    with registered(GrowingStore):
        pipe = fit(model, TEXT, store=ADDRESS, method="dac")
        pipe.save(tmp_path / "ue")
        opened = OpenedFolder.open(tmp_path / "ue")

        with pytest.raises(InvalidInputError, match="stores in different places cannot change together: refit"):
            opened.edit(lambda now: (now, add_rows(now.calibrator, pipe.outputs(ROWS[TEXT](1)))))

        assert {len(store) for store in opened.fitted.calibrator.stores.values()} == {60}


def test_a_single_store_that_can_be_written_is_written(model):
    with registered(GrowingStore):
        pipe = fit(model, TEXT, store=ADDRESS)

        ids = add_rows(pipe.calibrator_, pipe.outputs(ROWS[TEXT](2, start=500)))

    (store,) = pipe.calibrator_.stores.values()
    assert ids.tolist() == [60, 61] and len(store) == 62


def test_a_store_is_opened_by_its_kind(tmp_path):
    write_folder(tmp_path / "memory", MemoryStore(ADDRESS, [[0.0]], [0], ["zero"]).to_part())
    Datastore.build([[0.0]], [0]).save(tmp_path / "datastore")

    assert type(open_store(tmp_path / "memory")) is MemoryStore
    assert type(open_store(tmp_path / "datastore")) is Datastore


def test_a_folder_of_an_unknown_kind_is_refused(tmp_path):
    write_folder(tmp_path / "store", Part(kind="strange", arrays={"a": np.zeros(1)}))

    with pytest.raises(StorageError, match="holds a 'strange', which is not a known store"):
        open_store(tmp_path / "store")


def test_an_address_is_opened_by_its_scheme(monkeypatch):
    opened = MemoryStore(ADDRESS, [[0.0]], [0], None)
    monkeypatch.setitem(STORES, "memory", StoreKind(load=MemoryStore.from_part, open=lambda _: opened))

    assert open_store(ADDRESS) is opened


@pytest.mark.parametrize("address", ["nowhere://films", "films", "datastore://films"])
def test_an_address_that_nothing_can_be_stored_at_is_refused_before_the_model_runs(address, model, monkeypatch):
    pipe = UncertaintyPipeline.from_pretrained(model, TEXT, device="cpu")
    monkeypatch.setattr(type(pipe.encoder), "encode", lambda *_, **__: pytest.fail("the model ran"))

    with pytest.raises(InvalidInputError, match="memory://"):
        pipe.fit(ROWS[TEXT](20), ROWS[TEXT](20), store=address)


def test_a_method_that_stores_nothing_refuses_an_address(model):
    with pytest.raises(InvalidInputError, match="temperature stores no examples: leave out store"):
        fit(model, TEXT, method="temperature", store=ADDRESS)


def test_with_stores_keeps_what_was_fitted_and_refuses_other_names(toy):
    train, validation, test = toy
    fitted = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=8).fit(validation)

    moved = fitted.with_stores({"store": MemoryStore(ADDRESS, train.features, train.labels, None)})

    np.testing.assert_allclose(moved.predict_proba(test), fitted.predict_proba(test), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="has the stores"):
        fitted.with_stores({"other": moved.store})


@pytest.mark.parametrize("name", ["knn-ue", "knn-ue-no-label", "dac"])
def test_neighbors_that_are_handed_on_give_the_same_numbers(name, hard_toy):
    train, validation, test, _ = hard_toy
    expected = make_calibrator(name, train, n_neighbors=8).fit(validation).predict_proba(test)
    calibrator = make_calibrator(name, train, n_neighbors=8)

    calibrator.fit(validation, found=calibrator.search(validation))

    np.testing.assert_array_equal(calibrator.predict_proba(test, found=calibrator.search(test)), expected)


def test_neighbors_of_other_rows_are_refused(hard_toy):
    train, validation, test, _ = hard_toy
    calibrator = DensityAwareCalibration.from_layers(train, n_neighbors=8).fit(validation)

    with pytest.raises(InvalidInputError, match="found must hold the 8 neighbors of these"):
        calibrator.predict_proba(test, found=calibrator.search(test.take([0, 1])))


def test_without_another_store_an_address_is_refused_with_the_way_out(model, monkeypatch):
    monkeypatch.delitem(STORES, "memory")
    monkeypatch.delitem(STORES, "milvus")

    with pytest.raises(InvalidInputError, match=r"no store is known by the address .*: leave it out"):
        fit(model, TEXT, store=ADDRESS)

"""A decision defined in one file and registered in one line runs through everything, without a change to `src`."""

import json
import warnings

import pytest

from cli_files import read_lines, run, write_rows
from knn_ue.decisions import DECISIONS
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import N_NEIGHBORS, TEXT, WORDS
from tiny_models import ROWS, one_thread, save_tiny_model

__all__ = ["one_thread"]

pytest.importorskip("torch")
pytest.importorskip("transformers")


class Constant:
    """Says the same of every answer, and counts what it was fitted on."""

    kind = "constant"

    def __init__(self, n=0):
        self.n = n

    def __str__(self):
        return f"every answer is checked by nobody ({self.n} held-out answers)"

    def fit(self, held_out):
        return Constant(len(held_out))

    def fields(self, scored):
        return [{"checked_by": "nobody"}] * len(scored)

    def to_plain(self):
        return {"n": self.n}

    @classmethod
    def from_plain(cls, plain):
        return cls(**plain)


@pytest.fixture(autouse=True, scope="module")
def registered():
    DECISIONS[Constant.kind] = Constant
    yield
    del DECISIONS[Constant.kind]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a model, and a UE folder that the command line fitted with the decision and a risk."""
    place = tmp_path_factory.mktemp("constant")
    model = save_tiny_model(place / "model", family="bert", task=TEXT)
    train = write_rows(place / "train.jsonl", ROWS[TEXT](60))
    validation = write_rows(place / "validation.jsonl", ROWS[TEXT](40, start=100))
    data = ("--train", train, "--validation", validation, "--neighbors", N_NEIGHBORS, "--task", "text")
    result = run("fit", model, *data, "--out", place / "ue", "--decision", "constant", "--target-risk", 0.9)
    assert result.exit_code == 0, result.output
    return place


def test_fit_prints_what_was_decided_on(made):
    data = ("--train", made / "train.jsonl", "--validation", made / "validation.jsonl", "--neighbors", N_NEIGHBORS)

    shown = run("fit", made / "model", *data, "--task", "text", "--out", made / "ue2", "--decision", "constant")
    plain = run("fit", made / "model", *data, "--task", "text", "--out", made / "ue3", "--decision=constant", "--json")

    assert "every answer is checked by nobody (20 held-out answers)" in shown.stdout
    assert json.loads(plain.stdout)["decisions"] == [{"kind": "constant", "n": 20}]


def test_answers_carry_what_it_adds(made):
    pipe = UncertaintyPipeline.load(made / "ue", device="cpu")

    (answer,) = pipe("a great film")

    assert answer.decisions == {"checked_by": "nobody"}
    assert answer.to_dict()["decisions"] == {"checked_by": "nobody"}


def test_it_stands_beside_the_risk_threshold(made):
    pipe = UncertaintyPipeline.load(made / "ue", device="cpu")

    assert [decision.kind for decision in pipe.decisions_] == ["risk", "constant"]
    assert pipe.threshold_ is pipe.decisions_[0]
    assert pipe("a film", abstain_below=1.0)[0].abstained


def test_save_load_and_refit_keep_it(made, tmp_path):
    pipe = UncertaintyPipeline.load(made / "ue", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.use_index("exact").save(tmp_path / "again")

    again = UncertaintyPipeline.load(tmp_path / "again", device="cpu")

    assert [decision.to_plain() for decision in again.decisions_] == [d.to_plain() for d in pipe.decisions_]
    assert again("a film")[0].decisions == {"checked_by": "nobody"}


@pytest.mark.slow
def test_predict_evaluate_and_explain_run_on_the_command_line(made, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", ROWS[TEXT](3, start=300))

    answered = run("predict", made / "ue", "--input", source, "--output", tmp_path / "answers.jsonl")
    evaluated = run("evaluate", made / "ue", "--test", source, "--json")
    explained = run("explain", made / "ue", "a film", "--json")

    assert [found.exit_code for found in (answered, evaluated, explained)] == [0, 0, 0]
    assert [line["decisions"] for line in read_lines(tmp_path / "answers.jsonl")] == [{"checked_by": "nobody"}] * 3


@pytest.mark.slow
def test_the_server_gives_it_with_every_answer(made):
    testclient = pytest.importorskip("starlette.testclient")
    serving = pytest.importorskip("knn_ue.serving")
    app = serving.create_app(made / "ue", serving.ServeOptions(device="cpu", watch_seconds=0))

    with testclient.TestClient(app, base_url="http://127.0.0.1") as client:
        predicted = client.post("/predict", json={"inputs": "a film"}).json()["answers"][0]
        explained = client.post("/explain", json={"inputs": "a film"}).json()["explanations"][0]["answer"]

    assert predicted["decisions"] == explained["decisions"] == {"checked_by": "nobody"}


@pytest.mark.slow
def test_in_tagging_it_speaks_of_entities(tmp_path):
    model = save_tiny_model(tmp_path / "model", family="bert", task=WORDS)
    pipe = UncertaintyPipeline.from_pretrained(model, WORDS, device="cpu")
    pipe.fit(ROWS[WORDS](20), ROWS[WORDS](20, start=100), n_neighbors=4, decisions=[Constant()])

    (answer,) = pipe([ROWS[WORDS](1)[0]["tokens"]])

    assert answer.entities and all(entity.decisions == {"checked_by": "nobody"} for entity in answer.entities)
    assert all(word.decisions is None for word in answer.words)

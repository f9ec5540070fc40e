"""A calibrator that is no logit scaling, defined here and registered with one entry, goes through everything."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from cli_files import data_of, read_lines, run
from knn_ue.answers import Explanation
from knn_ue.arrays import softmax
from knn_ue.calibrators import Calibrator
from knn_ue.folder import ArrayRule
from knn_ue.methods import METHODS, Method, load_calibrator, make_calibrator
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import TEXT, fit
from tiny_models import ROWS, one_thread, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")

__all__ = ["one_thread", "tiny_model"]

NAME = "prior"


class PriorMixture(Calibrator):
    """p = (1 - share) * softmax + share * how often each class is trained on; the share by the validation log-loss."""

    kind = "prior"
    keeps_prediction = False
    ARRAYS = {"frequencies": ArrayRule(dtype=np.float64, shape=("classes",), least=0, most=1)}  # noqa: RUF012

    @dataclass(frozen=True, kw_only=True)
    class State:
        share_: float

    def __init__(self, frequencies):
        self.frequencies = np.asarray(frequencies)

    @classmethod
    def from_training(cls, train):
        return cls(np.bincount(train.require_labels("prior"), minlength=train.n_classes) / len(train))

    def _fit(self, validation, _found):
        rows = np.arange(len(validation))
        shares = np.linspace(0, 1, 101)
        self.share_ = float(
            min(shares, key=lambda x: -np.log(self._mix(validation, x)[rows, validation.labels]).mean())
        )

    def _predict_proba(self, outputs, _found):
        return self._mix(outputs, self.share_)

    def _mix(self, outputs, share):
        return (1 - share) * softmax(outputs.logits) + share * self.frequencies


class ExplainedPrior(PriorMixture):
    """The same, and it says why in its own way: it has no weight and no neighbors."""

    kind = "prior-explained"
    explains = True

    def explain(self, outputs, *, top=5, found=None):  # noqa: ARG002 (there are no neighbors to show)
        prediction = self.predict(outputs)
        return [
            Explanation(
                text=outputs.texts[row],
                label=outputs.class_names[number],
                score=float(prediction.confidence[row]),
                raw_score=float(prediction.raw_confidence[row]),
                raised_by=(f"{self.frequencies[number]:.0%} of the training rows are {outputs.class_names[number]}",),
                lowered_by=(),
                **dict.fromkeys(NO_TERMS),
                n_neighbors=0,
                neighbors=(),
            )
            for row, number in enumerate(prediction.predicted.tolist())
        ]


NO_TERMS = ("weight", "distance_term", "label_term", "usual_distance_term", "usual_label_term", "n_agreeing")


@pytest.fixture(scope="module", autouse=True)
def registered():
    with pytest.MonkeyPatch.context() as patch:
        for calibrator in (PriorMixture, ExplainedPrior):
            method = Method(
                calibrator=calibrator,
                make=lambda train, _search, calibrator=calibrator: calibrator.from_training(train),
                summary="a mixture with how often each class is trained on",
            )
            patch.setitem(METHODS, calibrator.kind, method)
        yield


@pytest.fixture(scope="module")
def model(tiny_model):
    return tiny_model("bert", TEXT)


@pytest.fixture(scope="module")
def pipe(model):
    return fit(model, TEXT, method=NAME)


@pytest.fixture(scope="module")
def ue(pipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prior") / "ue"
    pipe.save(folder)
    return folder


def test_its_probabilities_are_no_scaled_logits_and_sum_to_one(toy):
    train, validation, test = toy

    probs = make_calibrator(NAME, train).fit(validation).predict_proba(test)

    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    assert make_calibrator(NAME, train).fit(validation).weight(test) is None


def test_load_gives_equal_probabilities(toy, tmp_path):
    train, validation, test = toy
    fitted = make_calibrator(NAME, train).fit(validation)

    fitted.save(tmp_path / "prior")

    np.testing.assert_array_equal(load_calibrator(tmp_path / "prior").predict_proba(test), fitted.predict_proba(test))


def test_a_loaded_folder_gives_the_same_answers(pipe, ue):
    assert UncertaintyPipeline.load(ue, device="cpu")("a film") == pipe("a film")


def test_it_has_no_neighbors_and_no_drift(pipe):
    assert (dict(pipe.calibrator_.stores), pipe.drift_) == ({}, None)


def test_explain_is_refused_with_its_name(pipe):
    from knn_ue.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match=f"fitted with '{NAME}'"):
        pipe.explain("a film")
    with pytest.raises(InvalidInputError, match="explain needs a method with terms to show"):
        pipe.calibrator_.explain(pipe.validation_)
    with pytest.raises(InvalidInputError, match="entity scores need the method knn-ue-entity"):
        pipe.calibrator_.read(pipe.validation_)


def test_one_that_explains_in_its_own_way_explains_everywhere(model, tmp_path):
    pipe = fit(model, TEXT, method=ExplainedPrior.kind)
    pipe.save(tmp_path / "ue")

    (why,) = pipe.explain("a film")
    (shown,) = json.loads(run("explain", tmp_path / "ue", "a film", "--json").stdout)

    assert "of the training rows are" in why.raised_by[0] and why.raised_by[0] in str(why)
    assert shown == why.to_dict()


def test_it_is_evaluated_beside_the_raw_model(pipe):
    assert NAME in pipe.evaluate(ROWS[TEXT](30, start=300))


@pytest.mark.slow
def test_the_commands_fit_predict_and_evaluate_with_it(model, tmp_path):
    train, validation, test = data_of("text", tmp_path)
    ue, answers = tmp_path / "ue", tmp_path / "answers.jsonl"

    done = [
        run(
            "fit", model, "--train", train, "--validation", validation, "--task", "text", "--method", NAME, "--out", ue
        ),
        run("predict", ue, "--input", test, "--output", answers),
        run("evaluate", ue, "--test", test, "--json"),
        run("index", "info", ue, "--json"),
    ]

    assert [result.exit_code for result in done] == [0] * 4, [result.output for result in done]
    assert len(read_lines(answers)) == 30
    assert json.loads(done[-1].stdout)["datastores"] == []


@pytest.mark.parametrize("command", [("explain", "a film"), ("index", "compact"), ("index", "tune")], ids=str)
def test_the_commands_refuse_what_it_cannot_do(command, ue):
    name, *rest = command
    arguments = (name, ue, *rest) if name == "explain" else (*command, ue)

    result = run(*arguments)

    assert result.exit_code == 1 and result.exception.__class__ is SystemExit


def test_the_server_answers_and_explains_with_it(ue, pipe):
    from starlette.testclient import TestClient

    from knn_ue.serving import ServeOptions, create_app

    app = create_app(ue, ServeOptions(device="cpu", watch_seconds=0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        (answer,) = client.post("/predict", json={"inputs": "a film"}).json()["answers"]
        why = client.post("/explain", json={"inputs": "a film"})
        changed = client.post("/examples", json={"examples": [{"text": "a film", "label": "pos"}]})

    expected = pipe.calibrator_.predict(pipe.outputs([{"text": "a film", "label": "pos"}])).confidence[0]
    assert answer["score"] == pytest.approx(expected, abs=1e-5)
    assert why.status_code == 200
    assert changed.status_code == 409 and NAME in changed.json()["error"]

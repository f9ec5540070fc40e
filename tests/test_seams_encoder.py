"""An encoder defined in this file, without torch, goes through everything once one line has registered it."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from knn_ue import InvalidInputError, Outputs, StorageError, UncertaintyPipeline
from knn_ue.encoding import Encoder, EncoderPart
from knn_ue.encoding.inputs import class_numbers
from knn_ue.encoding.registry import ENCODERS

WORDS = ("lovely", "great", "awful", "boring", "film", "dog", "the", "was")
GOOD, BAD = slice(0, 2), slice(2, 4)


@dataclass(frozen=True)
class BagOptions:
    batch_size: int = 4
    scale: float = 1.0


class BagEncoder(Encoder):
    """Counts words: the features are the counts, the logits compare good words with bad ones."""

    kind = "bag-of-words"

    def __init__(self, task="text-classification", class_names=("neg", "pos"), options=None):
        self.task, self.class_names, self.options = task, tuple(class_names), options or BagOptions()

    def encode(self, examples, *, with_labels=True, progress=None):
        examples = list(examples)
        counts = [Counter(" ".join(example.parts).split()) for example in examples]
        features = np.array([[count[word] for word in WORDS] for count in counts]).reshape(-1, len(WORDS))
        margin = self.options.scale * (features[:, GOOD].sum(axis=1) - features[:, BAD].sum(axis=1))
        if progress is not None:
            progress(len(examples), len(examples))
        labeled = with_labels and examples and examples[0].labels is not None
        shown = {"pairs" if self.task == "text-pair" else "texts": [self._shown(x) for x in examples]}
        return Outputs(
            features=features,
            logits=np.stack([-margin, margin], axis=1).reshape(-1, 2),
            labels=class_numbers(examples, self.class_names) if labeled else None,
            class_names=self.class_names,
            **shown,
        )

    def _shown(self, example):
        return example.parts if self.task == "text-pair" else example.parts[0]

    def to_part(self):
        plain = {"options": asdict(self.options)}
        return EncoderPart(kind=self.kind, task=self.task, class_names=self.class_names, plain=plain)

    @classmethod
    def from_part(cls, part, *, device, trust_remote_code):  # noqa: ARG003 (it has no weights)
        return cls(part.task, part.class_names, BagOptions(**part.plain["options"]))


def rows(n_rows, start=0):
    """Return reviews in which every seventh label is wrong."""
    words = ["awful", "lovely", "boring", "great"]
    made = []
    for number in range(start, start + n_rows):
        text = f"the film was {words[number % 4]} " + "dog " * (number % 3)
        made.append({"text": text.strip(), "label": "pos" if (number % 2 == 1) != (number % 7 == 0) else "neg"})
    return made


def fitted(method="knn-ue", **options):
    pipe = UncertaintyPipeline(BagEncoder())
    return pipe.fit(rows(60), rows(40, 100), method=method, **({"n_neighbors": 5, "allow_leakage": True} | options))


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(ENCODERS, BagEncoder.kind, BagEncoder)


@pytest.fixture
def ue(tmp_path):
    fitted().save(tmp_path / "ue")
    return tmp_path / "ue"


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(20, 200)), encoding="utf-8")
    return path


def run(*arguments):
    from cli_files import run as run_command

    found = run_command(*arguments)
    assert found.exit_code == 0, found.output
    return found


def test_it_answers_with_calibrated_scores():
    (answer,) = fitted()("the film was lovely")

    assert (answer.label, answer.raw_score > answer.score) == ("pos", True)


def test_it_explains():
    (explanation,) = fitted().explain(["the film was lovely"], top=3)

    assert len(explanation.neighbors) == 3


def test_it_is_evaluated():
    evaluation = fitted().evaluate(rows(20, 200))

    assert "knn-ue" in next(iter(evaluation.tables.values())).scores


def test_a_loaded_folder_gives_the_same_answers(ue):
    loaded = UncertaintyPipeline.load(ue)

    assert loaded(["the film was lovely"]) == fitted()(["the film was lovely"])


def test_its_options_come_back(tmp_path):
    pipe = UncertaintyPipeline(BagEncoder(options=BagOptions(scale=0.5)))
    pipe.fit(rows(60), rows(40, 100), n_neighbors=5, allow_leakage=True).save(tmp_path / "ue")

    assert UncertaintyPipeline.load(tmp_path / "ue").encoder.options == BagOptions(scale=0.5)


def test_a_pipeline_is_built_from_an_encoder_and_what_was_fitted():
    parts = fitted()

    built = UncertaintyPipeline(parts.encoder, parts.fitted_)

    assert built("the film was boring") == parts("the film was boring")


def test_reloading_keeps_an_encoder_that_is_the_same(ue):
    pipe = UncertaintyPipeline.load(ue)

    assert pipe.reloaded(ue).encoder is pipe.encoder


def test_reloading_takes_an_encoder_that_is_another(ue):
    pipe = UncertaintyPipeline(BagEncoder(options=BagOptions(scale=2.0)), fitted().fitted_)

    assert pipe.reloaded(ue).encoder.options == BagOptions()


def test_a_pair_stays_a_pair_whatever_it_contains(tmp_path):
    made = [{"premise": f"a → b {n}", "hypothesis": "lovely → c", "label": "pos"} for n in range(20)]
    made += [{"premise": f"a → b {n}", "hypothesis": "awful →", "label": "neg"} for n in range(20)]
    pipe = UncertaintyPipeline(BagEncoder("text-pair")).fit(made, made, n_neighbors=5, allow_leakage=True)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue")

    assert loaded.validation_.pairs == tuple((row["premise"], row["hypothesis"]) for row in made)
    assert loaded.validation_.texts[0] == "a → b 0 → lovely → c"


def test_a_served_pair_with_arrows_is_offered_to_try_as_it_was(tmp_path):
    from knn_ue.serving.work.state import load_served

    made = [{"premise": f"a long premise → number {n}", "hypothesis": "lovely → c", "label": "pos"} for n in range(20)]
    made += [{"premise": f"a long premise → number {n}", "hypothesis": "awful", "label": "neg"} for n in range(20)]
    UncertaintyPipeline(BagEncoder("text-pair")).fit(made, made, n_neighbors=5, allow_leakage=True).save(
        tmp_path / "ue"
    )

    samples = load_served(tmp_path / "ue", device="cpu", trust_remote_code=False).facts()["samples"]

    assert samples[0] == ["a long premise → number 0", "lovely → c"]


def test_a_method_that_needs_what_it_cannot_do_is_refused():
    with pytest.raises(InvalidInputError, match="the encoder 'bag-of-words' cannot be used with passes=20"):
        fitted("mc-dropout")


def test_a_method_that_trains_the_model_is_refused():
    with pytest.raises(InvalidInputError, match="sngp needs a model with sngp training, this one has plain"):
        fitted("sngp")


def test_a_folder_of_an_unknown_encoder_names_it(ue, monkeypatch):
    monkeypatch.delitem(ENCODERS, BagEncoder.kind)

    with pytest.raises(
        StorageError, match=r"an encoder of the kind 'bag-of-words', known are huggingface.*: import the module"
    ):
        UncertaintyPipeline.load(ue)


def test_the_command_predicts(ue, rows_file, tmp_path):
    run("predict", ue, "--input", rows_file, "--output", tmp_path / "answers.jsonl")

    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [answer["score"] for answer in answers] == [answer.score for answer in fitted()(rows(20, 200))]


def test_the_command_fits_the_model_of_a_ue_folder_again(ue, rows_file, tmp_path):
    data = (
        "--train",
        rows_file,
        "--validation",
        rows_file,
        "--neighbors",
        3,
        "--method",
        "knn-ue-no-label",
        "--allow-leakage",
    )
    run("fit", ue, *data, "--out", tmp_path / "again")

    again = UncertaintyPipeline.load(tmp_path / "again")
    assert (again.method_, again.encoder.kind, len(again.validation_)) == ("knn-ue-no-label", BagEncoder.kind, 20)


def test_the_command_refuses_another_task_than_that_of_the_ue_folder(ue, rows_file, tmp_path):
    from cli_files import run as run_command

    data = ("--train", rows_file, "--validation", rows_file, "--task", "pair")
    result = run_command("fit", ue, *data, "--out", tmp_path / "again")

    assert result.exit_code == 1 and "was fitted for text-classification" in result.output


def test_the_command_evaluates(ue, rows_file):
    assert json.loads(run("evaluate", ue, "--test", rows_file, "--json").stdout)


def test_the_command_explains(ue):
    assert "lovely" in run("explain", ue, "the film was lovely").stdout


def test_the_command_shows_what_is_stored(ue):
    assert "60" in run("index", "info", ue).stdout


def test_the_command_adds_examples(ue, rows_file):
    run("index", "add", ue, "--input", rows_file)

    assert "80" in run("index", "info", ue).stdout


def test_the_server_answers_and_tells_what_it_serves(ue):
    testclient = pytest.importorskip("starlette.testclient")
    from knn_ue.serving import ServeOptions, create_app

    options = ServeOptions(device="cpu", watch_seconds=0)
    with testclient.TestClient(create_app(ue, options), base_url="http://127.0.0.1") as client:
        answered = client.post("/predict", json={"inputs": ["the film was lovely"]})
        known = client.get("/info").json()

    assert answered.status_code == 200, answered.text
    assert (known["task"], known["n_stored"], known["max_length"]) == ("text-classification", 60, None)


@pytest.mark.slow
def test_none_of_it_needs_torch(tmp_path):
    code = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        f"here = runpy.run_path({str(Path(__file__))!r})\n"
        "here['ENCODERS'][here['BagEncoder'].kind] = here['BagEncoder']\n"
        f"here['fitted']().save({str(tmp_path / 'ue')!r})\n"
        f"print(here['UncertaintyPipeline'].load({str(tmp_path / 'ue')!r})('the film was lovely')[0].label)\n"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (shown.stdout.strip(), shown.returncode) == ("pos", 0), shown.stderr

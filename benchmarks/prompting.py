"""kNN-UE on a prompted language model, against contextual calibration, batch calibration and temperature.

    python benchmarks/prompting.py --model MODEL --data DIR --cache DIR [--tasks sentiment,nli] [--json FILE]

MODEL is a folder with a decoder-only model (docs/prompting_results.md says how ours was made), DIR the evaluation
data. Rows go through the model once, 50 at a time, into the cache; an interrupted run continues. Prompts and label
words are those of Zhao et al. (2021), and nothing was tuned. Each of 3 draws takes 100 other labeled rows, 64 of them
to store and 36 to fit on, so that a standard deviation is over labeled examples; test rows are the same for all.

| method | what it sees of the user's data |
|---|---|
| softmax | nothing: the label words' probabilities |
| contextual | nothing: divides by the probabilities after the inputs "N/A", "[MASK]" and "" (Zhao et al., 2021) |
| batch | the texts of the test set, unlabeled: divides by the mean of their probabilities (Zhou et al., 2023) |
| temperature, knn-ue | the 100 labeled rows |
| batch of stored + ... | the 100 labeled rows; the division is by the mean over the 64 stored texts |
| probe, probe + knn-ue | the 100 labeled rows: logistic regression on the hidden state, fitted on the 64 |

The last lines list where kNN-UE has a worse mean than a rival that sees no more than it does.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from knn_ue import Datastore, KnnUE, Outputs, SoftmaxResponse, TemperatureScaling, metrics
from knn_ue.arrays import FloatArray
from knn_ue.data import read_rows
from knn_ue.encoding.causal import CausalLMEncoder, PromptOptions

N_DRAWS, N_STORED, N_VALIDATION, N_NEIGHBORS, CHUNK = 3, 64, 36, 16, 50
CONTENT_FREE = ("N/A", "[MASK]", "")
MEASURES = {"accuracy": "accuracy %", "ece": "ECE %", "e_aurc": "E-AURC ×1000"}


@dataclass(frozen=True)
class Case:
    """A prompt with its words, the files that labeled rows are drawn from, and the test sets, the first in domain.

    A file is given with the first and the last of its rows, shuffled, that are used: no row is used twice.
    """

    prompt: str
    words: Mapping[str, str]
    pool: Sequence[tuple[str, int, int]]
    tests: Mapping[str, tuple[str, int, int]]
    max_length: int


CASES = {
    "sentiment": Case(
        prompt="Review: {text}\nSentiment:",
        words={"pos": "Positive", "neg": "Negative"},
        pool=[("sentiment/imdb/train.jsonl.gz", 0, 150), ("sentiment/imdb/test.jsonl.gz", 150, 300)],
        tests={
            "IMDb": ("sentiment/imdb/test.jsonl.gz", 0, 150),
            "Yelp": ("sentiment/dynasent-yelp/test.jsonl.gz", 0, 300),
            "DynaSent r2": ("sentiment/dynasent-r2/test.jsonl.gz", 0, 300),
        },
        max_length=96,
    ),
    "nli": Case(
        prompt="{premise}\nquestion: {hypothesis} true, false, or neither?\nanswer:",
        words={"entailment": "true", "neutral": "neither", "contradiction": "false"},
        pool=[("nli/mnli/train.jsonl.gz", 0, 300)],
        tests={
            "MNLI": ("nli/mnli/test.jsonl.gz", 0, 150),
            "SNLI": ("nli/snli/test.jsonl.gz", 0, 150),
            "ANLI": ("nli/anli/test_r3.jsonl.gz", 0, 150),
        },
        max_length=128,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(CASES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    results: list[dict[str, Any]] = []
    for task in arguments.tasks.split(","):
        case = CASES[task]
        encoder = CausalLMEncoder(
            arguments.model, case.prompt, case.words, options=PromptOptions(max_length=case.max_length, views=False)
        )
        encoded = Encoded(encoder, arguments.data, arguments.cache / task)
        tests = {name: encoded.rows([part]) for name, part in case.tests.items()}
        free = encoded.content_free()
        pool = encoded.rows(case.pool)
        for draw in range(N_DRAWS):
            rows = np.arange(draw, len(pool), N_DRAWS)
            stored, validation = pool.take(rows[:N_STORED]), pool.take(rows[N_STORED:])
            for name, test in tests.items():
                for method, probs in answers(stored, validation, test, free):
                    results.append({"task": task, "set": name, "method": method, "draw": draw, **measured(probs, test)})
        print_table([line for line in results if line["task"] == task])
    print_losses(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


class Encoded:
    """Rows of the data through the encoder, a chunk at a time; chunks that were made are read again."""

    def __init__(self, encoder: CausalLMEncoder, data: Path, cache: Path) -> None:
        self.encoder, self.data, self.cache = encoder, data, cache
        cache.mkdir(parents=True, exist_ok=True)

    def rows(self, parts: Sequence[tuple[str, int, int]]) -> Outputs:
        """Return the outputs of some rows of each file, shuffled with a fixed seed."""
        chunks = []
        for file, first, last in parts:
            found = list(read_rows(str(self.data / file), self.encoder.task))
            order = np.random.default_rng(0).permutation(len(found))
            for start in range(first, last, CHUNK):
                name = f"{file.split('.')[0].replace('/', '-')}-{start}"
                chunks.append(self._chunk(name, [found[row] for row in order[start : start + CHUNK]]))
        return Outputs(**{name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]})

    def content_free(self) -> FloatArray:
        """Return the mean probabilities after inputs without content."""
        n_parts = 2 if self.encoder.task == "text-pair" else 1
        inputs = [text if n_parts == 1 else (text, text) for text in CONTENT_FREE]
        probs: FloatArray = softmax(self.encoder.encode(inputs).logits).mean(axis=0)
        return probs

    def _chunk(self, name: str, rows: Sequence[Any]) -> dict[str, Any]:
        path = self.cache / f"{name}.npz"
        if not path.exists():
            made = self.encoder.encode(rows)
            arrays = {"features": made.features, "logits": made.logits, "labels": made.labels}
            temporary = path.with_suffix(".part.npz")
            np.savez(temporary, **{key: value for key, value in arrays.items() if value is not None})
            temporary.rename(path)
            print(f"encoded {path.name}", flush=True)
        with np.load(path, allow_pickle=False) as arrays_of:
            return dict(arrays_of)


def answers(
    stored: Outputs, validation: Outputs, test: Outputs, content_free: FloatArray
) -> Iterator[tuple[str, FloatArray]]:
    """Yield each method with its probabilities on the test rows."""
    yield "softmax", SoftmaxResponse().fit(validation).predict_proba(test)
    yield "contextual", softmax(divided(test, content_free).logits)
    yield "batch", softmax(divided(test, mean_probs(test)).logits)
    yield from calibrated("", stored, validation, test)
    parts = [divided(part, mean_probs(stored)) for part in (stored, validation, test)]
    yield "batch of stored", softmax(parts[-1].logits)
    yield from calibrated("batch of stored + ", *parts)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, C=0.01))
    probe.fit(stored.features, stored.labels)
    parts = [replace(part, logits=probe.predict_log_proba(part.features)) for part in (stored, validation, test)]
    yield "probe", softmax(parts[-1].logits)
    yield from calibrated("probe + ", *parts)


def calibrated(name: str, stored: Outputs, validation: Outputs, test: Outputs) -> Iterator[tuple[str, FloatArray]]:
    yield f"{name}temperature", TemperatureScaling().fit(validation).predict_proba(test)
    store = Datastore.build(stored.features, stored.labels, index="exact")
    yield f"{name}knn-ue", KnnUE(store, n_neighbors=N_NEIGHBORS).fit(validation).predict_proba(test)


def divided(outputs: Outputs, prior: FloatArray) -> Outputs:
    """Return the outputs with every class divided by its prior."""
    return replace(outputs, logits=outputs.logits - np.log(prior).astype(np.float32))


def mean_probs(outputs: Outputs) -> FloatArray:
    probs: FloatArray = softmax(outputs.logits).mean(axis=0)
    return probs


def softmax(logits: FloatArray) -> FloatArray:
    powers = np.exp(np.float64(logits) - logits.max(axis=1, keepdims=True))
    probs: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return probs


def measured(probs: FloatArray, test: Outputs) -> dict[str, float]:
    labels = test.require_labels("the benchmark")
    correct = probs.argmax(axis=1) == labels
    return {
        "accuracy": 100 * float(correct.mean()),
        "ece": 100 * metrics.expected_calibration_error(probs=probs, labels=labels),
        "e_aurc": 1000 * metrics.e_aurc(confidence=probs.max(axis=1), correct=correct),
    }


def values(lines: Sequence[Mapping[str, Any]], measure: str, **wanted: str) -> FloatArray:
    """Return the numbers of one measure, one per draw."""
    return np.array([line[measure] for line in lines if all(line[key] == value for key, value in wanted.items())])


def print_table(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print mean ± standard deviation over draws, as the tables of docs/prompting_results.md."""
    sets = list(dict.fromkeys(line["set"] for line in lines))
    print(
        f"\n{lines[0]['task']}\n\n| method | " + " | ".join(f"{s}: {m}" for s in sets for m in MEASURES.values()) + " |"
    )
    print("|---|" + "--:|" * (len(sets) * len(MEASURES)))
    for method in dict.fromkeys(line["method"] for line in lines):
        numbers = [values(lines, measure, method=method, set=name) for name in sets for measure in MEASURES]
        print(f"| {method} | " + " | ".join(f"{one.mean():.1f} ± {one.std(ddof=1):.1f}" for one in numbers) + " |")


def print_losses(results: Sequence[Mapping[str, Any]]) -> None:
    """Print where a rival has a better mean than kNN-UE on the same logits, or than kNN-UE on the plain ones."""
    print("\nkNN-UE is worse (difference of the means, ± its standard deviation over draws):")
    rivals = {
        "knn-ue": ("softmax", "contextual", "batch", "temperature"),
        "batch of stored + knn-ue": ("contextual", "batch", "batch of stored", "batch of stored + temperature"),
        "probe + knn-ue": ("probe", "probe + temperature"),
    }
    for name in dict.fromkeys(line["set"] for line in results):
        for ours, others in rivals.items():
            for other in others:
                for measure, title in MEASURES.items():
                    change = values(results, measure, method=ours, set=name) - values(
                        results, measure, method=other, set=name
                    )
                    worse = -change if measure == "accuracy" else change
                    if worse.mean() > 0.05:
                        print(f"  {name}: {ours} than {other}, {title} by {worse.mean():.1f} ± {worse.std(ddof=1):.1f}")


if __name__ == "__main__":
    main()

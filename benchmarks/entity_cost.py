"""What knn-ue-entity costs beside the forward pass of its tagger, in processor time of one thread.

    python benchmarks/entity_cost.py --data DIR --work DIR [--cell wikineural-0] [--rows 200] [--json FILE]

The folders are those of `benchmarks/entities.py`. "All words" is the search as it was before only the words of entities
were looked up. Times are milliseconds per sentence, the least of three rounds.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from entities import INDEX, SETS, Encoder, drawn, parser_of, read, training_rows
from knn_ue.calibrators import KnnUEEntity
from knn_ue.pipeline.answers import answer_examples
from knn_ue.pipeline.rows import labeled_examples
from knn_ue.stores import Datastore

_ROUNDS = 3


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--cell", default="wikineural-0")
    parser.add_argument("--rows", type=int, default=200)
    arguments = parser.parse_args()
    found = costs(arguments)
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def costs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return milliseconds of processor time per sentence, and how far the scores of both indexes are apart."""
    import torch

    torch.set_num_threads(1)
    domain, seed = arguments.cell.rsplit("-", 1)
    encoder = Encoder(domain, int(seed), ["softmax"], arguments)
    train_rows, validation_rows, _ = training_rows(domain, arguments.data)
    train, validation = encoder.outputs("train", train_rows), encoder.outputs("validation", validation_rows)
    pipe = encoder.pipe
    rows = drawn(read(arguments.data, SETS[domain]), arguments.rows)
    examples = labeled_examples(rows, "token-classification", pipe.class_names, name="test")
    outputs = pipe.encoder.encode(examples, with_labels=False)
    found: dict[str, Any] = {
        "words per sentence": round(len(outputs) / len(rows), 1),
        "stored words": len(train),
        "forward pass": milliseconds(lambda: pipe.encoder.encode(examples, with_labels=False), len(rows)),
    }
    scores = {}
    for name, index in (("exact", "exact"), (str(INDEX.factory), INDEX)):
        store = Datastore.build(train.features, train.labels, index=index)
        ue = KnnUEEntity(store).fit(validation)
        near = ue.search(outputs)
        scores[name] = ue.read(outputs, found=near).scores
        found[name] = {
            "search, all words": milliseconds(lambda store=store: store.search(outputs.features, 32), len(rows)),
            "search, words of entities": milliseconds(lambda ue=ue: ue.search(outputs), len(rows)),
            "answers without search": milliseconds(
                lambda ue=ue, near=near: answer_examples(examples, outputs, ue, top=5, found=near), len(rows)
            ),
            "scores alone, without search": milliseconds(
                lambda ue=ue, near=near: ue.read(outputs, found=near), len(rows)
            ),
        }
    exact, approximate = scores.values()
    found["entities per sentence"] = round(len(exact) / len(rows), 2)
    found["largest difference of a score"] = float(np.abs(exact - approximate).max())
    found["mean difference of a score"] = float(np.abs(exact - approximate).mean())
    return found


def milliseconds(work: Callable[[], object], n_rows: int) -> float:
    best = np.inf
    for _ in range(_ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return round(1000 * best / n_rows, 3)


if __name__ == "__main__":
    main()

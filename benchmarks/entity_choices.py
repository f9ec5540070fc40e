"""How knn-ue-entity was chosen: designs that were tried, on in-domain sentences as they are and perturbed.

    python benchmarks/entity_choices.py --data DIR --work DIR --models DIR [--cells wikineural-0 ...] [--json FILE]

Each design is fitted on the plain validation sentences, as a user would, and scored on unused training sentences: plain
ones, and seven kinds of strange ones (`entity_shifts.py`). No sentence of a test or out-of-domain set is read. The
folders are those of `benchmarks/entities.py`.
"""

import argparse
import json
from typing import Any

import numpy as np

from entities import Encoder, OneSearch, parser_of, training_rows
from entity_columns import Columns, Design
from entity_docs import choices
from entity_shifts import SHIFTS, shifted
from knn_ue import metrics
from knn_ue.entities import INGREDIENTS, find_entities
from knn_ue.types import Outputs

N_STRANGE = {"wikineural": 600, "btc": 1000}  # tweets hold fewer entities
PLAIN = "plain"
TOUCHING = "beside, touching too"
_FORMER = ("type", "link", TOUCHING, "distance", "agreement", "company")
_OTHER = ("type", "link", "beside", "distance", "agreement", "company")


def former(ridge: float = 1.0, columns: Any = _FORMER, clipped: float = 0.0) -> Design:
    """The six ingredients of before; its ridge was a tenth of today's."""
    held = {name: (50.0 if "distance" in name else 10.0) * ridge for name in columns}
    return Design(columns=columns, believed={"distance": -0.5}, held=held, clipped=clipped)


def with_too(*names: str, **believed: float) -> Design:
    return Design(columns=[*INGREDIENTS, *names], believed=believed)


DESIGNS: dict[str, Design] = {
    "before: an entity beside it is a word that is surely not O": former(),
    **{f"before, clipped to the middle {100 - 2 * q} %": former(clipped=q / 100) for q in (2, 5, 10)},
    **{f"before, ridge x {x}": former(x) for x in (3, 10, 30, 100)},
    "the same (x 10), without beside": former(10, [name for name in _FORMER if name != TOUCHING]),
    "the same (x 10), beside from -2 on": former(10, [f"{n}, from -2" if n == TOUCHING else n for n in _FORMER]),
    "the same (x 10), beside from 0 on": former(10, [f"{n}, from 0" if n == TOUCHING else n for n in _FORMER]),
    "the same (x 10), beside of words tagged O only": former(10, _OTHER),
    "... and apart, not held": Design(believed={"distance": -0.5, "apart": 0.3}, held={"apart": 100.0}),
    **{
        f"... and apart, held near {slope}": Design(believed={"distance": -0.5, "apart": slope})
        for slope in (0.1, 0.2, 0.3, 0.4)
    },
    "chosen: apart near 0.2, distance near -0.65": Design(),
    "chosen, distance near -0.8": Design(believed={"distance": -0.8}),
    "chosen, distance held like the rest": Design(held={"distance": 100.0}),
    "chosen, ridge x 0.3": Design(ridge=0.3),
    "chosen, ridge x 3": Design(ridge=3.0),
    "chosen, clipped to the middle 96 %": Design(clipped=0.02),
    "chosen, without agreement": Design(columns=[name for name in INGREDIENTS if name != "agreement"]),
    "chosen, without company": Design(columns=[name for name in INGREDIENTS if name != "company"]),
    "chosen, and held-out distance (both near -0.4)": Design(
        columns=[*INGREDIENTS, "held-out distance"], believed={"distance": -0.4, "held-out distance": -0.4}
    ),
    "chosen, and held-out agreement": with_too("held-out agreement"),
    "chosen, and held-out rightness": with_too("held-out rightness"),
    "chosen, and distance of the sentence": with_too("sentence distance", distance=-0.5),
    "chosen, and length": with_too("length"),
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", nargs="+", default=["wikineural-0", "wikineural-1", "btc-0", "btc-1"])
    arguments = parser.parse_args()
    found = {cell: scores_of_cell(*cell.rsplit("-", 1), arguments) for cell in arguments.cells}
    print("\n".join(choices(found)))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, separators=(",", ":")).replace("},", "},\n") + "\n")


def scores_of_cell(domain: str, seed: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return {design: {style: [ECE %, E-AURC x 1000, log-loss]}}."""
    encoder = Encoder(domain, int(seed), ["softmax"], arguments)
    train_rows, validation_rows, extra_rows = training_rows(domain, arguments.data)
    train, validation = encoder.outputs("train", train_rows), encoder.outputs("validation", validation_rows)
    columns = Columns(OneSearch(train), validation)
    fitted = {name: design.fit(columns.of_validation, columns.right) for name, design in DESIGNS.items()}
    found: dict[str, Any] = {name: {} for name in ("softmax, product", "softmax, least", *fitted)}
    for style in (PLAIN, *SHIFTS):
        rows = extra_rows[: N_STRANGE[domain]]
        outputs = (
            encoder.outputs("extra", extra_rows)
            if style == PLAIN
            else encoder.outputs(f"shift-{style}", shifted(rows, style))
        )
        right = find_entities(outputs, outputs.predicted).same_in(find_entities(outputs, outputs.require_labels("it")))
        values = columns.of(outputs)
        scores = products_of(outputs) | {name: model.scores(values) for name, model in fitted.items()}
        for name, confidence in scores.items():
            found[name][style] = measured(confidence, right)
        print(f"{domain}-{seed} {style}: {len(right)} entities, {100 * right.mean():.0f} % right", flush=True)
    return found


def products_of(outputs: Outputs) -> dict[str, Any]:
    shifted_logits = np.exp(outputs.logits - outputs.logits.max(axis=1, keepdims=True))
    top = 1.0 / shifted_logits.sum(axis=1)
    spans = find_entities(outputs, outputs.predicted)
    words = [top[a : b + 1] for a, b in zip(spans.first, spans.last, strict=True)]
    return {
        "softmax, product": np.array([word.prod() for word in words]),
        "softmax, least": np.array([word.min() for word in words]),
    }


def measured(confidence: Any, right: Any) -> list[float]:
    clipped = np.clip(confidence, 1e-4, 1 - 1e-4)
    numbers = (
        100 * metrics.expected_calibration_error(confidence=confidence, correct=right),
        1000 * metrics.e_aurc(confidence=confidence, correct=right),
        -np.log(np.where(right, clipped, 1 - clipped)).mean(),
    )
    return [round(float(number), 4) for number in numbers]


if __name__ == "__main__":
    main()

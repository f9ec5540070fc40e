"""The report of the demo: built once, and read back as long as nothing that shapes it has changed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knn_ue.calibrators import Calibrator
from knn_ue.demo.cache import digest, key_of, key_of_program
from knn_ue.demo.loop import Loop
from knn_ue.evaluation import TEST, Evaluation, EvaluationOptions, Table
from knn_ue.familiarity import Familiarity
from knn_ue.metrics import Interval
from knn_ue.report import build_report
from knn_ue.types import Outputs

_KEY = ".report-key"
_FILES = ("report.html", "report.md", "report.json")


@dataclass(frozen=True, kw_only=True)
class WrittenReport:
    """Where the page is, and what it says."""

    path: Path
    evaluation: Evaluation
    verdicts: Sequence[str]


def written_report(
    folder: Path,
    calibrators: Mapping[str, Calibrator],
    sets: Mapping[str, Outputs],
    *,
    familiarity: Familiarity,
    n_bootstrap: int,
    loop: Loop,
    context: Mapping[str, str],
    key: str,
) -> WrittenReport:
    """Return the report in `folder`, written again unless all it is made of is unchanged; `key` names the data."""
    wanted = key_of(key, key_of_program(), list(calibrators), asdict(loop))
    if (found := _read(folder, wanted)) is not None:
        return found
    report = build_report(
        calibrators,
        sets[TEST],
        {name: outputs for name, outputs in sets.items() if name != TEST},
        title="A movie model meets Amazon, the New York Times and tweets: it notices, asks for 50 labels, and adapts",
        lead=(loop.sentence,),
        lead_tables=loop.tables,
        method="knn-ue",
        familiarity=familiarity,
        n_bootstrap=n_bootstrap,
        notes=(_QUICK, *_NOTES) if "--quick" in context["command"] else _NOTES,
        context=context,
    )
    files = report.write(folder)
    (folder / _KEY).write_text(_signature(folder, wanted))
    return WrittenReport(path=files.html, evaluation=report.evaluation, verdicts=report.headline.verdicts)


def _read(folder: Path, wanted: str) -> WrittenReport | None:
    try:
        if (folder / _KEY).read_text() != _signature(folder, wanted):
            return None
        content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    evaluation = Evaluation(
        n=content["n"],
        n_classes=content["n_classes"],
        options=EvaluationOptions(**content["options"]),
        tables={name: _table(plain) for name, plain in content["tables"].items()},
    )
    return WrittenReport(path=folder / "report.html", evaluation=evaluation, verdicts=content["headline"]["verdicts"])


def _table(plain: Mapping[str, Any]) -> Table:
    scores = {m: {name: _number(x) for name, x in found.items()} for m, found in plain["scores"].items()}
    intervals = {
        method: {
            name: Interval(low=_number(low), high=_number(high), estimate=scores[method][name])
            for name, (low, high) in found.items()
        }
        for method, found in plain["intervals"].items()
    }
    about = {name: plain[name] for name in ("caption", "n", "weighted")}
    return Table(**about, scores=scores, intervals=intervals)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _signature(folder: Path, key: str) -> str:
    """Return a name for the key and for the files as they are, so that an edited report is written again."""
    return key_of(key, [digest(folder / name) for name in _FILES])


_QUICK = "Made with --quick from a few hundred texts: the numbers mean little."
_NOTES = (
    "The model learned from movie reviews only; Amazon, the New York Times and Twitter are out of domain.",
    "The neighbors are the texts the model was trained on, whose labels it may have memorized, so they agree with it "
    "more often than labels of new texts would. Compare knn-ue with knn-ue-no-label to see the effect.",
    "One training run with one seed: intervals cover the choice of test rows, not the variation between training runs.",
)

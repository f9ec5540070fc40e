"""The whole program on the toy problems, end to end: fit, evaluate, save, load, explain, and a report."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knn_ue.arrays import softmax
from knn_ue.calibrators import Calibrator, KnnUE, TemperatureScaling
from knn_ue.demo.folder import demo_folder
from knn_ue.errors import MissingExtraError
from knn_ue.evaluation import RAW, STYLES, TEST, Evaluation, evaluate
from knn_ue.methods import make_calibrator
from knn_ue.plots import reliability_diagram, risk_coverage
from knn_ue.toy import pockets, two_blobs
from knn_ue.types import Outputs

_METHODS = ("temperature", "mahalanobis", "dac", "knn-ue-no-label", "knn-ue")
_DRAWN = ("temperature", "knn-ue")
_OUT = "out_of_domain"
_SUMMARY = ((TEST, "ece"), (TEST, "nll"), (TEST, "e_aurc"), (_OUT, "ece"), (f"{_OUT}/detection", "fpr95"))
_N_BOOTSTRAP = 100
# What the demo writes.
_FOLDER, _REPORT, _NUMBERS = "ue", "report.md", "report.json"
_PICTURES = ("reliability.png", "risk_coverage.png")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Where the report is, what it says, and the pictures drawn (none without matplotlib)."""

    report: Path
    evaluation: Evaluation
    pictures: tuple[Path, ...]

    def summary(self) -> list[list[str]]:
        """Return a heading and a line for each method, ready to print."""
        return _summary(self.evaluation)


def run_demo(out: str | Path = "knn-ue-demo") -> Demo:
    """Fit every method on the toy problem `pockets` and write report.md, report.json, pictures and the folder ue.

    Other files in `out` stay untouched; where one has a name the demo needs, nothing is written.
    """
    with demo_folder(out, (_FOLDER, _REPORT, _NUMBERS, *_PICTURES)) as folder:
        return _run(folder)


def _run(folder: Path) -> Demo:
    train, validation, test, out_of_domain = pockets(seed=0)
    calibrators = {name: make_calibrator(name, train).fit(validation) for name in _METHODS}
    calibrators["knn-ue"].save(folder / _FOLDER)
    loaded = KnnUE.load(folder / _FOLDER)  # evaluated and explained from here on, as a user's next session would
    calibrators["knn-ue"] = loaded
    evaluation = evaluate(calibrators, test, out_of_domain=out_of_domain, n_bootstrap=_N_BOOTSTRAP, seed=0)
    (folder / _NUMBERS).write_text(evaluation.to_json(), encoding="utf-8")
    try:
        pictures = _draw(folder, calibrators, test)
        shown = "\n\n".join(f"![{path.stem.replace('_', ' ')}]({path.name})" for path in pictures)
    except MissingExtraError as error:
        pictures, shown = (), f"No pictures: {error}."
    text = _REPORT_TEXT.format(
        blobs=_blobs_sentence(),
        summary=_markdown(_summary(evaluation)),
        pictures=shown,
        explanations=_explanations(loaded, test),
        tables=evaluation.to_markdown(),
    )
    (folder / _REPORT).write_text(text, encoding="utf-8")
    return Demo(report=folder / _REPORT, evaluation=evaluation, pictures=pictures)


def _draw(folder: Path, calibrators: Mapping[str, Calibrator], test: Outputs) -> tuple[Path, ...]:
    labels = test.require_labels("the pictures")
    probs = {RAW: softmax(test.logits)} | {name: calibrators[name].predict_proba(test) for name in _DRAWN}
    paths = tuple(folder / name for name in _PICTURES)
    for path, draw in zip(paths, (reliability_diagram, risk_coverage), strict=True):
        draw(probs, labels, predicted=test.predicted).savefig(path, dpi=150)
    return paths


def _blobs_sentence() -> str:
    _, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    temperature = TemperatureScaling().fit(validation)
    found = evaluate(temperature, test)
    raw, calibrated = (STYLES["ece"].show(found[name]["ece"]) for name in (RAW, "calibrated"))
    return (
        f"temperature scaling finds {temperature.temperature_:.2f}, "
        f"and the calibration error (ECE) falls from {raw} % to {calibrated} %"
    )


def _explanations(calibrator: Calibrator, test: Outputs) -> str:
    """Explain the first test row of each kind of region, which its text names."""
    texts = test.texts or ()
    rows = [next(row for row, text in enumerate(texts) if text.startswith(kind)) for kind in ("plain", "pocket", "far")]
    return "\n\n".join(f"```text\n{explanation}\n```" for explanation in calibrator.explain(test.take(rows), top=5))


def _summary(evaluation: Evaluation) -> list[list[str]]:
    headings = [f"{'out: ' if table.startswith(_OUT) else ''}{STYLES[name].heading}" for table, name in _SUMMARY]
    lines = [["", *headings]]
    for method in evaluation:
        cells = [STYLES[name].show(evaluation.tables[table][method][name]) for table, name in _SUMMARY]
        lines.append([method, *cells])
    return lines


def _markdown(lines: list[list[str]]) -> str:
    heading, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([heading, f"|---|{'--:|' * (len(lines[0]) - 1)}", *rest])


_REPORT_TEXT = """\
# knn-ue demo

Made by `knn-ue demo`; the same numbers as fractions are in [report.json](report.json).

**A check first.** On two blobs with a model that is 3 times too confident, {blobs}.

**The problem.** Three classes, and a model that sees 3 of 8 features. In some pockets of the space the training labels
are mixed, and some test rows lie far from all training rows. The model sees neither and is as confident there as
anywhere else; the neighbors show both. The out-of-domain rows lie farther still and have random labels.

## In short

{summary}

`raw` is the model's own softmax. "out" columns are about the out-of-domain rows; FPR@95 is the share of them that pass
as in-domain. No method changes a prediction. Only `knn-ue` sees neighbors with mixed labels, so it ranks and
calibrates best on the test set. Far away the neighbors may still agree, and the label term counts that at any distance:
out of domain the distances alone, `knn-ue-no-label`, do better here.

{pictures}

## Explanations

One row of each kind, explained by the reloaded `ue` folder: raw -> calibrated probability, the weight with its two
terms, and the nearest training rows.

{explanations}

## All numbers

{tables}
## Try it

```python
from knn_ue import KnnUE, evaluate
from knn_ue.toy import pockets

train, validation, test, out_of_domain = pockets(seed=0)
ue = KnnUE.load("ue")  # made by KnnUE(Datastore.build(train.features, train.labels)).fit(validation).save("ue")
print(evaluate(ue, test, out_of_domain=out_of_domain).to_markdown())
print(ue.explain(test.take([0]))[0])
```
"""

"""`build_report`: fitted calibrators and labeled outputs -> one page, its Markdown and its JSON, in one folder."""

import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import check_choice
from knn_ue.calibrators import Calibrator
from knn_ue.errors import InvalidInputError, MissingExtraError, StorageError
from knn_ue.evaluation import (
    RAW,
    AnsweredSet,
    Comparison,
    Evaluation,
    EvaluationOptions,
    SampleWeight,
    answered_sets,
    check_draws,
    compare,
    evaluate_sets,
    whether_it_pays,
)
from knn_ue.familiarity import Familiarity
from knn_ue.folder import created_folder, library_version, storage_errors, write_files
from knn_ue.report.headline import TEMPERATURE, Headline, LeadTable, headline
from knn_ue.report.html import to_html
from knn_ue.report.markdown import to_markdown
from knn_ue.report.mistakes import Mistake, worst_mistakes
from knn_ue.report.pictures import Picture, draw_pictures
from knn_ue.report.wording import about_weights
from knn_ue.types import Outputs

_FAVORITE = "knn-ue"


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """Where a report was written."""

    html: Path
    markdown: Path
    json: Path

    @classmethod
    def inside(cls, folder: Path) -> "ReportFiles":
        """Return where a report in `folder` is, or would be."""
        return cls(html=folder / "report.html", markdown=folder / "report.md", json=folder / "report.json")

    def __iter__(self) -> Iterator[Path]:
        return iter((self.html, self.markdown, self.json))

    def are_a_report(self) -> bool:
        """Say whether these files are an earlier report, which may be written again."""
        try:
            content = json.loads(self.json.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(content, dict) and {"tables", "headline", "context"} <= content.keys()


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """Everything a report says. `method` is the calibrated method it is about; `sizes` the rows of each set.

    `no_pictures` is the reason where there are none; `explained_by` is the method that found the neighbors.
    """

    title: str
    method: str
    sizes: Mapping[str, int]
    evaluation: Evaluation
    headline: Headline
    comparisons: Sequence[Comparison]
    pictures: Sequence[Picture]
    no_pictures: str | None
    mistakes: Sequence[Mistake]
    explained_by: str | None
    notes: Sequence[str]
    context: Mapping[str, str]

    def to_html(self) -> str:
        """Return one page that needs nothing else: no script, no font, no picture from outside."""
        return to_html(self)

    def to_markdown(self) -> str:
        """Return the page without its pictures."""
        return to_markdown(self)

    def to_json(self) -> str:
        """Return the JSON of `Evaluation`, and beside it the sentences, comparisons, mistakes and context."""
        content: dict[str, Any] = self.evaluation.to_plain() | {
            "title": self.title,
            "method": self.method,
            "headline": asdict(self.headline),
            "comparisons": [comparison.to_plain() for comparison in self.comparisons],
            "mistakes": [mistake.to_plain() for mistake in self.mistakes],
            "notes": list(self.notes),
            "context": dict(self.context),
        }
        return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    def write(self, out: str | Path) -> ReportFiles:
        """Write report.html, report.md and report.json into the folder `out`, created if needed.

        An error, such as a full disk, leaves the files of an earlier report as they were. Each file takes its place
        whole and one after the other: a crash or a reader in between may find files of two reports.
        """
        folder = Path(out)
        files = ReportFiles.inside(folder)
        texts = {files.html: self.to_html(), files.markdown: self.to_markdown(), files.json: self.to_json()}
        way_out = "choose another folder or free some space"
        with storage_errors(f"the report cannot be written to {folder}", way_out), created_folder(folder):
            _refuse_folders(texts)
            _write_all(texts)
        return files


def build_report(
    calibrators: Mapping[str, Calibrator],
    test: Outputs,
    out_of_domain: Mapping[str, Outputs] | None = None,
    *,
    title: str = "How reliable is the model's confidence?",
    method: str | None = None,
    explain_with: Calibrator | None = None,
    n_mistakes: int = 3,
    n_bins: int = 10,
    n_bootstrap: int = 200,
    seed: int = 0,
    lead: Sequence[str] = (),
    lead_tables: Sequence[LeadTable] = (),
    notes: Sequence[str] = (),
    context: Mapping[str, str] | None = None,
    familiarity: Familiarity | None = None,
    sample_weight: SampleWeight | None = None,
    validation: Outputs | None = None,
) -> Report:
    """Evaluate fitted `calibrators`, each asked once per set, on `test` and out-of-domain sets, and say what it means.

    The report is about `method`, by default "knn-ue" if it is there, else the last. `explain_with` finds the neighbors
    of mistakes, by default the method itself or the first that explains; `n_mistakes` are shown of each set before and
    as many after calibration. OOD detection by `familiarity`, if given, stands beside that by confidence. Rows count by
    `sample_weight` as in `evaluate`, in sentences and pictures too, and a note says so; PIECE needs `validation`.
    `lead` are sentences to begin with, `lead_tables` small tables beneath them. `context` says how it was made
    (command, model, data); versions and seeds are added.

    >>> from knn_ue.calibrators import TemperatureScaling
    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(seed=0)
    >>> report = build_report({"temperature": TemperatureScaling().fit(validation)}, test, n_bootstrap=0)
    >>> report.headline.lead[-1]
    'No prediction changes, only the confidence.'
    """
    check_draws(n_bootstrap)
    sets = answered_sets(calibrators, test, out_of_domain, familiarity, sample_weight, validation)
    method = method or (_FAVORITE if _FAVORITE in calibrators else list(calibrators)[-1])
    check_choice(method, "method", tuple(calibrators))
    explained_by, explainer = _explainer(calibrators, method, explain_with)
    options = EvaluationOptions(n_bins=n_bins, n_bootstrap=n_bootstrap, seed=seed)
    evaluation = evaluate_sets(sets, options)
    paid = whether_it_pays(calibrators, evaluation)
    comparisons = compare(sets, method, options)
    pictures, no_pictures = _pictures(sets, evaluation, method)
    mistakes = worst_mistakes(sets, method, explain_with=explainer, n_mistakes=n_mistakes)
    return Report(
        title=title,
        method=method,
        sizes={name: len(answered.outputs) for name, answered in sets.items()},
        evaluation=evaluation,
        headline=_led(headline(sets, method, comparisons), lead, lead_tables),
        comparisons=comparisons,
        pictures=pictures,
        no_pictures=no_pictures,
        mistakes=mistakes,
        explained_by=explained_by if any(mistake.explanation for mistake in mistakes) else None,
        notes=(*notes, *paid, *about_weights(name for name, x in sets.items() if x.weights is not None)),
        context=dict(context or {}) | _circumstances(options),
    )


def _led(found: Headline, lead: Sequence[str], tables: Sequence[LeadTable]) -> Headline:
    return replace(found, lead=(*lead, *found.lead), tables=tuple(tables))


def _pictures(
    sets: Mapping[str, AnsweredSet], evaluation: Evaluation, method: str
) -> tuple[Sequence[Picture], str | None]:
    drawn = [RAW, *(name for name in (TEMPERATURE,) if name in evaluation and name != method), method]
    try:
        return draw_pictures(sets, evaluation, drawn), None
    except MissingExtraError as error:
        return (), f"There are no pictures: {error}"


def _explainer(
    calibrators: Mapping[str, Calibrator], method: str, given: Calibrator | None
) -> tuple[str | None, Calibrator | None]:
    """Return the calibrator that explains answers, and its name: the one it has here, else its kind."""
    if given is not None and not given.explains:
        raise InvalidInputError(f"explain_with must be a method that explains, such as knn-ue: {given.kind} does not")
    for name in (method, *calibrators):
        found = calibrators[name]
        if found.explains and (given is None or found is given):
            return name, found
    return (None if given is None else given.kind), given


def _circumstances(options: EvaluationOptions) -> dict[str, str]:
    draws = f"{options.n_bootstrap} bootstrap draws, seed {options.seed}" if options.n_bootstrap else "none"
    return {
        "knn-ue": library_version(),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "intervals": draws,
        "bins of calibration errors": str(options.n_bins),
    }


def _refuse_folders(paths: Iterable[Path]) -> None:
    # A file cannot be moved onto a folder, and by then others may have been moved.
    for path in paths:
        if path.is_dir():
            raise StorageError(f"{path} is a folder, but the report needs this name for a file: choose another folder")


def _write_all(texts: Mapping[Path, str]) -> None:
    """Write all files beside their places, then move all: no half of a file is ever seen, nor left behind."""
    # A text may hold half a surrogate pair.
    write_files({path: text.encode("utf-8", errors="replace") for path, text in texts.items()})

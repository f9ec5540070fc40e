"""The study of given spans: what real extractors answered, the verifier beside its plain rivals.

    python benchmarks/spans_study.py --data FOLDER --cells CELLS --page docs/verifier_spans_results.md --reader minilm \
        --reader gte-small

`--data` holds `conllpp_test.txt` (CoNLL++, the repository ZihanWangKi/CrossWeigh, `data/`) and the four `*.csv` of
`benchmarks/` of the repository predibase/json-mode-benchmark: an answer per sentence, of a language model that was
prompted or fine-tuned, with and without a JSON schema. They are for measurement only. Each draw takes m sentences as
labeled and scores the spans of all others. A cell (reader, m, draw) is one JSON file; cells that are there are not
measured again. Strings that are not in their sentence are wrong without a verifier, and left out.
"""

import argparse
import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from knn_ue import metrics
from knn_ue.entities import Spans
from knn_ue.marked import read_marked
from knn_ue.verifying import open_reader, word_reader
from knn_ue.verifying.span_rivals import CONSTANT, DIRECT, fit_span_rivals
from knn_ue.verifying.spans import judge_spans, learn_tags, right_spans

REVISION = 1
SIZES = (50, 100, 300, 1000)
N_DRAWS = 10
EXTRACTORS = {
    "finetuned_raw": "fine-tuned LLM",
    "finetuned_constrained": "fine-tuned LLM, JSON schema",
    "base_raw": "prompted LLM",
    "base_constrained": "prompted LLM, JSON schema",
}
TYPES = {"person": "PER", "organization": "ORG", "location": "LOC", "miscellaneous": "MISC"}
NAMES = tuple(TYPES.values())
VERIFIER = "verifier"
MEASURES = ("ECE", "E-AURC x1000", "AUROC")


@dataclass(frozen=True, eq=False)
class Sentences:
    """Words and gold tags of sentences, and their word vectors, one sentence after another."""

    words: list[list[str]]
    tags: list[list[str]]
    vectors: np.ndarray

    def starts(self, rows: np.ndarray) -> np.ndarray:
        """Return where each of these sentences begins among their words."""
        return np.cumsum([0, *(len(self.words[row]) for row in rows[:-1])])


def read_sentences(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words and the tags of a file in CoNLL columns, without the lines that begin a document."""
    blocks = [block.splitlines() for block in path.read_text(encoding="utf-8").split("\n\n")]
    rows = [[line.split(" ") for line in block if line and not line.startswith("-DOCSTART-")] for block in blocks]
    rows = [row for row in rows if row]
    return [[line[0] for line in row] for row in rows], [[line[-1] for line in row] for row in rows]


def read_answers(path: Path) -> list[list[dict[str, str]]]:
    """Return the entities of each answer: those of its first JSON object; none where it cannot be read."""
    with path.open(newline="", encoding="utf-8") as file:
        answers = [row[0] for row in csv.reader(file)][1:]
    return [list(_entities(answer)) for answer in answers]


def _entities(answer: str) -> Iterator[dict[str, str]]:
    found = re.search(r"\{.*?\}", answer, re.DOTALL)
    try:
        said = json.loads(found[0]) if found else {}
    except ValueError:
        return
    for name, many in said.items():
        if name in TYPES and isinstance(many, list):
            yield from ({"text": one, "type": TYPES[name]} for one in many if isinstance(one, str) and one.strip())


def spans_of(rows: np.ndarray, marked: list[np.ndarray], starts: np.ndarray, n_words: int) -> Spans:
    """Return the spans of these sentences; `marked` has kind, first and last word of each, by sentence."""
    parts = [marked[row] + [0, start, start] for row, start in zip(rows, starts, strict=True)]
    kind, first, last = np.concatenate(parts).astype(np.int64).T
    return Spans(kind=kind, first=first, last=last, starts=starts, n_words=n_words)


def measured(scores: np.ndarray, right: np.ndarray) -> list[float]:
    """Return the ECE in %, the E-AURC x1000, and the AUROC in %."""

    auroc = metrics.ood_detection(id_confidence=scores[right], ood_confidence=scores[~right]).auroc
    return [100 * ece_of(scores, right), 1000 * metrics.e_aurc(confidence=scores, correct=right), 100 * auroc]


def ece_of(scores: np.ndarray, right: np.ndarray, n_bins: int = 10) -> float:
    """Return the mean gap between score and share of right spans over bins of equal width, weighted by their sizes."""
    bins = np.minimum((scores * n_bins).astype(int), n_bins - 1)
    gaps = [abs((scores - right)[bins == one].sum()) for one in range(n_bins)]
    return float(np.sum(gaps) / len(scores))


def draw(data: Sentences, by_extractor: dict[str, list[np.ndarray]], size: int, seed: int) -> dict[str, dict]:
    """Return the measures of each method for each extractor, learned from `size` sentences drawn by `seed`."""
    order = np.random.default_rng(seed).permutation(len(data.words))
    bounds = data.starts(np.arange(len(data.words)))
    parts = []
    for rows in (order[:size], order[size:]):
        places = np.concatenate([np.arange(bounds[row], bounds[row] + len(data.words[row])) for row in rows])
        parts.append((rows, data.vectors[places], data.starts(rows)))
    (rows, vectors, starts), (others, new, new_starts) = parts
    gold, new_gold = ([tag for row in some for tag in data.tags[row]] for some in (rows, others))
    learned = learn_tags(vectors, gold, starts)
    probs = learned.probe.predict(new)
    result = {}
    for name, marked in by_extractor.items():
        spans = spans_of(rows, marked, starts, len(vectors))
        asked = spans_of(others, marked, new_starts, len(new))
        verifier = judge_spans(learned, gold, spans, NAMES)
        scores = fit_span_rivals(vectors, spans, verifier.right, len(NAMES)).scores(new, asked)
        scores[VERIFIER] = 1 / (1 + np.exp(-verifier.log_odds_of(probs, asked)))
        right = right_spans(new_gold, asked, NAMES)
        result[name] = {method: measured(found, right) for method, found in scores.items()}
        result[name]["right"] = float(right.mean())
    return result


def page(cells: Path, readers: list[str]) -> str:
    """Return the page as Markdown: what was measured so far."""
    by_reader = {Path(reader).name: _by_size(cells, Path(reader).name) for reader in readers}
    first = next(iter(by_reader.values()))
    ours = {size: _mean_of(draws, "finetuned_raw", VERIFIER) for size, draws in first.items()}
    direct = {size: _mean_of(draws, "finetuned_raw", DIRECT) for size, draws in first.items()}
    lines = [
        "# Verifier results for entities",
        "",
        "1. With 100 labeled sentences and nothing of a fine-tuned LLM but what it marked, the verifier's AUROC "
        f"is {ours[100][2]:.0f} and its ECE {ours[100][0]:.1f}; a logistic regression on (span vector, type) has "
        f"{direct[100][2]:.0f} and {direct[100][0]:.1f}.",
        f"2. With 50 / 100 / 300 sentences its E-AURC x1000 is {_slashed(ours)}, that of the regression "
        f"{_slashed(direct)}.",
        "3. Where a model is right by type alone, a constant per type is as well calibrated; it ranks far worse.",
        "",
        "3,453 sentences of CoNLL++ (Wang et al., 2019), each answered by four extractors; an entity is right if its "
        "type, first and last word are. m sentences are labeled, the spans of all others are scored: mean over draws "
        "± standard deviation. Strings that are not in their sentence (1 in 200 of the fine-tuned, 1 in 40 of the "
        "prompted model) are wrong without a verifier and left out. Slopes and strengths come from spaCy on five other "
        "sets (`benchmarks/span_slopes.py`). One choice, log-odds as "
        "features in place of probabilities, was made after three draws of two of these extractors, where it ranked "
        "better. No extractor here says how sure it is, "
        "so what an own score adds is not measured.",
        "",
        "Made by `python benchmarks/spans_study.py`, whose docstring names the data; they are no part of this project.",
        "",
    ]
    for reader, sizes in by_reader.items():
        lines += [f"## Reader: {reader}", ""]
        for name, shown in EXTRACTORS.items():
            lines += _table(name, shown, sizes)
    return "\n".join([*lines, "## Where it loses", "", *_losses(by_reader)]) + "\n"


def _by_size(cells: Path, reader: str) -> dict[int, list[dict]]:
    found = {size: sorted(cells.glob(f"{reader}-{size}-*-r{REVISION}.json")) for size in SIZES}
    return {size: [json.loads(path.read_text()) for path in paths] for size, paths in found.items() if paths}


def _mean_of(draws: list[dict], extractor: str, method: str) -> np.ndarray:
    return np.mean([one[extractor][method] for one in draws], axis=0)


def _slashed(by_size: dict[int, np.ndarray]) -> str:
    return " / ".join(f"{by_size[size][1]:.0f}" for size in (50, 100, 300))


def _table(name: str, shown: str, sizes: dict[int, list[dict]]) -> Iterator[str]:
    right = np.mean([one[name]["right"] for one in sizes[min(sizes)]])
    yield f"### {shown} ({100 * right:.0f} % of its entities are right)"
    yield ""
    yield f"| {' / '.join(MEASURES)} | {' | '.join(f'm = {m:,}, {len(d)} draws' for m, d in sizes.items())} |"
    yield "|---|" + "--:|" * len(sizes)
    for method in (CONSTANT, DIRECT, VERIFIER):
        values = []
        for draws in sizes.values():
            all_draws = np.array([one[name][method] for one in draws])
            pairs = zip(all_draws.mean(axis=0), all_draws.std(axis=0), (1, 0, 0), strict=True)
            values.append(" / ".join(f"{mean:.{n}f} ± {spread:.{n}f}" for mean, spread, n in pairs))
        bold = "**" if method == VERIFIER else ""
        yield f"| {bold}{method}{bold} | {' | '.join(values)} |"
    yield ""


def _losses(by_reader: dict[str, dict[int, list[dict]]]) -> Iterator[str]:
    """Yield each comparison of means that the verifier loses."""
    n_pairs = n_lost = 0
    for reader, sizes in by_reader.items():
        for size, draws in sizes.items():
            for name, shown in EXTRACTORS.items():
                for rival in (CONSTANT, DIRECT):
                    gaps = _mean_of(draws, name, VERIFIER) - _mean_of(draws, name, rival)
                    for measure, gap in zip(MEASURES, gaps * [1, 1, -1], strict=True):
                        n_pairs += 1
                        if gap > 0:
                            n_lost += 1
                            yield f"* {reader}, {shown}, m = {size:,}: {measure} against the {rival}, by {gap:.1f}"
    yield f"{chr(10) if n_lost else ''}Of {n_pairs} comparisons of means it loses {n_lost}."


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--reader", action="append")
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    readers = options.reader or ["minilm"]
    words, tags = read_sentences(options.data / "conllpp_test.txt")
    marked = {}
    for name in EXTRACTORS:
        answers = read_answers(options.data / f"{name}.csv")
        answered = [read_marked(one, said, name) for one, said in zip(answers, words, strict=True)]
        marked[name] = [
            np.array([(NAMES.index(one.kind), one.first, one.last) for one in each.found]).reshape(-1, 3)
            for each in answered
        ]
        print(f"{name}: {sum(len(x.found) for x in answered)} found, {sum(len(x.not_found) for x in answered)} not")
    for reader in readers:
        cache = options.cells / f"{Path(reader).name}.npy"
        if not cache.is_file():
            np.save(cache, word_reader(open_reader(reader)).read_words(words))
        data = Sentences(words, tags, np.load(cache))
        for size in options.size or SIZES:
            for seed in range(options.draws):
                cell = options.cells / f"{Path(reader).name}-{size}-{seed}-r{REVISION}.json"
                if not cell.is_file():
                    cell.write_text(json.dumps(draw(data, marked, size, seed)))
                    print(cell.name, flush=True)
    if options.page:
        options.page.write_text(page(options.cells, readers), encoding="utf-8")


if __name__ == "__main__":
    main()

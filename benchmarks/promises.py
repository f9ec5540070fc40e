"""How often a promised precision of entities is broken, and how much is shown, in redraws of sentences.

    python benchmarks/promises.py record --data NER --work WORK --spacy sm=PIPELINE --tagger minilm=MODEL
    python benchmarks/promises.py simulate --work WORK [--draws 1000] [--json benchmarks/promises.json]

`record` keeps the score and correctness of every entity that a tagger finds in each set. Each set is then a population:
`simulate` draws n held-out sentences and n others from it, with replacement, chooses a threshold, and
looks at the precision of the whole population above it. Stress populations have errors in clusters. Cells that were
simulated before are kept, so that a run can be resumed.

    python benchmarks/promises.py watch [--draws 1000]
    python benchmarks/promises.py sets --data DATA

`watch` counts false alarms in 5,000 looks at a promise that is just kept, and the labels until a change is noticed;
`sets` the coverage and size of prediction sets of plain classifiers, in domain and out of it.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np

from knn_ue.arrays import softmax
from knn_ue.decisions import Losses, PredictionSets, Scored, SetMethod, watch
from knn_ue.decisions.betting import Rung, Units, climb, rungs
from knn_ue.decisions.risk import choose_threshold
from knn_ue.encoding.inputs import Example
from knn_ue.metrics import extract_entities

SETS = {
    "WikiNEuRal": ("wikineural/test",),
    "WikiGold": ("wikigold/test",),
    "tweets": ("btc/train", "btc/val", "btc/test"),
    "web": ("uner-ewt/val", "uner-ewt/test"),
    "CrossNER": ("crossner-politics/val", "crossner-politics/test", "crossner-science/val", "crossner-science/test"),
}
TYPES = {"PERSON": "PER", "GPE": "LOC", "FAC": "LOC", "LOC": "LOC", "ORG": "ORG", "PER": "PER"}
CASES = ((0.8, 100), (0.8, 200), (0.9, 200), (0.9, 500), (0.95, 500), (0.95, 1000))
DELTA = 0.1
Pool = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "simulate", "watch", "sets"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ner"))
    parser.add_argument("--work", type=Path, default=Path("/tmp/knn-ue-promises"))
    parser.add_argument("--spacy", action="append", default=[], metavar="NAME=PIPELINE")
    parser.add_argument("--tagger", action="append", default=[], metavar="NAME=MODEL")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "watch":
        print_watch(options.draws)
        return
    if options.what == "sets":
        print_sets(options.data)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    if options.what == "record":
        record(options)
        return
    found = simulate(options.work, options.draws)
    if options.json:
        options.json.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")
    print_table(found)


# ---- pools -----------------------------------------------------------------------------------------------------------


def record(options: argparse.Namespace) -> None:
    for kind, given in (("spacy", options.spacy), ("tagger", options.tagger)):
        for name, place in (one.split("=", 1) for one in given):
            tag = (spacy_tagger if kind == "spacy" else transformer_tagger)(place)
            for label, paths in SETS.items():
                file = options.work / f"pool-{name}-{label}.npz"
                if not file.exists():
                    np.savez(file, **pool(tag, [options.data / f"{path}.jsonl.gz" for path in paths]))
                    print(file.name, flush=True)


def pool(tag: Any, paths: list[Path]) -> Pool:
    """Return the entities of PER, ORG and LOC that `tag` finds: score, whether it is right, and its sentence."""
    from knn_ue.data import read_rows

    columns: dict[str, list[Any]] = {"score": [], "correct": [], "sentence": []}
    rows = [row for path in paths for row in read_rows(str(path), "token-classification")]
    for number, (row, found) in enumerate(zip(rows, tag([list(row.tokens) for row in rows]), strict=True)):
        gold = set(extract_entities(row.tags))
        for kind, start, end, score in found:
            if kind in TYPES:
                columns["score"].append(score)
                columns["correct"].append((TYPES[kind], start, end) in gold)
                columns["sentence"].append(number)
    return {name: np.array(values) for name, values in columns.items()} | {"n_sentences": np.array(len(rows))}


def spacy_tagger(place: str) -> Any:
    import spacy

    from knn_ue.spacy.encoder import SpacyEncoder
    from knn_ue.spacy.tagging import TypeMap

    nlp = spacy.load(place)
    names = tuple(sorted(nlp.get_pipe("ner").labels))
    return windowed(SpacyEncoder(nlp, TypeMap(types=names, renamed={name: name for name in names})))


def transformer_tagger(place: str) -> Any:
    from knn_ue.encoding.huggingface import HuggingFaceEncoder

    return windowed(HuggingFaceEncoder.from_pretrained(place, task="token-classification"))


def windowed(encoder: Any) -> Any:
    """Return what finds the entities of each sentence: type, start, end and the product over the words."""

    def entities(sentences: list[list[str]]) -> Any:
        for start in range(0, len(sentences), 500):
            some = sentences[start : start + 500]
            outputs = encoder.encode([Example(tuple(words)) for words in some], with_labels=False)
            confidence = softmax(outputs.logits)[np.arange(len(outputs)), outputs.predicted]
            tags = np.array(outputs.class_names)[outputs.predicted]
            ends = np.cumsum([len(words) for words in some])
            for words, end in zip(some, ends, strict=True):
                own = confidence[end - len(words) : end]
                found = extract_entities(tags[end - len(words) : end].tolist())
                yield [(kind, first, last, float(own[first : last + 1].prod())) for kind, first, last in found]

    return entities


def stress(target: float) -> dict[str, Pool]:
    """Return populations whose precision lies a hundredth below the target at most thresholds, errors in clusters."""
    random = np.random.default_rng(0)
    n = 5000
    short, long = random.integers(1, 4, n), random.integers(1, 13, n)
    lists = np.where(random.random(n) < 0.02, 40, short)
    mood = random.random(n)
    below = target - 0.01
    # Right at a sentence's level: the same for all, rising with the score, or falling with it.
    levels = {
        "short sentences": (short, np.full(n, below)),
        "long sentences": (long, np.full(n, below)),
        "rare lists of 40": (lists, np.full(n, below)),
        "the best are good, the rest is not": (long, np.where(mood > 0.9, 0.99, below - 0.02)),
        "scores turned around": (long, below + 0.05 * (0.5 - mood)),
    }
    pools = {}
    for name, (sizes, level) in levels.items():
        sentence = np.repeat(np.arange(n), sizes)
        correct = np.ones(len(sentence), dtype=bool)
        while correct.mean() > target - 0.005:  # a population that happens to be better than its level is no test
            correct = (random.random(n) < level)[sentence]  # a sentence is right or wrong as a whole
        pools[name] = {"score": mood[sentence], "correct": correct, "sentence": sentence, "n_sentences": np.array(n)}
    return pools


# ---- redraws ---------------------------------------------------------------------------------------------------------


def simulate(work: Path, n_draws: int) -> list[dict[str, Any]]:
    """Return one record for each pool and case; those in the cache are not simulated again."""
    cache = work / f"simulated-{n_draws}.json"
    done: list[dict[str, Any]] = json.loads(cache.read_text()) if cache.exists() else []
    pools = {file.stem.removeprefix("pool-"): dict(np.load(file)) for file in sorted(work.glob("pool-*.npz"))}
    for target, n in CASES:
        for kind, some in (("real", pools), ("stress", stress(target))):
            for name, one in some.items():
                key = {"pool": name, "kind": kind, "target": target, "n": n}
                if not any(key.items() <= cell.items() for cell in done):
                    done.append(key | cell_of(one, target, n, n_draws))
                    cache.write_text(json.dumps(done, indent=1))
                    print(done[-1], flush=True)
    return done


def cell_of(one: Pool, target: float, n: int, n_draws: int) -> dict[str, Any]:
    """Return for each method the share of draws with a threshold, the share of broken ones, and what is shown."""
    random = np.random.default_rng([int(100 * target), n])
    whole = units_of(one)
    rows = [np.flatnonzero(one["sentence"] == number) for number in range(whole.n_units)]
    found: dict[str, list[tuple[bool, bool, float]]] = {name: [] for name in METHODS}
    for draw in range(n_draws):
        held_out, other = (drawn(one, rows, random.integers(whole.n_units, size=n)) for _ in range(2))
        for name, method in METHODS.items():
            rung = method(held_out, other, target, draw)
            found[name].append((False, False, 0.0) if rung is None else judged(whole, rung, target))
    record = {}
    for name, results in found.items():
        made, broken, shown = (np.array(column) for column in zip(*results, strict=True))
        share = float(shown[made].mean()) if made.any() else 0.0
        record[name] = {"made": float(made.mean()), "broken": float(broken.mean()), "shown": share}
    return record


def units_of(one: Pool) -> Units:
    return Units(score=one["score"], wrong=1.0 - one["correct"], unit=one["sentence"], n_units=int(one["n_sentences"]))


def drawn(one: Pool, rows: list[np.ndarray], sentences: np.ndarray) -> Units:
    chosen = [rows[number] for number in sentences]
    flat = np.concatenate(chosen)
    return Units(
        score=one["score"][flat],
        wrong=1.0 - one["correct"][flat],
        unit=np.repeat(np.arange(len(sentences)), [len(own) for own in chosen]),
        n_units=len(sentences),
    )


def judged(whole: Units, rung: Rung, target: float) -> tuple[bool, bool, float]:
    """Return that a promise was made, whether the population breaks it, and the share of all entities it shows."""
    shown, wrong = whole.counts(rung.threshold, rung.cap)
    risk = wrong.sum() / max(1.0, shown.sum())
    return True, bool(risk > 1 - target + 1e-12), float(shown.sum() / len(whole.score))


def betting(held_out: Units, other: Units, target: float, draw: int) -> Rung | None:
    n_passed, rung = climb(held_out, rungs(other), risk=1 - target, delta=DELTA, others=other, seed=draw)
    return rung if n_passed else None


def betting_from_above(held_out: Units, other: Units, target: float, draw: int) -> Rung | None:
    """The same where the other sentences have no labels: the first threshold that enough answers reach is tested."""
    n_passed, rung = climb(held_out, rungs(other), risk=1 - target, delta=DELTA, seed=draw)
    return rung if n_passed else None


def as_independent(held_out: Units, _other: Units, target: float, _draw: int) -> Rung | None:
    chosen = choose_threshold(
        confidence=held_out.score, correct=held_out.wrong == 0, target_risk=1 - target, delta=DELTA
    )
    return None if chosen.threshold is None else Rung(threshold=chosen.threshold, cap=1 << 30)


def plain_cut(held_out: Units, _other: Units, target: float, _draw: int) -> Rung | None:
    """The lowest score above which the held-out entities are right as often as wanted."""
    order = np.argsort(-held_out.score, kind="stable")
    risk = np.cumsum(held_out.wrong[order]) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(risk <= 1 - target)
    return Rung(threshold=float(held_out.score[order][kept[-1]]), cap=1 << 30) if len(kept) else None


METHODS = {
    "betting": betting,
    "betting, others without labels": betting_from_above,
    "entities as independent": as_independent,
    "plain cut": plain_cut,
}


def print_table(found: list[dict[str, Any]], best: str = "minilm-WikiNEuRal") -> None:
    """Print, for each case, draws with a threshold / entities shown of the pool `best`, and the worst share of broken
    promises in all pools."""
    print("| |" + "".join(f" {target:g}, n={n} |" for target, n in CASES) + " worst, real | worst, stress |")
    print("| --- |" + " --: |" * (len(CASES) + 2))
    for name in METHODS:
        cells = []
        for target, n in CASES:
            (one,) = [x[name] for x in found if x["pool"] == best and (x["target"], x["n"]) == (target, n)]
            cells.append(f"{100 * one['made']:.0f} / {100 * one['shown']:.0f}")
        worst = [max(x[name]["broken"] for x in found if x["kind"] == kind) for kind in ("real", "stress")]
        print(f"| {name} | {' | '.join(cells)} | {' | '.join(f'{100 * value:.1f} %' for value in worst)} |")


# ---- the watch -------------------------------------------------------------------------------------------------------


def print_watch(n_draws: int) -> None:
    """Print false alarms at equality and the median delay after a change, each by the watch and by a repeated test."""
    print("| units | false alarms, watch | false alarms, binomial test after each label | median delay |")
    print("| --- | --: | --: | --: |")
    for size, label in ((1, "rows"), (4, "sentences of up to 4 entities")):
        random = np.random.default_rng(size)
        held = [drawn_losses(random, 5000, 0.95, size) for _ in range(n_draws)]
        alarms = np.mean([not watch(losses, "", alarm=DELTA).holds for losses in held])
        naive = np.mean([repeated_test(losses) for losses in held])
        delays = []
        for _ in range(n_draws // 5):
            before, after = drawn_losses(random, 1000, 0.96, size), drawn_losses(random, 3000, 0.85, size)
            both = {name: np.concatenate([getattr(x, name) for x in (before, after)]) for name in ("shown", "wrong")}
            found = watch(Losses(**both, risk=before.risk, cap=size), "", alarm=DELTA)
            delays.append((found.broken_after or 10**6) - 1000)
        print(f"| {label} | {100 * alarms:.1f} % | {100 * naive:.1f} % | {np.median(delays):.0f} |")


def drawn_losses(random: np.random.Generator, n: int, precision: float, size: int) -> Losses:
    shown = np.ones(n) if size == 1 else random.integers(0, size + 1, n).astype(float)
    return Losses(shown=shown, wrong=shown * (random.random(n) > precision), risk=0.05, cap=size)


def repeated_test(losses: Losses) -> bool:
    """Say whether a binomial test at level `DELTA`, after every unit, ever calls the promise broken."""
    from scipy.stats import binom

    shown, wrong = np.cumsum(losses.shown), np.cumsum(losses.wrong)
    some = shown >= 20
    return bool((binom.sf(wrong[some] - 1, shown[some], losses.risk) < DELTA).any())


# ---- sets ------------------------------------------------------------------------------------------------------------


def print_sets(data: Path) -> None:
    """Print coverage / mean size of each method: logistic regression on tf-idf, all validation rows held out."""
    cases = {
        "intents, 150": ("intent/clinc150", "train", "val", {"in domain": "intent/clinc150/test"}),
        "reviews, 2": (
            "sentiment/imdb",
            "train",
            "val",
            {"in domain": "sentiment/imdb/test", "out of domain": "sentiment/dynasent-r2/test"},
        ),
        "inference, 3": ("nli/mnli", "train", "val", {"in domain": "nli/mnli/test", "out of domain": "nli/snli/test"}),
    }
    print("| labels | rows | " + " | ".join(get_args(SetMethod)) + " |")
    print("| --- | --- |" + " --: |" * len(get_args(SetMethod)))
    for name, (place, train, val, tests) in cases.items():
        model, classes = plain_classifier(data / place / f"{train}.jsonl.gz")
        held_out = said(model, classes, data / place / f"{val}.jsonl.gz")
        for where, path in tests.items():
            new = said(model, classes, data / f"{path}.jsonl.gz")
            cells = []
            for method in get_args(SetMethod):
                fitted = PredictionSets(coverage=0.95, method=method).fit(held_out)
                sets = [one["set"] for one in fitted.fields(new)]
                inside = np.mean([classes[y] in one for y, one in zip(new.labels, sets, strict=True)])
                cells.append(f"{100 * inside:.1f} % / {np.mean([len(one) for one in sets]):.2f}")
            print(f"| {name} | {where} | {' | '.join(cells)} |", flush=True)


def rows_of(path: Path) -> tuple[list[str], list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [x["text"] if "text" in x else f"{x['premise']} => {x['hypothesis']}" for x in rows]
    return texts, [x["label"] for x in rows]


def plain_classifier(path: Path) -> tuple[Any, list[str]]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, labels = rows_of(path)
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True), LogisticRegression(C=10, max_iter=500)
    )
    model.fit(texts, labels)
    return model, list(model.classes_)


def said(model: Any, classes: list[str], path: Path) -> Scored:
    texts, labels = rows_of(path)
    probs = model.predict_proba(texts)
    numbers = np.array([classes.index(label) for label in labels])
    predicted = probs.argmax(axis=1)
    return Scored(
        confidence=probs.max(axis=1),
        class_names=classes,
        probs=probs,
        predicted=predicted,
        correct=predicted == numbers,
        labels=numbers,
    )


if __name__ == "__main__":
    main()

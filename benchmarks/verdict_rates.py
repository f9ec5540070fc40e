"""How often `knn-ue reproduce` gives a wrong verdict, by the number of seeds and what scatters: simulated experiments.

The first table is of single claims: the share of experiments without any gain that are called a gain, the mean of both
directions. The second is of tables with 20 claims: the share with at least one wrong verdict, after Holm's correction,
"holds" without any gain and "does not hold" with half of the paper's. The rule is the project's own
(`knn_ue_lab.reproduce.few_seeds`, `verdicts`). Run: python benchmarks/verdict_rates.py (about 10 minutes on one core)
"""

import math
from dataclasses import replace

import numpy as np

from knn_ue_lab.reproduce.claims import Claim
from knn_ue_lab.reproduce.plan import Block
from knn_ue_lab.reproduce.published import Published
from knn_ue_lab.reproduce.statistics import PairedTest, Replicates
from knn_ue_lab.reproduce.variants import MethodVariant
from knn_ue_lab.reproduce.verdicts import ALPHA, judge

N_EXPERIMENTS, N_TABLES, N_CLAIMS, N_DRAWS = 4_000, 300, 20, 2_000
N_SEEDS = (2, 3, 4, 5, 8)
# Of texts, the same for all seeds; of seeds; of texts, for the model of each seed; in points of ECE.
SCATTER = ((0.6, 0.01, 0.0), (0.6, 0.6, 0.0), (0.2, 1.0, 0.0), (0.2, 0.2, 1.0))
SHOWN = (
    "texts alone",
    "texts and seeds alike",
    "seeds, five times as much as texts",
    "texts, differently for each seed",
)
PAPER_GAIN = 3.47
CLAIM = Claim(
    table="sentiment",
    text="ours beats the other",
    block=Block(setup="sentiment", part="imdb", paper="IMDb", measures=("ece",)),
    measure="ece",
    first=MethodVariant(method="knn-ue"),
    second=MethodVariant(method="softmax"),
    printed=(Published(4.42 - PAPER_GAIN), Published(4.42)),
)


def experiment(
    rng: np.random.Generator, gain: float, n_seeds: int, scatter: tuple[float, float, float], n_draws: int
) -> PairedTest:
    """Return the comparison of an experiment whose true gain, in points, is `gain`; the other side has 5 points."""
    of_texts, of_seeds, of_each = scatter
    by_seed = -(gain + of_texts * rng.normal() + math.hypot(of_seeds, of_each) * rng.normal(size=n_seeds)) / 100
    drawn = by_seed[:, None] + of_texts / 100 * rng.normal(size=n_draws)
    drawn += of_each / 100 * rng.normal(size=(n_seeds, n_draws))
    both = Replicates(
        methods=("knn-ue", "softmax"),
        measured=0.05 + np.stack([by_seed, np.zeros_like(by_seed)]),
        drawn=0.05 + np.stack([drawn, np.zeros_like(drawn)]),
    )
    return both.compare("knn-ue", "softmax")


def wrong_claims(rng: np.random.Generator, n_seeds: int, scatter: tuple[float, float, float]) -> float:
    """Return the share of experiments without any gain that look like one, the mean of both directions."""
    found = [experiment(rng, 0.0, n_seeds, scatter, 200) for _ in range(N_EXPERIMENTS)]
    return sum((one.low > 0 or one.high < 0) and one.p < ALPHA for one in found) / N_EXPERIMENTS / 2


def wrong_tables(
    rng: np.random.Generator, n_seeds: int, scatter: tuple[float, float, float], gain: float, word: str
) -> float:
    """Return the share of tables in which some claim with this true gain has the verdict `word`."""
    claims = [replace(CLAIM, block=replace(CLAIM.block, part=str(number))) for number in range(N_CLAIMS)]
    n_wrong = 0
    for _ in range(N_TABLES):
        pairs = {
            ("sentiment", claim.block.part): {
                "ece": {("knn-ue", "softmax"): experiment(rng, gain, n_seeds, scatter, N_DRAWS)}
            }
            for claim in claims
        }
        n_wrong += any(verdict.word == word for verdict in judge(claims, pairs, {}))
    return n_wrong / N_TABLES


def main() -> None:
    """Print both tables, a row for each kind of scatter."""
    head = " | ".join(f"{n_seeds} seeds" for n_seeds in N_SEEDS)
    print(f"| what scatters | {head} |\n| --- |{' --: |' * len(N_SEEDS)}")
    for words, scatter in zip(SHOWN, SCATTER, strict=True):
        rates = [wrong_claims(np.random.default_rng(n_seeds), n_seeds, scatter) for n_seeds in N_SEEDS]
        print(f"| {words} |", " | ".join(f"{100 * rate:.1f} %" for rate in rates), "|", flush=True)
    print(f"\n| what scatters | wrong verdict | {head} |\n| --- | --- |{' --: |' * len(N_SEEDS)}")
    for words, scatter in zip(SHOWN, SCATTER, strict=True):
        for word, gain in (("holds", 0.0), ("does not hold", PAPER_GAIN / 2)):
            rates = [wrong_tables(np.random.default_rng(n), n, scatter, gain, word) for n in N_SEEDS]
            print(f"| {words} | {word} |", " | ".join(f"{100 * rate:.1f} %" for rate in rates), "|", flush=True)


if __name__ == "__main__":
    main()

"""How often `knn-ue reproduce` gives a wrong verdict, by the number of seeds and what scatters: simulated experiments.

The first table is of single claims: the share of experiments without any gain that are called a gain, the mean of both
directions. The second is of tables with 20 claims: the share with at least one wrong verdict, after Holm's correction,
"holds" without any gain and "does not hold" with half of the paper's. The rule is the project's own
(`knn_ue_reproduce.few_seeds`, `verdicts`). Run: python benchmarks/verdict_rates.py (about 10 minutes on one core)
"""

from dataclasses import replace

import numpy as np

from knn_ue_reproduce.claims import Claim
from knn_ue_reproduce.few_seeds import for_few_seeds
from knn_ue_reproduce.plan import Block
from knn_ue_reproduce.published import Published
from knn_ue_reproduce.statistics import PairedTest, Replicates
from knn_ue_reproduce.variants import MethodVariant
from knn_ue_reproduce.verdicts import ALPHA, judge

N_EXPERIMENTS, N_TABLES, N_CLAIMS, N_DRAWS = 4_000, 300, 20, 2_000
N_SEEDS = (2, 3, 4, 5, 8)
SCATTER = ((0.6, 0.01), (0.6, 0.6), (0.2, 1.0))  # of texts, of seeds, in points of ECE
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
    rng: np.random.Generator, gain: float, n_seeds: int, scatter: tuple[float, float], n_draws: int
) -> PairedTest:
    """Return the comparison of an experiment whose true gain, in points, is `gain`; the other side has 5 points."""
    of_texts, of_seeds = scatter
    by_seed = -(gain + of_texts * rng.normal() + of_seeds * rng.normal(size=n_seeds)) / 100
    drawn = by_seed[:, None] + of_texts / 100 * rng.normal(size=n_draws)
    both = Replicates(
        methods=("knn-ue", "softmax"),
        measured=0.05 + np.stack([by_seed, np.zeros_like(by_seed)]),
        drawn=0.05 + np.stack([drawn, np.zeros_like(drawn)]),
    )
    return for_few_seeds(both.compare("knn-ue", "softmax"))


def wrong_claims(rng: np.random.Generator, n_seeds: int, scatter: tuple[float, float]) -> float:
    """Return the share of experiments without any gain that look like one, the mean of both directions."""
    found = [experiment(rng, 0.0, n_seeds, scatter, 200) for _ in range(N_EXPERIMENTS)]
    return sum((one.low > 0 or one.high < 0) and one.p < ALPHA for one in found) / N_EXPERIMENTS / 2


def wrong_tables(rng: np.random.Generator, n_seeds: int, scatter: tuple[float, float], gain: float, word: str) -> float:
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
    """Print both tables, a row for each number of seeds."""
    shown = [f"texts {a:g}, seeds {b:g}" for a, b in SCATTER]
    print("| seeds |", " | ".join(shown), "|\n| ---: |" + " ---: |" * len(SCATTER))
    for n_seeds in N_SEEDS:
        rng = np.random.default_rng(n_seeds)
        rates = [wrong_claims(rng, n_seeds, both) for both in SCATTER]
        print(f"| {n_seeds} |", " | ".join(f"{100 * rate:.1f} %" for rate in rates), "|", flush=True)
    kinds = {"holds": 0.0, "does not hold": PAPER_GAIN / 2}
    print("\n| seeds |", " | ".join(f"wrong {word!r}, {one}" for one in shown for word in kinds), "|")
    print("| ---: |" + " ---: |" * len(SCATTER) * 2)
    for n_seeds in N_SEEDS:
        rng = np.random.default_rng(n_seeds)
        rates = [wrong_tables(rng, n_seeds, both, gain, word) for both in SCATTER for word, gain in kinds.items()]
        print(f"| {n_seeds} |", " | ".join(f"{100 * rate:.1f} %" for rate in rates), "|", flush=True)


if __name__ == "__main__":
    main()

"""How often `knn-ue reproduce` calls a gain real that is not there, by the number of seeds and what scatters.

The rule of `knn_ue_reproduce.statistics` (bootstrap over texts and seeds, then `for_few_seeds`) for thousands of
simulated experiments at once. Run: python benchmarks/verdict_rates.py (a minute on one core)
"""

import numpy as np
from scipy import stats

N_EXPERIMENTS, N_DRAWS, AT_ONCE = 20_000, 200, 2_000
USUAL = stats.norm.isf(0.025)
SCATTER = ((0.6, 0.01), (0.6, 0.6), (0.3, 1.0), (0.2, 1.0), (0.1, 1.0), (0.001, 1.0))  # of texts, of seeds


def wrong(rng: np.random.Generator, n_seeds: int, of_texts: float, of_seeds: float) -> float:
    """Return the share of wrong verdicts, the mean of both directions, among experiments without any true gain."""
    measured = of_texts * rng.normal(size=(AT_ONCE, 1)) + of_seeds * rng.normal(size=(AT_ONCE, n_seeds))
    chosen = rng.integers(n_seeds, size=(AT_ONCE, N_DRAWS, max(1, n_seeds - 1)))
    by_seed = np.broadcast_to(measured[:, None, :], (AT_ONCE, N_DRAWS, n_seeds))
    drawn = np.take_along_axis(by_seed, chosen, axis=2).mean(axis=2) + of_texts * rng.normal(size=(AT_ONCE, N_DRAWS))
    gain = measured.mean(axis=1)
    centered = drawn - drawn.mean(axis=1, keepdims=True) + gain[:, None]
    low, high = np.quantile(centered, [0.025, 0.975], axis=1)
    beyond = np.minimum((centered <= 0).sum(axis=1), (centered >= 0).sum(axis=1))
    error = measured.std(axis=1, ddof=1) / np.sqrt(n_seeds)
    error_of_all = np.maximum(error, (high - low) / (2 * USUAL))
    freedom = (n_seeds - 1) / (error / error_of_all) ** 4
    wider = stats.t.isf(0.025, freedom) / USUAL
    p = np.maximum(2 * (beyond + 1) / (N_DRAWS + 1), 2 * stats.t.sf(np.abs(gain) / error_of_all, freedom))
    up, down = gain - wider * (gain - low) > 0, gain + wider * (high - gain) < 0
    return float(((up | down) & (p < 0.05)).mean()) / 2


def main() -> None:
    """Print a row for each number of seeds."""
    print("| seeds |", " | ".join(f"texts {a:g}, seeds {b:g}" for a, b in SCATTER), "|")
    print("| ---: |" + " ---: |" * len(SCATTER))
    for n_seeds in (2, 3, 4, 5, 8):
        rng = np.random.default_rng(n_seeds)
        rates = [np.mean([wrong(rng, n_seeds, *both) for _ in range(N_EXPERIMENTS // AT_ONCE)]) for both in SCATTER]
        print(f"| {n_seeds} |", " | ".join(f"{100 * rate:.1f} %" for rate in rates), "|", flush=True)


if __name__ == "__main__":
    main()

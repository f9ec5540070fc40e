"""Samples of answers -> replicates of their measures, as a report makes them."""

from knn_ue_lab.reproduce.statistics import redrawn, replicates_of


def bootstrap(samples, measures, *, n_groups, n_bootstrap, seed=0):
    """Return the replicates of each measure: `samples` are by method and seed, None where there is none."""
    known = [sample for by_seed in samples.values() for sample in by_seed if sample is not None]
    values = iter(redrawn(known, measures, n_groups=n_groups, n_bootstrap=n_bootstrap, seed=seed))
    by_method = {
        method: [None if sample is None else next(values) for sample in by_seed] for method, by_seed in samples.items()
    }
    return {name: replicates_of(name, by_method) for name in measures}

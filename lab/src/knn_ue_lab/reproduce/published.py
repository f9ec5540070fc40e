"""The published numbers, as printed: mean ± standard deviation over five seeds, † where the paper calls it significant.

A row is named after the method, the number of neighbors and the index as `MethodVariant` prints them; columns name the
set of the paper and the measure. Blocks are copied from the tables whose LaTeX label is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One printed number; `std` is None where the paper gives none, `significant` is its †."""

    mean: float
    std: float | None = None
    significant: bool = False

    def __str__(self) -> str:
        digits = 1 if self.mean == 100 else 2
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.mean:.{digits}f}{spread}{'†' if self.significant else ''}"


Column = tuple[str, str]


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper: its LaTeX label, its columns (set, measure), and its numbers by row and column."""

    label: str
    columns: tuple[Column, ...]
    rows: Mapping[str, Mapping[Column, Published]]


def parse_number(text: str) -> Published:
    """Return a printed number.

    >>> parse_number("0.95±0.12†")
    Published(mean=0.95, std=0.12, significant=True)
    """
    mean, _, std = text.rstrip("†").partition("±")
    return Published(float(mean), float(std) if std else None, text.endswith("†"))


# A row of a table would be longer than a line of code with the name in full.
_ALL_THREE = "knn-ue-PCA128+IVF100+PQ32x5-p32"


def _block(label: str, columns: str, rows: str) -> PublishedTable:
    parted = [part.partition(":") for part in columns.split("|")]
    names = tuple((one.strip(), measure) for one, _, measures in parted for measure in measures.split())
    found: dict[str, dict[Column, Published]] = {}
    for line in rows.strip().splitlines():
        name, _, numbers = line.partition(" | ")
        name = name.strip().replace("all-three", _ALL_THREE)
        found[name] = {
            column: parse_number(text) for column, text in zip(names, numbers.split(), strict=True) if text != "-"
        }
    return PublishedTable(label, names, found)


PUBLISHED: Mapping[str, PublishedTable] = {
    "sentiment": _block(
        "tab:sentiment_analysis_metrics",
        "IMDb: ece mce class_auroc e_aurc_published | Yelp: ece mce class_auroc e_aurc_published",
        """
softmax         | 4.42±0.41 24.06±3.52 98.35±0.10 10.60±2.81 4.69±1.20 21.02±6.74 98.15±0.39 11.84±3.15
temperature     | 4.10±0.31 20.43±5.01 98.45±0.21 11.36±2.82 5.10±1.19 19.70±1.35 98.20±0.46 12.91±4.12
label-smoothing | 1.88±0.41 21.50±4.53 98.36±0.45 14.52±7.24 2.53±0.43 16.47±3.51 98.30±0.45 12.90±6.09
mc-dropout      | 4.28±0.27 23.74±3.52 98.57±0.12 9.17±1.74 4.33±0.54 20.17±2.79 98.28±0.25 10.01±2.01
sngp            | 4.18±0.30 22.69±4.83 98.53±0.15 9.95±1.17 4.89±0.59 21.28±4.68 98.10±0.27 11.42±2.14
posterior       | 4.28±0.43 24.43±0.20 98.06±0.27 10.99±5.63 4.69±0.35 24.41±0.32 97.56±0.25 15.82±3.94
mdsn            | 4.45±0.43 23.97±5.05 98.48±0.08 10.25±0.86 5.32±0.92 21.33±2.91 98.00±0.20 11.12±3.53
density-softmax | 4.23±0.36 27.10±6.92 98.34±0.08 11.39±2.48 4.99±0.48 21.98±3.68 98.09±0.24 13.05±2.72
dac             | 1.51±0.33 14.17±2.73 98.36±0.37 12.72±6.15 2.35±0.12 6.44±2.23 97.86±0.60 14.26±5.90
knn-ue-no-label | 1.33±0.36 13.13±3.24 98.65±0.13 9.36±0.36 2.23±0.29 6.33±2.76 98.27±0.11 10.97±0.91
knn-ue          | 0.95±0.12† 9.02±1.39† 98.64±0.12 7.97±0.61† 1.45±0.15† 4.17±1.52 98.23±0.39 9.92±0.61
""",
    ),
    "detection": _block(
        "tab:sa_ood_evaluation",
        "Yelp: fpr95 detection_auroc aupr_in_published aupr_out_published",
        """
softmax         | 82.51±9.49 63.18±5.14 69.51±2.57 54.70±8.48
temperature     | 83.12±7.50 65.63±3.64 70.99±2.02 56.19±6.11
label-smoothing | 86.88±4.27 62.17±2.83 69.50±1.51 51.38±3.81
mc-dropout      | 87.33±3.38 63.96±4.09 70.13±2.39 53.18±5.41
sngp            | 81.92±3.46 63.27±3.07 68.83±2.10 55.91±3.20
posterior       | 82.84±5.11 67.54±4.29 66.59±2.45 55.32±5.26
density-softmax | 87.54±3.14 58.73±4.33 67.34±2.57 49.19±4.36
dac             | 84.98±4.19 64.65±6.18 70.69±3.59 54.81±7.29
knn-ue-no-label | 75.87±2.16 70.44±1.70 74.77±1.44† 63.39±2.24
knn-ue          | 73.55±5.01† 71.11±2.92† 73.80±2.19 65.01±3.45†
""",
    ),
    "nli": _block(
        "tab:nli_debertav3_scores",
        "MNLI: ece mce class_auroc e_aurc_published | SNLI: ece mce class_auroc e_aurc_published",
        """
softmax         | 8.36±0.61 37.61±7.53 97.03±0.12 31.29±2.23 9.77±0.55 36.61±14.05 96.07±0.17 37.62±0.67
temperature     | 2.73±1.86 15.81±11.05 97.06±0.02 31.24±1.86 3.92±1.79 18.13±10.69 96.08±0.13 38.40±2.06
label-smoothing | 2.89±0.14 28.64±7.90 96.56±0.55 37.98±12.64 3.97±0.45 23.18±6.17 95.61±0.40 44.18±9.18
mc-dropout      | 8.13±0.65 30.17±6.83 96.97±0.06 32.31±2.25 9.62±0.53 28.90±5.03 96.10±0.11 37.19±2.99
sngp            | 10.45±0.56 35.42±13.89 95.91±0.12 42.03±2.72 14.28±1.04 31.16±3.42 93.40±0.44 63.21±6.84
posterior       | 33.83±0.51 37.10±0.71 96.96±0.10 26.33±1.22 32.01±0.61 35.37±0.58 95.57±0.29 40.94±4.49
mdsn            | 8.34±0.46 29.04±6.43 97.07±0.14 32.03±2.29 9.44±0.47 38.59±13.94 96.11±0.12 38.91±3.06
density-softmax | 8.42±0.43 36.20±5.78 97.03±0.10 32.56±3.29 10.09±0.40 33.59±4.57 95.96±0.19 41.43±2.25
dac             | 1.42±0.30 18.79±10.81 96.92±0.10 33.89±2.60 2.27±0.16 11.55±3.48 96.08±0.07 40.23±3.00
knn-ue-no-label | 1.28±0.43 16.53±11.45 97.09±0.10 30.22±2.80 2.12±0.36 10.00±6.07 96.12±0.16 37.33±4.70
knn-ue          | 1.41±0.47 10.77±2.34† 97.18±0.09 23.83±1.29† 1.80±0.37 5.12±1.47† 96.00±0.22 34.97±2.48
""",
    ),
    "ner": _block(
        "tab:ner_metrics",
        "bn: ece mce e_aurc_published | nw: ece mce e_aurc_published | tc: ece mce e_aurc_published",
        """
softmax         | 7.79±0.53 50.07±24.15 21.90±1.31 17.05±0.69 37.06±3.13 81.49±4.17 21.20±2.03 42.60±5.84 76.05±5.72
temperature     | 5.34±0.43 75.71±21.96 19.63±1.22 12.76±0.62 26.57±3.97 72.90±4.72 19.69±0.95 47.72±7.34 71.87±8.83
label-smoothing | 6.46±0.74 50.99±26.73 24.93±1.19 14.78±0.61 30.54±2.84 81.50±6.98 20.99±2.16 65.40±17.16 76.65±7.33
mc-dropout      | 6.76±0.64 53.13±26.07 19.91±3.39 15.27±1.01 33.60±4.93 77.21±3.72 21.93±1.63 56.56±12.32 75.68±9.30
e-ner           | 7.98±0.42 61.87±27.06 19.44±1.81 17.42±0.88 40.46±5.33 74.32±4.47 25.42±2.09 59.16±10.33 72.00±6.57
density-softmax | 7.32±0.25 59.05±27.76 25.17±2.63 16.10±0.62 44.66±21.67 80.14±8.50 24.40±1.84 62.50±10.46 80.06±6.27
dac             | 1.62±0.42 42.96±28.25 21.47±2.90 7.91±0.75 25.28±5.15 75.24±2.43 14.42±1.57 47.92±20.98 80.72±8.19
knn-ue-no-label | 3.37±0.71 33.15±3.65 17.63±0.66† 8.78±0.62 24.91±1.81 70.10±4.03 14.61±0.67 35.26±7.16† 65.41±8.11
knn-ue          | 1.78±0.32 26.02±13.72 20.14±1.27 7.50±0.42 16.53±2.61† 74.27±5.43 14.15±0.33 39.84±6.02 71.81±9.04
""",
    ),
    "weights": _block(
        "tab:w_knn_scores",
        "Yelp: weight_right weight_wrong confidence_right confidence_wrong",
        """
knn-ue-no-label | 0.49 0.41 0.95 0.82
knn-ue          | 0.50 0.27 0.93 0.72
""",
    ),
    "time": _block(
        "tab:inference_time_id",
        "MNLI: seconds | bn: seconds",
        """
softmax         | 8.41±0.03 2.49±0.08
temperature     | 8.42±0.07 2.51±0.08
label-smoothing | 8.44±0.06 2.53±0.03
mc-dropout      | 157.52±0.51 39.81±0.39
sngp            | 10.58±2.09 -
posterior       | 9.11±0.07 -
mdsn            | 9.65±1.36 -
e-ner           | - 2.51±0.12
density-softmax | 8.57±0.06 2.59±0.05
dac             | 785.15±6.72 183.46±0.76
knn-ue-no-label | 9.05±0.07 4.94±0.10
knn-ue          | 9.08±0.10 4.99±0.07
""",
    ),
    "time-elsewhere": _block(
        "tab:inference_time_ood",
        "SNLI: seconds | nw: seconds",
        """
softmax         | 21.59±0.76 5.75±0.27
temperature     | 21.64±0.07 5.79±0.17
label-smoothing | 21.70±0.07 5.80±0.19
mc-dropout      | 396.86±1.10 101.98±0.83
sngp            | 24.59±0.08 -
posterior       | 23.26±0.05 -
mdsn            | 23.39±0.85 -
e-ner           | - 5.78±0.61
density-softmax | 22.02±0.05 6.02±0.07
dac             | 2346.62±36.06 326.00±1.41
knn-ue-no-label | 23.02±0.04 10.36±0.21
knn-ue          | 23.07±0.05 10.48±0.12
""",
    ),
    "time-k": _block(
        "tab:inference_time_changing_k",
        "IMDb: seconds",
        """
softmax     | 121.56±0.12
knn-ue-k8   | 128.98±0.11
knn-ue-k16  | 128.97±0.13
knn-ue      | 128.54±0.16
knn-ue-k64  | 129.16±0.16
knn-ue-k128 | 128.39±0.20
""",
    ),
    "combined": _block(
        "tab:combination_scores",
        "bn: ece mce e_aurc_published seconds | nw: ece mce e_aurc_published seconds",
        """
softmax | 7.79±0.53 50.07±24.15 21.90±1.31 2.49±0.08 17.05±0.69 37.06±3.13 81.49±4.17 5.75±0.27
knn-ue-no-label | 3.37±0.71 33.15±3.65 17.63±0.66 4.94±0.10 8.78±0.62 24.91±1.81 70.10±4.03 10.36±0.21
knn-ue | 1.78±0.32 26.02±13.72 20.14±1.27 4.99±0.07 7.50±0.42 16.53±2.61 74.27±5.43 10.48±0.12
knn-ue-PQ32x5-approx | 1.96±0.31 31.33±18.74 20.23±1.27 3.32±0.05 7.57±0.45 16.43±2.73 74.38±5.36 7.23±0.16
knn-ue-IVF100+PQ32x5-p32-approx | 1.92±0.31 28.55±11.24 20.13±1.22 3.31±0.06 7.60±0.41 17.12±2.35 74.34±5.35 7.33±0.21
all-three-approx | 2.14±0.37 33.52±10.84 20.12±1.26 2.87±0.04 8.08±0.53 24.03±5.46 74.50±5.42 6.20±0.20
""",
    ),
    "coverage": _block(
        "tab:combination_coverages",
        "bn: coverage | nw: coverage",
        """
knn-ue                                 | 100.0 100.0
knn-ue-PQ32x5-approx                   | 21.30 51.68
knn-ue-IVF100+PQ32x5-p32-approx        | 18.60 11.04
knn-ue-PCA128+IVF100+PQ32x5-p32-approx | 0.02 0.04
knn-ue-PCA128+Flat-approx              | 43.98 20.35
""",
    ),
    "pq": _block(
        "tab:product_quantization_scores",
        "bn: ece mce e_aurc_published seconds | nw: ece mce e_aurc_published seconds",
        """
softmax              | 7.79±0.53 50.07±24.15 21.90±1.31 2.49±0.08 17.05±0.69 37.06±3.13 81.49±4.17 5.75±0.27
knn-ue-no-label      | 3.37±0.71 33.15±3.65 17.63±0.66 4.94±0.10 8.78±0.62 24.91±1.81 70.10±4.03 10.36±0.21
knn-ue               | 1.78±0.32 26.02±13.72 20.14±1.27 4.99±0.07 7.50±0.42 16.53±2.61 74.27±5.43 10.48±0.12
knn-ue-PQ16x5-approx | 1.90±0.27 31.18±11.17 20.16±1.12 3.27±0.06 7.66±0.48 17.07±3.81 74.47±5.53 7.22±0.19
knn-ue-PQ32x5-approx | 1.96±0.31 31.33±18.74 20.23±1.27 3.32±0.05 7.57±0.45 16.43±2.73 74.38±5.36 7.23±0.16
knn-ue-PQ64x5-approx | 1.88±0.34 31.06±16.36 20.16±1.23 4.11±0.11 7.57±0.44 16.38±2.66 74.35±5.49 8.90±0.18
""",
    ),
    "ivf": _block(
        "tab:clustering_scores",
        "bn: ece mce e_aurc_published seconds | nw: ece mce e_aurc_published seconds",
        """
softmax | 7.79±0.53 50.07±24.15 21.90±1.31 2.49±0.08 17.05±0.69 37.06±3.13 81.49±4.17 5.75±0.27
knn-ue-no-label                 | 3.37±0.71 33.15±3.65 17.63±0.66 4.94±0.10 8.78±0.62 24.91±1.81 70.10±4.03 10.36±0.21
knn-ue | 1.78±0.32 26.02±13.72 20.14±1.27 4.99±0.07 7.50±0.42 16.53±2.61 74.27±5.43 10.48±0.12
knn-ue-IVF100+PQ32x5-p8-approx  | 1.82±0.28 30.18±16.77 20.14±1.21 2.84±0.08 7.52±0.41 16.01±1.92 74.33±5.37 6.09±0.28
knn-ue-IVF100+PQ32x5-p16-approx | 1.86±0.25 29.48±16.91 20.13±1.21 3.11±0.03 7.56±0.36 16.93±3.38 74.31±5.39 6.65±0.17
knn-ue-IVF100+PQ32x5-p32-approx | 1.92±0.31 28.55±11.24 20.13±1.22 3.31±0.06 7.60±0.41 17.12±2.35 74.34±5.35 7.33±0.21
knn-ue-IVF100+PQ32x5-p64-approx | 1.83±0.28 27.00±9.43 20.14±1.21 3.71±0.06 7.53±0.40 17.28±2.45 74.33±5.37 7.89±0.12
""",
    ),
    "pca": _block(
        "tab:dimension_reduction_scores",
        "bn: ece mce e_aurc_published seconds | nw: ece mce e_aurc_published seconds",
        """
softmax                   | 7.79±0.53 50.07±24.15 21.90±1.31 2.49±0.08 17.05±0.69 37.06±3.13 81.49±4.17 5.75±0.27
knn-ue-no-label           | 3.37±0.71 33.15±3.65 17.63±0.66 4.94±0.10 8.78±0.62 24.91±1.81 70.10±4.03 10.36±0.21
knn-ue                    | 1.78±0.32 26.02±13.72 20.14±1.27 4.99±0.07 7.50±0.42 16.53±2.61 74.27±5.43 10.48±0.12
knn-ue-PCA64+Flat-approx  | 1.89±0.37 31.01±14.35 20.06±1.25 3.24±0.08 7.48±0.41 16.20±2.75 74.33±5.49 7.37±0.26
knn-ue-PCA128+Flat-approx | 1.80±0.36 27.85±13.80 20.13±1.29 3.41±0.10 7.54±0.45 16.42±2.73 74.30±5.44 7.75±0.24
knn-ue-PCA256+Flat-approx | 1.80±0.40 26.23±12.61 20.13±1.28 3.85±0.06 7.56±0.43 16.13±2.59 74.26±5.40 8.51±0.46
""",
    ),
    "recomputed": _block(
        "tab:distance_recomputation_score",
        "bn: ece mce e_aurc_published seconds | nw: ece mce e_aurc_published seconds",
        """
knn-ue | 1.78±0.32 26.02±13.72 20.14±1.27 4.99±0.07 7.50±0.42 16.53±2.61 74.27±5.43 10.48±0.12
all-three-approx | 2.14±0.37 33.52±10.84 20.12±1.26 2.87±0.04 8.08±0.53 24.03±5.46 74.50±5.42 6.20±0.20
knn-ue-PCA128+IVF100+PQ32x5-p32 | 2.35±0.44 30.47±7.50 20.16±1.17 16.24±0.77 8.30±0.51 25.67±5.26 74.58±5.53 34.22±0.78
""",
    ),
    "brier": _block(
        "tab:brier_scores",
        "IMDb: brier | Yelp: brier | MNLI: brier | SNLI: brier",
        """
softmax         | 5.00±0.27 5.83±0.98 9.50±0.40 11.02±0.41
temperature     | 5.09±0.42 6.67±1.36 8.31±0.25 9.60±0.21
label-smoothing | 4.64±0.23 5.16±0.92 8.73±0.23 10.18±0.17
mc-dropout      | 4.88±0.21 5.45±0.55 9.33±0.36 11.00±0.28
sngp            | 4.78±0.15 5.99±0.39 12.25±5.38 13.45±4.57
posterior       | 10.31±0.28 11.16±0.22 20.76±0.32 21.11±0.42
density-softmax | 4.82±0.18 6.05±0.38 9.60±0.34 11.28±0.41
dac             | 4.44±0.33 5.44±0.71 8.21±0.25 9.55±0.35
knn-ue-no-label | 4.37±0.16 5.10±0.12 8.15±0.15 9.52±0.32
knn-ue          | 4.21±0.14 5.02±0.42 8.07±0.18 9.44±0.28
""",
    ),
    "toy": _block(
        "tab:behavior_ner_ece_eaurc_toy",
        "toy: ece e_aurc_published",
        """
A | 17.67 18.80
B | 16.83 121.57
""",
    ),
}

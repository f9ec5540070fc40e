"""How people print each metric: its title, the direction that is better, the unit. Everywhere else are fractions."""

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

UNDEFINED = "–"


@dataclass(frozen=True, kw_only=True)
class Style:
    """A metric as printed: value times `factor` with `digits` decimals, in `unit`."""

    title: str
    higher_is_better: bool = False
    factor: float = 100.0
    digits: int = 2
    unit: str = "%"

    @property
    def heading(self) -> str:
        """The title with its unit and an arrow to the better side."""
        return " ".join(filter(None, (self.title, self.unit, "↑" if self.higher_is_better else "↓")))

    def show(self, value: float) -> str:
        """Return `value`, a fraction, as printed; a number that is not defined is a dash.

        >>> STYLES["ece"].show(0.0321), STYLES["e_aurc"].show(0.0321), STYLES["auroc"].show(math.nan)
        ('3.21', '32.10', '–')
        """
        return UNDEFINED if math.isnan(value) else f"{value * self.factor:.{self.digits}f}"


_PLAIN: dict[str, Any] = {"factor": 1.0, "digits": 4, "unit": ""}
_AREA: dict[str, Any] = {"factor": 1000.0, "unit": "×1000"}
STYLES = MappingProxyType(
    {
        "accuracy": Style(title="accuracy", higher_is_better=True),
        "f1": Style(title="F1", higher_is_better=True),
        "nll": Style(title="NLL", **_PLAIN),
        "brier_multiclass": Style(title="Brier", **_PLAIN),
        "brier_top_label": Style(title="Brier, top label", **_PLAIN),
        "ece": Style(title="ECE"),
        "mce": Style(title="MCE"),
        "adaptive_ece": Style(title="adaptive ECE"),
        "debiased_ece": Style(title="debiased ECE"),
        "class_wise_ece": Style(title="class-wise ECE"),
        "fpr95": Style(title="FPR@95"),
        "auroc": Style(title="AUROC", higher_is_better=True),
        "aurc": Style(title="AURC", **_AREA),
        "e_aurc": Style(title="E-AURC", **_AREA),
        "aupr_in": Style(title="AUPR-in", higher_is_better=True),
        "aupr_out": Style(title="AUPR-out", higher_is_better=True),
    }
)

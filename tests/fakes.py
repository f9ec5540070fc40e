"""Stand-ins whose answers are known without any fitting."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from knn_ue.answers import Explanation, NeighborExample
from knn_ue.arrays import softmax
from knn_ue.calibrators import Calibrator
from knn_ue.entities import find_entities


class FixedTemperature(Calibrator):
    """A calibrator that divides the logits by a number and counts its calls."""

    kind = "fixed-temperature"
    fitted_on_validation = False

    def __init__(self, temperature):
        self.temperature = temperature
        self.n_calls = 0

    def _is_fitted(self):
        return True

    def _fit(self, _validation, _found):
        """Nothing to learn."""

    def _predict_proba(self, outputs, _found):
        self.n_calls += 1
        return softmax(outputs.logits / self.temperature)

    @dataclass(frozen=True, kw_only=True)
    class State:
        temperature: float


class Flipping(FixedTemperature):
    """A calibrator that is no logit scaling: in some rows it gives the second class the first one's probability."""

    keeps_prediction = False

    def __init__(self, rows):
        super().__init__(1.0)
        self.rows = rows

    def _predict_proba(self, outputs, found):
        probs = super()._predict_proba(outputs, found)
        order = np.argsort(-probs[self.rows], axis=1)
        flipped = probs.copy()
        for row, (first, second, *_) in zip(self.rows, order, strict=True):
            flipped[row, [first, second]] = probs[row, [second, first]]
        return flipped


class Pointing(FixedTemperature):
    """A calibrator of no family of ours that explains each row by one stored example."""

    kind = "pointing"
    explains = True

    def explain(self, outputs, *, top=5, found=None):
        assert found is None
        near = NeighborExample(id=7, label="class 0", distance=0.125, agrees=True, text="a stored one")
        terms = {"weight": 1.0, "distance_term": 1.0, "label_term": 0.0}
        usual = {"usual_distance_term": None, "usual_label_term": None, "raised_by": (), "lowered_by": ()}
        counts = {"n_agreeing": 1, "n_neighbors": 1, "neighbors": (near,)[:top]}
        sure = {"raw_score": 0.5, "score": 0.5}
        return [
            Explanation(label=f"class {x}", text=None, **terms, **usual, **counts, **sure) for x in outputs.predicted
        ]


class Reading(FixedTemperature):
    """A calibrator of no family of ours that scores every entity and sentence alike, and counts its searches."""

    reads_entities = True
    n_searches = 0

    def __init__(self, score, *, n_forgotten=0):
        super().__init__(1.0)
        self.score, self.n_forgotten = score, n_forgotten

    def search(self, _outputs):
        self.n_searches += 1
        return {"words": self.n_searches}

    def predict_proba(self, outputs, *, found):
        assert found == {"words": self.n_searches}
        return self._predict_proba(outputs, found)

    def read(self, outputs, *, found):
        assert found == {"words": self.n_searches}
        spans = find_entities(outputs, outputs.predicted)
        scores = np.full(len(spans) - self.n_forgotten, self.score)
        return SimpleNamespace(scores=scores, sentence_scores=np.full(len(spans.starts), self.score))

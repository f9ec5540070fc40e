"""Stand-ins whose answers are known without any fitting."""

from knn_ue.arrays import softmax


class FixedTemperature:
    """A calibrator that divides the logits by a number and counts its calls."""

    keeps_prediction = True
    fitted_on_validation = False

    def __init__(self, temperature):
        self.temperature = temperature
        self.n_calls = 0

    def fit(self, _validation):
        return self

    def predict_proba(self, outputs):
        self.n_calls += 1
        return softmax(outputs.logits / self.temperature)

    def predict(self, outputs):
        raise NotImplementedError

    def save(self, path):
        raise NotImplementedError

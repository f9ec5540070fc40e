"""Rows -> Outputs (features, logits, labels) -> datastore -> Neighbors -> weight -> probabilities -> metrics -> report."""

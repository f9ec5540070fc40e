"""Rows -> Outputs -> datastore -> Neighbors -> weight -> probabilities -> metrics -> report."""

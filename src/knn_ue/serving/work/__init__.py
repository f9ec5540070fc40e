"""What a request needs done: batches through the model, the one writer of the folder, drift and metrics."""

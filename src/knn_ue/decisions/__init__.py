"""What is decided from a score: whether to answer."""

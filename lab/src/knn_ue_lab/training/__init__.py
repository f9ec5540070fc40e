"""Methods that train the model in their own way."""

"""Heads that take the place of a classifier's last layer where softmax(W h + b) is not the answer.

A head is a torch module; `knn_ue.heads.files` saves and loads it beside the plain Hugging Face files of its model.
"""

"""Last layers of methods that train their own model; `knn_ue.encoding.heads` saves and loads them."""

"""The operator: watch -> observe -> plan -> carry out."""

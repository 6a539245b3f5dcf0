"""Pure builders: spec in, manifest out, one Kubernetes kind per module. Same input, same bytes."""

"""The port to Kubernetes.

cluster.py   `Cluster` (the port), `Kind`, and the errors that callers distinguish
client.py    `ApiServer`: the adapter over kubernetes.aio
lease.py     `Leadership`: exactly one writer, by a coordination.k8s.io Lease
"""

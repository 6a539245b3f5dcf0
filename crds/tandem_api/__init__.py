"""What the parts of Tandem agree on: models, names, reasons, sizing, and the port to Kubernetes.

Rooms
    inference_service.py, worker_pool.py   the two kinds, as pydantic models (the only source of the CRDs)
    crd.py                                 generates the CRD YAML from those models (`python -m tandem_api.crd`)
    names.py, reasons.py                   labels, annotations, field managers; conditions, reasons
    durations.py                           "40ms", "1s", "5m" <-> seconds
    sizing/                                weights and KV cache arithmetic, pure standard library
    kubernetes/                            the `Cluster` port, its adapter, and the Lease
"""

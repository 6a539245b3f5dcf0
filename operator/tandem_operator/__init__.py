"""The operator: turns one `InferenceService` into worker pods, pools and a router, and keeps them so.

Data flows one way: watch -> queue -> observe -> plan (pure) -> carry out.

Rooms
    watch/         kopf as informer, the in-memory World, the periodic resync
    queue/         work queue: one flight per service, backoff, add-after
    observe/       World and engines -> `Observed`, frozen
    build/         pure builders, one Kubernetes kind per module
    plan/          pure `plan(observed, now, settings) -> Plan`, one idea per module
    carry_out/     the only room that writes
    reconcile.py   one pass for one service, the rooms in order
    main.py        the process: arguments, leadership, health and metrics
    permissions.py what the code may ask of the API server, as data
"""

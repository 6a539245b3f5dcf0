"""From engines' counters to rates.

source.py        `SignalSource` (the port), `PodReading`, `Snapshot`: raw cumulative values, unknown = None
metric_names.py  which metric means what, over the engines' versions
exposition.py    Prometheus text -> families
histogram.py     cumulative buckets: difference, sum, tail, attainment
scrape.py        adapter: pods directly
prometheus.py    adapter: a Prometheus
layout.py        a reading as a vector, so that differences are cheap
track.py         one pod's readings over time, resets taken out
window.py        successive readings -> rates per role over a window
"""

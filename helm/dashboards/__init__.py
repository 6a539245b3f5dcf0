"""The chart's Grafana dashboards, as code: a panel's JSON is forty lines of which three say something.

grafana.py   panels, rows, variables
service.py   one service
fleet.py     all services, operator and autoscaler

`python -m helm.dashboards` writes them into the chart (`make generate`).
"""

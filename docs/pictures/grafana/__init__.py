"""Pictures of the chart's Grafana dashboards: `.venv/bin/python -m docs.pictures.grafana [FOLDER]`.

fleets -> real Prometheus -> panels -> picture

operated_world.py  simulated fleets under the real operator and the real autoscaler
scrapes.py         what a Prometheus would have scraped from all of them
backfilled.py      a real Prometheus that holds it, the chart's recording rules included
questions.py       the dashboards' queries, as Grafana asks them
page/              Grafana's own panel components draw the answers
pictures.py        Chromium looks at the page

Needs the Debian packages prometheus and chromium, and Node.js with npm. Not part of `make check`.
"""

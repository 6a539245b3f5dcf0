"""What the autoscaler saw, tick by tick, as a file, and the same decisions from it again.

lines.py    (service, snapshot) <-> one line of JSON, without loss
source.py   a signal source that writes down what another one answers
replay.py   the file -> the decisions of each tick

A decision depends on nothing but the services, their snapshots and the settings, so a file explains every one of them
on another machine: `python -m tandem_autoscaler.recording FILE`.
"""

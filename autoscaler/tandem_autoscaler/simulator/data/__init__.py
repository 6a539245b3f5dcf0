"""Excerpts of public traces and of measured latencies; README.md says whose they are.

excerpt.py   makes the .npz and .csv files from the public downloads
fit.py       fits the coefficients of simulator/catalogue.py to the measured latencies, into hardware.json
"""

from pathlib import Path

FOLDER = Path(__file__).parent

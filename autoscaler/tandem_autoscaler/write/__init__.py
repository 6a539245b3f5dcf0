"""Decisions -> the API server.

scale.py    a pool's `/scale`
status.py   slo, autoscaling and conditions of the InferenceService, only when they changed
events.py   Events, only on changes
"""

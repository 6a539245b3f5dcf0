"""For every test: what a shared machine does to timings is no property of the code."""

from hypothesis import HealthCheck, settings

settings.register_profile("tandem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tandem")

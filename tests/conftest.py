"""For every test: what a shared machine does to timings is no property of the code.

`make test` tries the same examples each time, on every machine: it says whether a change broke something. New ones are
looked for with TANDEM_DEEP=1 in the environment (`make test-deep`).
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tandem",
    deadline=None,
    print_blob=True,
    derandomize=not os.environ.get("TANDEM_DEEP"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tandem")

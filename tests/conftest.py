"""Settings for every test."""

import os

from hypothesis import HealthCheck, settings

# No deadlines: a slow machine is not a failing test.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples every time, so that a failure is the change's and not the draw's.
settings.register_profile(
    "ci",
    settings.get_profile("dev"),
    max_examples=200,
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

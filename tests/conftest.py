"""What holds for all tests: none of them fails because a machine is busy."""

from __future__ import annotations

from contextlib import suppress

with suppress(ImportError):  # the tests that need a GPU run where hypothesis may not be
    from hypothesis import HealthCheck, settings

    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")

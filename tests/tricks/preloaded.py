"""What the server of `running` imports before it forks, as the server that forks asv's rounds does."""

import tests.harness.measuring  # noqa: F401

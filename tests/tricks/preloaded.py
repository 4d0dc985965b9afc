"""What the server of `running` imports before it forks, as the server that forks asv's rounds does."""

import kernel_velocity.compare.api
import kernel_velocity.harness.asv_type
import kernel_velocity.harness.definition
import tests.harness.measuring  # noqa: F401

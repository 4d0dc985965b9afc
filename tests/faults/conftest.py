from pathlib import Path

import pytest

from tests.faults.tiny import Tiny, make


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path)

"""Options and skips that every test shares."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--accept-golden", action="store_true", help="write the golden files instead of comparing")


def pytest_collection_modifyitems(items):
    """Skip CUDA tests where there is no CUDA device, with the reason."""
    if not any("cuda" in item.keywords for item in items):
        return
    try:
        import torch

        reason = None if torch.cuda.is_available() else "PyTorch sees no CUDA device"
    except ModuleNotFoundError:
        reason = "PyTorch is not installed"
    if reason is not None:
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason=reason))

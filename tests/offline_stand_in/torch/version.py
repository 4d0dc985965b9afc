"""Versions, as PyTorch names them."""

__version__ = "0.0.0+numpy"
cuda = None
hip = None

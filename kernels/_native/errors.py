"""What can go wrong between a caller and a kernel. Every error of this package is a KernelError."""

from __future__ import annotations


class KernelError(Exception):
    """Root of every error that `kernels` raises."""


class ArgumentTypeError(KernelError, TypeError):
    """An argument is of the wrong kind: not a tensor, or of a dtype that the kernel does not take."""


class ArgumentValueError(KernelError, ValueError):
    """An argument is of the right kind, but its shape, device, layout, memory or value does not fit."""


class LibraryError(KernelError, ImportError):
    """The native library is missing, does not load, or is not the one that these Python files belong to."""


class LaunchError(KernelError, RuntimeError):
    """The native code returned a status other than 0, or cannot run here at all."""

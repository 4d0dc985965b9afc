"""A CUDA device that is no device: `pytest --fake-cuda -m cuda` runs the tests of a GPU's Python code without one.

`tensors` gives PyTorch's CPU build real tensors of "cuda:0" and "cuda:1", whose memory is the host's. `device` has the
clock, streams, events and graphs. `natives` stands in for the entry points of our library. `plant` puts all of it
where PyTorch, the kernels and the harness look for it. `stages` measures ceilings and traces on it.

What it finds: errors of the Python code around a GPU. Wrong arguments, tensors on different devices, numbers read
from the wrong stream, calls that a graph cannot hold, tests that nobody has run. What it cannot say: whether a CUDA
kernel is right (tests/cuda_on_host), and how long anything takes.
"""

planted = False  # whether this process has it

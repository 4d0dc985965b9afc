"""What a kernel computes: test cases, reference, cost, tolerance, and the public forms of such problems.

It imports the engine and the leaves, and torch only in functions.

    accuracy.py         error figures of an output, tolerances
    flashinfer_inputs.py  axes and random inputs of a FlashInfer definition
    gpu_mode_cuda.py    the C++ of a GPU MODE task in CUDA, compiled and called
    null_answers.py     outputs of which nothing was computed, tried against a check
    implementations.py  eager, compile, native, triton, bound to inputs
    problem.py          what a kernel computes: test cases, reference, cost
    problem_file.py     the Problem of a user's file, checked, on a device
    problem_formats.py  the four forms of public problems, each as a Problem class
    traffic.py          bytes that the operations of a reference move one by one
    user_file.py        a user's Python file, imported with its neighbours
"""

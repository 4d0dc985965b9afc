"""What a kernel computes: test cases, reference, cost, tolerance, and the public forms of such problems.

It imports the engine and the leaves, and torch only in functions.

    accuracy.py         error figures of an output, tolerances
    implementations.py  eager, compile, native, triton, bound to inputs
    problem.py          what a kernel computes: test cases, reference, cost
    problem_file.py     the Problem of a user's file, checked, on a device
    problem_formats.py  the four forms of public problems, each as a Problem class
    user_file.py        a user's Python file, imported with its neighbours
"""

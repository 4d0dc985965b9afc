"""Problem files as users write them: public challenges', older and newer, ours, and broken ones."""

# As a public repository has them: the base class from `problem`, inputs on CUDA, a generator on CUDA.
CHALLENGE = '''
import torch
import ctypes
from typing import List, Dict, Tuple, Any

from problem import Problem


class leaky_relu(Problem):
    """Leaky ReLU."""

    is_exact = False

    parameters = [
        {"name": "input", "type": "float", "pointer": True, "const": True},
        {"name": "alpha", "type": "float", "pointer": False, "const": False},
        {"name": "output", "type": "float", "pointer": True, "const": False},
        {"name": "n", "type": "size_t", "pointer": False, "const": False},
        {"name": "m", "type": "size_t", "pointer": False, "const": False},
    ]

    def __init__(self):
        super().__init__(name="leaky-relu")

    def reference_solution(self, input_matrix: torch.Tensor, alpha: float) -> torch.Tensor:
        with torch.no_grad():
            return torch.nn.functional.leaky_relu(input_matrix, alpha)

    def _case(self, m, n, alpha):
        seed = Problem.get_seed(f"{self.name}_{m}x{n}")

        def create_inputs():
            g = torch.Generator(device="cuda").manual_seed(seed)
            return torch.rand((m, n), device="cuda", dtype=torch.float32, generator=g) * 10 - 5, alpha

        return {"name": f"{m}x{n}, alpha={alpha}", "dims": (m, n), "alpha": alpha, "create_inputs": create_inputs}

    def generate_test_cases(self) -> List[Dict[str, Any]]:
        return [self._case(m, n, 0.05) for m, n in [(64, 64), (100, 37)]]

    def generate_sample(self) -> Dict[str, Any]:
        return self._case(4, 4, 0.5)

    def verify_result(self, expected: torch.Tensor, actual: torch.Tensor) -> Tuple[bool, Dict[str, Any]]:
        close = torch.allclose(actual, expected, rtol=1e-5, atol=1e-5)
        return close, {} if close else {"max_difference": torch.max(torch.abs(actual - expected)).item()}

    def get_flops(self, test_case: Dict[str, Any]) -> int:
        m, n = test_case["dims"]
        return m * n

    def get_extra_params(self, test_case: Dict[str, Any]) -> List[Any]:
        m, n = test_case["dims"]
        return [n, m]
'''

# The older form: methods that take a dtype, a signature of its own and no `parameters`.
OLDER = """
import ctypes
import torch
from problem import Problem


class vector_addition(Problem):
    def __init__(self):
        super().__init__(name="vector-addition")

    def reference_solution(self, a, b):
        return a + b

    def generate_test_cases(self, dtype):
        return [
            {
                "name": f"n = {n}",
                "dims": (n,),
                "create_inputs": lambda n=n: (
                    torch.arange(n, device="cuda", dtype=dtype),
                    torch.ones(n, dtype=dtype).cuda(),
                ),
            }
            for n in (16, 1000)
        ]

    def generate_sample(self, dtype):
        return self.generate_test_cases(dtype)[0]

    def verify_result(self, expected, actual, dtype):
        assert isinstance(dtype, torch.dtype)
        return bool(torch.allclose(actual, expected)), {}

    def get_function_signature(self):
        pointer = ctypes.POINTER(ctypes.c_float)
        return {"argtypes": [pointer, pointer, pointer, ctypes.c_size_t], "restype": None}
"""

# Two outputs, and ours to import from.
TWO_OUTPUTS = """
import torch
from kernel_velocity.problem.problem import Problem


class MinMax(Problem):
    parameters = [
        {"name": "x", "type": "float", "pointer": True, "const": True},
        {"name": "low", "type": "float", "pointer": True, "const": False},
        {"name": "high", "type": "float", "pointer": True, "const": False},
        {"name": "n", "type": "size_t", "pointer": False, "const": False},
    ]

    def __init__(self):
        super().__init__("min_max")

    def reference_solution(self, x):
        return x.clamp(max=0), x.clamp(min=0)

    def generate_test_cases(self):
        return [{"name": "float32-100", "dims": (100,), "create_inputs": lambda: (torch.linspace(-1, 1, 100),)}]

    def verify_result(self, expected, actual):
        return all(torch.equal(one, other) for one, other in zip(expected, actual, strict=True)), {}
"""

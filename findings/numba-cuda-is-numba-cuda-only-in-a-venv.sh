#!/usr/bin/env bash
# numba-cuda 0.30.4: on PYTHONPATH or by `pip install --target` it is not what `numba.cuda` is
#
# Expected: `from numba import cuda` is numba-cuda's module wherever both packages can be imported, or an error. (Written
#   down after our own tests had compiled by the other one.)
# Observed: numba-cuda takes the place of numba.cuda by a path file (.pth), and Python reads those of site folders alone.
#   Imported by PYTHONPATH, the same two packages give numba's own module, without a word. In a virtual environment it is
#   numba-cuda's. `numba_cuda` can be imported in both.
# Why it matters: numba's own module is the one that is no longer worked on. Tools that lend packages by PYTHONPATH
#   (asv's environments, test runners, zip files, Bazel) measure that one, and compile with other code than users do.
#   Ask `numba.cuda.__file__`, or add the folder by `site.addsitedir`, which reads path files.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
python3 -m venv "$work/other"
"$work/venv/bin/pip" install -q numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 numpy==2.4.6 \
    cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.1

cat > "$work/which.py" <<'PYTHON'
import importlib.metadata
from pathlib import Path

import numba
import numba_cuda
from numba import cuda

versions = (f"{name} {importlib.metadata.version(name)}" for name in ("numba", "numba-cuda"))
print(*versions, "numba.cuda is of", Path(cuda.__file__).relative_to(Path(numba.__file__).parents[1]).parts[0])
PYTHON
packages=$(echo "$work"/venv/lib/python3*/site-packages)
installed=$("$work/venv/bin/python" "$work/which.py")
lent=$(PYTHONPATH=$packages "$work/other/bin/python" "$work/which.py")
echo "virtual environment: $installed"
echo "PYTHONPATH: $lent"
case $installed in *"is of numba_cuda") ;; *) echo "no longer as stated" && exit 1 ;; esac
case $lent in *"is of numba") ;; *) echo "no longer as stated" && exit 1 ;; esac

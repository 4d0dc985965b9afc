#!/usr/bin/env bash
# scipy 1.17.1: `from scipy import special` imports numpy.f2py, numpy.testing and unittest
#
# Expected: the compiled functions of scipy.special and what they need of numpy, some dozens of modules. (Written down
#   after a profile of a start had shown otherwise.)
# Observed: for one quantile of Student's t about 200 modules beside numpy's own, among them a parser of Fortran and
#   unittest: scipy copies every public name of numpy, and so wakes each part of it that is imported when it is asked
#   for. Those five parts and what they import were half of the .2 s that the import takes on two cores of an EPYC.
# Why it matters: a command that starts often pays that each time. numpy imports f2py and testing late to spare it.
#   `importlib.util.LazyLoader` for these parts before the import spares it again.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q scipy==1.17.1 numpy==2.4.6

cat > "$work/modules.py" <<'PYTHON'
import sys

import numpy
import scipy

print("scipy", scipy.__version__, "numpy", numpy.__version__)
LATE = ("numpy.f2py.crackfortran", "numpy.testing", "unittest.case", "numpy.polynomial", "numpy.ma", "numpy.random")
before = {*sys.modules}
assert not before.intersection(LATE), "no longer as stated: numpy alone imports them"

from scipy import special  # noqa: E402

new = {*sys.modules} - before
print(f"t quantile {special.stdtrit(7, 0.975):.3f}: {len(new)} modules more")
print("among them", ", ".join(name for name in LATE if name in new))
assert new.issuperset(LATE) and len(new) > 150, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/modules.py"

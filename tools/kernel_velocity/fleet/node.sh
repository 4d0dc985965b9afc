#!/bin/sh
# [PYTHON=...] [WORK=...] sh run OUT [MINUTES [OPTIONS OF `kv track`]]: measure on a node without a network.
# It sets up an environment from the pack, builds, tests, measures the ceilings and as many of the packed commits as fit
# into MINUTES (default: 60), and writes OUT/kernel-velocity-node.tar.xz for `kv offline unpack`. The same command again
# goes on where it stopped. PYTHON has PyTorch. WORK, on a local disk (default: OUT/work), gets environment and builds.
began=$(date +%s)
fail() { echo "error: $1" >&2; exit 2; }
[ $# -ge 1 ] || fail "name the folder of what is measured: sh run OUT [MINUTES [OPTIONS OF kv track]]"
out=$1 minutes=${2:-60}
shift $(($# > 1 ? 2 : 1))
case $minutes in *[!0-9]* | "") fail "$minutes: whole minutes are wanted, such as 60" ;; esac
mkdir -p "$out/run" "${WORK:-$out/work}" || fail "$out: no folder can be made here"
out=$(cd "$out" && pwd) work=$(cd "${WORK:-$out/work}" && pwd) pack=$(cd "$(dirname "$0")" && pwd)
(cd "$pack" && sha256sum --quiet -c SHA256SUMS) || fail "$pack: the copy of the pack broke off, copy it again"
exec 9> "$work/lock"
flock -n 9 || fail "$work: another run is at work here; wait for it, or name another folder with WORK="

asked=${PYTHON-} python=
for candidate in ${asked:-python3 python /opt/*/bin/python3 /opt/*/.venv/bin/python3 /opt/*/venv/bin/python3 \
    /opt/conda/envs/*/bin/python3 /.venv/bin/python3 /venv/bin/python3 /usr/local/bin/python3 /workspace/*/bin/python3}; do
    for wheels in "$pack"/wheels/requirements-*.txt; do
        version=${wheels##*requirements-} check='import sys, importlib.util as u
sys.exit(u.find_spec("torch") is None or f"{sys.version_info[0]}.{sys.version_info[1]}.txt" != sys.argv[1])'
        [ -n "$python" ] || ! "$candidate" -c "$check" "$version" 2> /dev/null || python=$(command -v "$candidate")
    done
done
[ -n "$python" ] || fail "no Python with PyTorch for which the pack has wheels: name one, PYTHON=/path/to/python3"
echo "PyTorch of $python"

# A bare container has no HOME, and files on a shared disk may belong to another user, whose clone git refuses.
export HOME="${HOME:-$work/home}" USER="${USER:-node}" LANG="${LANG:-C.UTF-8}" PYTHONUNBUFFERED=1
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' PIP_CONFIG_FILE=/dev/null
export PATH="$work/venv/bin:$(dirname "$python"):${PATH:+$PATH:}${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/bin:/usr/bin:/bin"
mkdir -p "$HOME" "$work/repository" && cd "$work/repository" || exit 2
git init -q . && git fetch -q "$pack/repository.bundle" HEAD && git checkout -q --force --detach FETCH_HEAD \
    || fail "git cannot check out the pack's commits"
"$python" -P tools/kernel_velocity/make_venv.py "$work/venv" --torch "" --wheels "$pack/wheels" || exit 2
kv="python -m kernel_velocity"
{ cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release && cmake --build build && cmake --install build --prefix .; } \
    > "$out/run/build.txt" 2>&1 || echo "the kernels do not build here: $(grep -m 1 -i error "$out/run/build.txt")"

# What fails is in its file, and the rest is measured nevertheless.
$kv doctor 2>&1 | tee "$out/run/doctor.txt"
if ! grep -q passed "$out/run/tests.txt" 2> /dev/null; then
    PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q -m cuda -p no:cacheprovider -p pytest_timeout -p xdist.plugin -n 1 \
        $(grep -rlE 'mark\.cuda|on_every_device\(' tests --include='test_*.py' --exclude-dir=fake_cuda) > "$out/run/tests.txt" 2>&1
    tail -n 1 "$out/run/tests.txt"
fi
$kv peaks 2>&1 | tee "$out/run/peaks.txt"
commits=$(python -c 'import json, sys; print(*json.load(open(sys.argv[1]))["commits"])' "$pack/manifest.json")
left=$((minutes - ($(date +%s) - began) / 60)) && [ $left -gt 0 ] || left=1
timeout --signal=INT ${left}m $kv track --machine node --no-site --range "$commits" --minutes $left "$@" 2>&1 \
    | tee "$out/run/track.txt"
python -m kernel_velocity.fleet.archive "$pack/manifest.json" "$out/run" "$out/kernel-velocity-node.tar.xz" --machine node

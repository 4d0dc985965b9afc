#!/bin/sh
# [PYTHON=...] [WORK=...] [SKIP=...] sh run OUT [MINUTES [OPTIONS OF `kv track`]]: measure on a node without a network.
# It sets up an environment from the pack, builds, takes the steps at the end, in order of worth, while they fit into
# MINUTES (default: 60), and after each writes OUT/kernel-velocity-node.tar.xz for `kv offline unpack`. The same command
# again goes on where it stopped, also on another machine whose OUT has that tar alone. PYTHON has PyTorch. WORK, on a
# local disk (default: OUT/work), gets environment and builds. SKIP names steps (default: clocks, which sets the GPU's).
# KV_ROUNDS is the rounds of every step that measures (default: 4, and of `track` that of `kv track`).
began=$(date +%s)
fail() { echo "error: $1" >&2; exit 2; }
[ $# -ge 1 ] || fail "name the folder of what is measured: sh run OUT [MINUTES [OPTIONS OF kv track]]"
out=$1 minutes=${2:-60} skipped=${SKIP-clocks} rounds=${KV_ROUNDS:-4}
# A step's seconds on an H200 by what one recorded (docs/how-to/cluster.md has the sums), with 3 for the tar.
plan=" doctor:5 tests:120 peaks:30 core:300 sharing:70 clocks:35 float8:45 triton:130 timers:20 track:60 "
shift $(($# > 1 ? 2 : 1))
case $minutes in *[!0-9]* | "") fail "$minutes: whole minutes are wanted, such as 60" ;; esac
for name in $skipped; do
    case $plan in *" $name:"*) ;; *) fail "SKIP=$name: the steps are $(echo $plan | sed 's/:[0-9]*//g')" ;; esac
done
mkdir -p "$out/run" "${WORK:-$out/work}" || fail "$out: no folder can be made here"
out=$(cd "$out" && pwd) work=$(cd "${WORK:-$out/work}" && pwd) pack=$(cd "$(dirname "$0")" && pwd)
tar=$out/kernel-velocity-node.tar.xz
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
rm -f "$work/pytorch.json" # another node may have used the folder
mkdir -p "$HOME" "$work/repository" && cd "$work/repository" || exit 2
git init -q . && git fetch -q "$pack/repository.bundle" HEAD && git checkout -q --force --detach FETCH_HEAD \
    || fail "git cannot check out the pack's commits"
"$python" -P tools/kernel_velocity/make_venv.py "$work/venv" --torch "" --wheels "$pack/wheels" || exit 2
kv="python -m kernel_velocity"
{ cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release && cmake --build build && cmake --install build --prefix .; } \
    > "$out/run/build.txt" 2>&1 || echo "the kernels do not build here: $(grep -m 1 -i error "$out/run/build.txt")"
echo "set up and built in $(($(date +%s) - began)) s"
if [ -f "$tar" ] && [ ! -d results/node ]; then # of a call whose WORK is gone
    python -m tarfile -e "$tar" "$work/before" && cp -R "$work/before/run" "$out" || exit 2
    [ ! -d "$work/before/results" ] || cp -R "$work/before/results" .
fi

write_tar() {
    python -m kernel_velocity.fleet.archive "$pack/manifest.json" "$out/run" "$tar" --machine node \
        --pytorch "$work/pytorch.json"
}
# step NAME COMMAND...: take a step. Once it ends by itself its output is OUT/run/NAME.txt, and it is not taken again.
# `track` is, as it goes on with older commits.
step() {
    name=$1 log=$out/run/$1.txt planned=${plan##*" $1:"} since=$(date +%s)
    planned=${planned%% *} left=$((began + 60 * minutes - 10 - since)) # the last tar takes some
    most=$((60 + 3 * planned)) && shift # one that hangs leaves time for the others
    [ "$name" != track ] && [ $most -lt $left ] || most=$left
    case " $skipped " in *" $name "*) echo "== $name: skipped" && return ;; esac
    [ ! -e "$log" ] || [ "$name" = track ] || { echo "== $name: done before" && return; }
    [ $left -ge "$planned" ] || { echo "== $name: not begun, it takes $planned s and $left are left" && return; }
    echo "== $name: $planned s planned, $left left"
    { timeout --signal=INT --kill-after=9 $most "$@" 2>&1; echo $? > "$work/status"; } | tee "$log.part"
    status=$(cat "$work/status")
    [ "$status" -gt 1 ] || mv "$log.part" "$log"
    echo "$name: $planned s planned, $(($(date +%s) - since)) taken, status $status" | tee -a "$out/run/steps.txt"
    write_tar > "$work/tar.txt" 2>&1 # fails where nothing is measured yet, with what the steps printed in it
}
measure() {
    name=$1 && shift
    step "$name" $kv track --machine node --no-site "$@"
}

commits=$(python -c 'import json, sys; print(*json.load(open(sys.argv[1]))["commits"])' "$pack/manifest.json")
six=$(echo "$commits" | cut -d " " -f 1-6) newest=${commits%% *}
tests="python -m pytest -q -m cuda -p no:cacheprovider -p pytest_timeout -p xdist.plugin -n 1"
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
step doctor $kv doctor
step tests $tests -k "not timers_agree" \
    $(grep -rlE 'mark\.cuda|on_every_device\(' tests --include='test_*.py' --exclude-dir=fake_cuda)
step peaks $kv peaks
measure core --range "$six" --rounds "$rounds" --bench "Cuda.time_hot.*'(native|eager)'"
step sharing $tests -rP -k share tests/engine/test_timers_agree.py
# At other clocks a series is another one, which this history does not take. Its rounds have the energy, too.
step clocks sh -c '"$@" && tail -n +1 results/node-locked/telemetry/*[!s].jsonl' - $kv track --machine node-locked \
    --no-site --no-ceilings --lock-clocks --range "$newest" --rounds "$rounds" --bench "Cuda.time_hot.*'native'"
measure float8 --range "$newest ${six##* }" --rounds "$rounds" --no-ceilings --tier full \
    --bench "matmul.Cuda.time_hot.*'native', '(b?float16|int8|float8)"
measure triton --range "$newest" --rounds "$rounds" --no-ceilings --tier full --bench "Cuda.time_hot.*'(native|triton)'"
step timers $tests -k "not share" tests/engine/test_timers_agree.py
left=$(((began + 60 * minutes - $(date +%s)) / 60))
measure track --range "$commits" --minutes $((left > 0 ? left : 1)) "$@"
write_tar

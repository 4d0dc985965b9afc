#!/usr/bin/env bash
# nvcc 13.0.88: the name of a kernel in an anonymous namespace has a hash of the source's folder.
# Expected: one file, one name, as g++ gives (_ZN12_GLOBAL__N_1...). Seen: another folder is another name, and so is
# another name of a function that only calls the kernel. A comment changes nothing. So a profiler's filter by the full
# name, or a comparison of two builds by it, fails after a checkout elsewhere.
# Needs python3 with pip, and g++. Installs NVIDIA's packages in a temporary folder.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install -q --no-deps --target "$work/packages" nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 \
    nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.88
nvcc=$(echo "$work"/packages/nvidia/cu*/bin/nvcc)
chmod +x "$nvcc" "$(dirname "$nvcc")"/* "$(dirname "$nvcc")"/../nvvm/bin/*
"$nvcc" --version | tail -n 2

name() { # FOLDER: the name of the kernel of s.cu there
    (cd "$1" && "$nvcc" -cubin -arch=sm_90 s.cu -o s.cubin && grep -ao '_ZN[0-9]*_GLOBAL__N_[A-Za-z0-9_]*kEPf' s.cubin | head -n 1)
}
mkdir "$work/a" "$work/b"
cat >"$work/a/s.cu" <<'C'
namespace { __global__ void k(float* x) { x[0] = 1; } }
void later(float* x) { k<<<1, 1>>>(x); }
C
cp "$work/a/s.cu" "$work/b/s.cu"
first=$(name "$work/a")
other=$(name "$work/b")
sed -i '1i // a comment' "$work/a/s.cu"
comment=$(name "$work/a")
sed -i 's/later/calls_it/' "$work/a/s.cu"
caller=$(name "$work/a")
printf 'folder a: %s\nfolder b: %s\na comment: %s\nanother caller: %s\n' "$first" "$other" "$comment" "$caller"
test "$first" != "$other"
test "$first" = "$comment"
test "$first" != "$caller"

#!/bin/bash
# The vector kernels of the optimized build against the definition (1e6 values; by hand:
# build/tests/kernels 1e8); the integer kernels once more as on processors without VNNI.
set -e
"$QG_BUILD/tests/kernels" 1e6
for isa in AVX2 AVX512_CORE; do
    echo "oneDNN limited to $isa"
    ONEDNN_MAX_CPU_ISA=$isa "$QG_BUILD/tests/test_integer_kernels"
done

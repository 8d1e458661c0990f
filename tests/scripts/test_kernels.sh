#!/bin/bash
# The vector kernels of the optimized build against the definition (1e6 values; by hand:
# build/tests/kernels 1e8).
set -e
exec "$QG_BUILD/tests/kernels" 1e6

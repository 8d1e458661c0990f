#!/usr/bin/env bash
# The library allocates through the context's allocator: object files refer to libc's
# functions only for memory owned by another library or by libc.
set -u
build=${QG_BUILD:-build}
allowed='engine/core/arena.c     the allocator of hosts that bring none
engine/core/file.c      frees what open_memstream makes
engine/data/image.c     stb, compiled here, has no allocator of its own'
names='malloc|calloc|realloc|reallocarray|free|posix_memalign|aligned_alloc|memalign|valloc'
names+='|_*strn?dup|getline|getdelim|open_memstream|v?asprintf|realpath_chk'
failures=0
mapfile -t objects < <(find "$build/CMakeFiles" -name '*.c.o' -path '*/qg_*.dir/*' \
    ! -path '*_san.dir/*' ! -name 'onnx.pb-c.c.o')
# SOURCE FUNCTION, one line each
used=$(nm -uA "${objects[@]}" | sed -nE "s,.*/CMakeFiles/qg_[a-z]+\.dir/(.*)\.o: +U ($names)\$,\1 \2,p")
while read -r source function; do
    [ -z "$source" ] || grep -q "^$source " <<<"$allowed" && continue
    echo "FAILED: $source: $function, expected the allocator of the context"
    failures=$((failures + 1))
done <<<"$used"
while read -r source _; do
    grep -q "^$source " <<<"$used" && continue
    echo "FAILED: $source is listed here, but uses none of these functions"
    failures=$((failures + 1))
done <<<"$allowed"
[ ${#objects[@]} -ge 200 ] || { echo "FAILED: ${#objects[@]} object files"; failures=1; }
echo "${#objects[@]} object files, $failures failures"
[ $failures -eq 0 ]

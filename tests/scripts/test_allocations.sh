#!/usr/bin/env bash
# Memory of our own comes from the allocator of the context: object files refer to libc's
# functions only where another library's or libc's own memory is meant.
set -u
build=${QG_BUILD:-build}
allowed='engine/core/arena.c     the allocator of hosts that bring none
engine/core/file.c      frees what open_memstream makes
engine/data/image.c     stb, compiled here, has no allocator of its own'
names='malloc|calloc|realloc|reallocarray|free|posix_memalign|aligned_alloc|memalign|valloc'
names+='|_*strn?dup|getline|getdelim|open_memstream|v?asprintf|realpath_chk'
failures=0 objects=0
while read -r object; do
    objects=$((objects + 1))
    source=$(sed -E 's,.*/CMakeFiles/qg_[a-z]+\.dir/,,; s,\.o$,,' <<<"$object")
    used=$(nm -u "$object" | grep -oE " ($names)\$" | tr -d '\n')
    [ -z "$used" ] || grep -q "^$source " <<<"$allowed" && continue
    echo "FAILED: $source:$used, expected the allocator of the context"
    failures=$((failures + 1))
done < <(find "$build/CMakeFiles" -name '*.c.o' -path '*/qg_*.dir/*' \
    ! -path '*_san.dir/*' ! -path '*/qg.dir/*' ! -name 'onnx.pb-c.c.o')
while read -r source _; do
    nm -u "$build"/CMakeFiles/qg_*.dir/"$source.o" | grep -qE " ($names)\$" && continue
    echo "FAILED: $source is listed here, but uses none of these functions"
    failures=$((failures + 1))
done <<<"$allowed"
[ $objects -ge 200 ] || { echo "FAILED: only $objects object files found"; failures=1; }
echo "$objects object files, $failures failures"
[ $failures -eq 0 ]

# tsan.sh -- for scripts that run under ThreadSanitizer, which source it after setting work
# and complain: builds TARGET... in $tsan, a build without oneDNN and OpenMP, which are not
# instrumented, that is kept in the build folder.  CC is the compiler: clang where there is
# one, which needs half the time.  Ends the script with 77 where it has no ThreadSanitizer.
tsan=${QG_BUILD:-build}/tsan
command -v clang >/dev/null && : "${CC:=clang}"

build_tsan() {
    echo 'int main(void) { return 0; }' >"$work/try.c"
    if ! ${CC:-cc} -fsanitize=thread "$work/try.c" -o "$work/try" 2>/dev/null ||
        ! "$work/try"; then
        echo "skipped: no ThreadSanitizer here"
        exit 77
    fi
    cmake -S . -B "$tsan" -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_BUILD_TYPE=None \
        -DQG_TSAN=ON -DQG_DNNL=OFF -DQG_MPI=OFF -DQG_TESTS=OFF >"$work/log" 2>&1 ||
        complain "cmake"
    cmake --build "$tsan" -j "$(nproc)" --target "$@" >"$work/log" 2>&1 || complain "build"
}

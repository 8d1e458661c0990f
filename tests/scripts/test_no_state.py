#!/usr/bin/env python3
"""The library keeps nothing per process: libqg.a has no writable data but what is listed
here with its reason.  Constants with addresses in them (.data.rel.ro) are read-only once
the program runs."""
import os
import pathlib
import re
import subprocess
import sys

ARCHIVE = pathlib.Path(os.environ.get("QG_BUILD", "build"), "libqg.a")
LISTED = {  # symbol: reason why it is writable
    "current": "thread-local, for the length of one call: uthash's macros pass no "
               "allocator along",
    "program_lock": "around the making of programs by oneDNN 2.6.3, which goes wrong when "
                    "two threads begin at once",
    "stbi__g_failure_reason": "thread-local in stb_image, read where it was set",
}
ROW = re.compile(r"^[0-9a-f]+ .{7} (\S+)\s+[0-9a-f]+ (?:\.hidden )?(\S+)$")


def writable(archive):
    """(object file, symbol) of each that lies in a section which stays writable."""
    out = subprocess.run(["objdump", "-t", str(archive)], text=True, capture_output=True,
                         check=True).stdout
    file = ""
    for line in out.splitlines():
        if (m := re.match(r"(\S+\.o):", line)):
            file = m[1]
        elif (m := ROW.match(line)) and re.match(r"\.t?(data|bss)|\*COM\*", m[1]) and \
                not m[1].startswith(".data.rel.ro") and m[1] != m[2] and \
                not m[2].startswith("DW.ref."):  # an address that the linker writes
            yield file, m[2]


def main():
    text = ARCHIVE.read_bytes()
    if b"__asan_init" in text or b"__tsan_init" in text or b"__gcov_" in text:
        print("instrumented: the compiler adds data of its own")
        return 77
    found = list(writable(ARCHIVE))
    complaints = [f"{file}: {name} is writable data of the process"
                  for file, name in found if name not in LISTED]
    complaints += [f"{name}: listed, but not there"
                   for name in LISTED.keys() - {name for _, name in found}]
    print(f"{len(found)} writable symbols", *complaints, sep="\n")
    return bool(complaints)


sys.exit(main())

/* zip_sums.h -- the checksums of an archive after a fuzzer has changed it: with the old
 * ones every changed member would be refused before it is read. */
#ifndef QG_TESTS_FUZZ_ZIP_SUMS_H
#define QG_TESTS_FUZZ_ZIP_SUMS_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "engine/data/zip.h"

static inline uint64_t zip_number(const uint8_t *at, int size)
{
    uint64_t x = 0;
    for (int i = size; i-- > 0;)
        x = x << 8 | at[i];
    return x;
}

/* Where the packed bytes of an entry are said to lie, of 32 bits or of 64 bits behind
 * its name; size, packed and offset are there in this order. */
static inline void zip_extent(const uint8_t *entry, size_t left, uint64_t *n,
                              uint64_t *at)
{
    const uint64_t name = zip_number(entry + 28, 2), most = UINT32_MAX;
    const bool wide = name + 46 + 4 + 24 <= left &&
                      zip_number(entry + 46 + name, 2) == 1 &&
                      zip_number(entry + 46 + name + 2, 2) >= 24;
    *n = zip_number(entry + 20, 4);
    *at = zip_number(entry + 42, 4);
    if (wide && *n == most)
        *n = zip_number(entry + 46 + name + 4 + 8, 8);
    if (wide && *at == most)
        *at = zip_number(entry + 46 + name + 4 + 16, 8);
}

/* Writes to the file fd, which has these bytes, the checksum of each stored member into
 * its entry of the directory. */
static inline void mend_sums(const uint8_t *bytes, size_t size, int fd)
{
    enum { ENTRY = 46, LOCAL = 30 };
    for (size_t i = 0; i + ENTRY <= size; i++) {
        uint64_t n, at;
        if (zip_number(bytes + i, 4) != 0x02014b50 ||
            zip_number(bytes + i + 10, 2) != 0)
            continue;
        zip_extent(bytes + i, size - i, &n, &at);
        if (at > size || size - at < LOCAL)
            continue;
        at += LOCAL + zip_number(bytes + at + 26, 2) + zip_number(bytes + at + 28, 2);
        if (at > size || n > size - at)
            continue;
        const uint32_t sum = qg_zip_crc(0, bytes + at, (size_t)n);
        const uint8_t own[4] = { (uint8_t)sum, (uint8_t)(sum >> 8),
                                 (uint8_t)(sum >> 16), (uint8_t)(sum >> 24) };
        if (pwrite(fd, own, sizeof own, (off_t)i + 16) != sizeof own)
            return;
    }
}

#endif

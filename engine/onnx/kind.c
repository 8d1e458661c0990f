#include "engine/onnx/kind.h"

#include <stdbool.h>
#include <string.h>

/* Signatures of the formats' own documentation.  No entry begins with another one, so
 * their order does not matter.  A pickle begins with opcode PROTO (0x80) and its
 * protocol, 2 to 5; PyTorch wrote such checkpoints before it used zip archives.  gzip:
 * RFC 1952. */
static const struct {
    const char *bytes, *kind;
} signature[] = {
    {"\x93NUMPY",         "a NumPy array (.npy)"                             },
    { "\x89HDF\r\n",      "an HDF5 file, perhaps a checkpoint (.h5)"         },
    { "\x80\x02",         "a Python pickle, perhaps a checkpoint (.pt, .pth)"},
    { "\x80\x03",         "a Python pickle, perhaps a checkpoint (.pt, .pth)"},
    { "\x80\x04",         "a Python pickle, perhaps a checkpoint (.pt, .pth)"},
    { "\x80\x05",         "a Python pickle, perhaps a checkpoint (.pt, .pth)"},
    { "\x1f\x8b",         "a gzip archive"                                   },
    { "version https://", "a Git LFS pointer; `git lfs pull` gets the file"  },
    { "<",                "an XML or HTML page"                              },
    { "{",                "JSON"                                             },
    { "\x7f"
      "ELF",         "a program"                                        },
};

/* The first bytes, if there are many, are printable.  ASCII only.  Fewer than 8 bytes
 * could be anything. */
static bool is_text(const unsigned char *b, size_t size)
{
    size_t n = size < 64 ? size : 64;
    for (size_t i = 0; i < n; i++)
        if (!(b[i] >= 32 && b[i] < 127) && b[i] != '\n' && b[i] != '\r' && b[i] != '\t')
            return false;
    return n >= 8;
}

/* Results are literals; `bytes` need not end in 0. */
const char *qg_onnx_other_kind(const void *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof signature / sizeof signature[0]; i++) {
        size_t n = strlen(signature[i].bytes);
        if (size >= n && memcmp(bytes, signature[i].bytes, n) == 0)
            return signature[i].kind;
    }
    return is_text(bytes, size) ? "text" : NULL;
}

// dnnl_guard.cpp -- in C++, since only C++ can catch; it needs the C++ library that
// oneDNN has brought along already.
#include "engine/accel/dnnl_guard.h"

#include <cstdlib>
#include <sys/mman.h>

// What calls take, generously: objects and generated code of a primitive, and the table
// of arguments of an execution.  The latter lies in the heap and costs no system call.
enum { FOR_OBJECTS = 32 << 20, FOR_EXECUTION = 32 << 10 };

// Whether so much memory can be had now; nobody else takes it before oneDNN does, other
// threads excepted.  Much of it is asked of the system, which is quicker under tools that
// watch the heap.
static bool can_have(size_t size)
{
    if (size >= FOR_OBJECTS) {
        void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p != MAP_FAILED && munmap(p, size) == 0;
    }
    void *volatile p = std::malloc(size); // volatile: or the compiler removes the pair
    std::free(p);
    return p != nullptr;
}

#define X(name, room, parameters, arguments)                                           \
    dnnl_status_t qg_dnnl_##name parameters                                            \
    {                                                                                  \
        if (!can_have(room))                                                           \
            return dnnl_out_of_memory;                                                 \
        try {                                                                          \
            return dnnl_##name arguments;                                              \
        } catch (...) {                                                                \
            return dnnl_out_of_memory;                                                 \
        }                                                                              \
    }
QG_DNNL_GUARDED(X)
#undef X

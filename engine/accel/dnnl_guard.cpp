// dnnl_guard.cpp -- in C++, since only C++ can catch; it needs the C++ library that
// oneDNN has brought along already.
#include "engine/accel/dnnl_guard.h"

#include <cstdlib>

// What calls take, generously: objects and generated code of a primitive, and the table
// of arguments of an execution.  The latter lies in the heap and costs no system call.
enum { FOR_OBJECTS = 32 << 20, FOR_EXECUTION = 32 << 10 };

// Whether so much memory can be had now; nobody else takes it before oneDNN does, other
// threads excepted.
static bool can_have(size_t size)
{
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

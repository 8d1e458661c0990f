// dnnl_guard.cpp -- in C++, since only C++ can catch; it needs the C++ library that
// oneDNN has brought along already.
#include "engine/accel/dnnl_guard.h"

#define X(name, parameters, arguments)                                                 \
    dnnl_status_t qg_dnnl_##name parameters                                            \
    {                                                                                  \
        try {                                                                          \
            return dnnl_##name arguments;                                              \
        } catch (...) {                                                                \
            return dnnl_out_of_memory;                                                 \
        }                                                                              \
    }
QG_DNNL_GUARDED(X)
#undef X

/* qg_arrays.h -- the arithmetic on plain arrays: a separate component, in the library
 * libqg_arrays, which depends only on libm.
 *
 * libqg contains and exports the same functions: a program that uses qg.h as well links
 * -lqg alone.
 * Each header documents shapes, units, errors and sources of its functions;
 * docs/arrays.md has a program for each, and tests/scripts/test_docs.py runs them.  To
 * add a header, list it here and in tools/headers.cmake, with the headers it includes
 * itself, and write a section of that page.  test_docs.py and test_symbols.py fail when
 * one is missing. */
#ifndef QG_ENGINE_API_QG_ARRAYS_H
#define QG_ENGINE_API_QG_ARRAYS_H

/* contexts and arrays */
#include "engine/core/alloc.h"
#include "engine/core/status.h"
#include "engine/ir/tensor.h"
#include "engine/number/dtype.h"

/* rounding, formats, ONNX's operators */
#include "engine/number/format.h"
#include "engine/number/qdq.h"
#include "engine/number/round.h"

/* integers as runtimes compute them */
#include "engine/number/fixed.h"
#include "engine/number/integer_array.h"
#include "engine/number/integer_binary.h"
#include "engine/number/integer_exp.h"
#include "engine/number/integer_pool.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/integer_sum.h"
#include "engine/number/integer_unary.h"
#include "engine/number/profile.h"
#include "engine/number/requant.h"

/* schemes, fake quantization, its error */
#include "engine/quant/apply.h"
#include "engine/quant/fake.h"
#include "engine/quant/metric.h"
#include "engine/quant/policy.h"

/* other tools' parametrisations, and gradients */
#include "engine/quant/aimet.h"
#include "engine/quant/gradient.h"
#include "engine/quant/nncf.h"
#include "engine/number/openvino_fq.h"

#endif

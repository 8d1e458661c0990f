/* qg_arrays.h -- the arithmetic on plain arrays, as part of the public interface:
 * exactly the engine headers whose functions other programs may call.
 *
 * qg.h includes this at its end, so one include gives everything: these functions
 * report through the same qg_status and qg_ctx, and whoever quantizes a model soon
 * wants to round an array as it does.
 * Each header says shapes, units, errors and sources of its functions; docs/arrays.md
 * has a program for each, and tests/scripts/test_docs.py runs them.
 * To add one: here; in QG_PUBLIC_HEADERS of CMakeLists.txt, with what it includes
 * itself; and as a section of that page.  test_docs.py and tools/check_install.sh fail
 * when one is missing. */
#ifndef QG_ENGINE_API_QG_ARRAYS_H
#define QG_ENGINE_API_QG_ARRAYS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h> /* before extern "C", as the headers below include them */

#ifdef __cplusplus
extern "C" {
#endif

/* contexts and arrays */
#include "engine/core/ctx.h"
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

#ifdef __cplusplus
}
#endif

#endif

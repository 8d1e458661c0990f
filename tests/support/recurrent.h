/* recurrent.h -- RNN, GRU and LSTM of ONNX in double, written from its equations: an
 * element at a time, without regard to cost.  For differences of a loss; the operators
 * themselves compute float32.
 *
 *     RNN   h' = f(x W' + h R' + Wb + Rb)
 *     GRU   z, r = f(...)   h" = g(...)   h' = (1 - z) h" + z h
 *     LSTM  i, f = f(... + P c)   c' = f c + i g   o = f(... + P c')   h' = o h(c')
 *
 * Source   ONNX operators RNN-14, GRU-14, LSTM-14 */
#ifndef QG_TESTS_SUPPORT_RECURRENT_H
#define QG_TESTS_SUPPORT_RECURRENT_H

#include "tests/support/case_runner.h"

bool is_recurrent(const char *name);

/* sum of g y over Y, Y_h and Y_c (NULL: 0); inputs are float32 or float64. */
double recurrent_loss(const op_case *c, const qg_tensor *const *g);

#endif

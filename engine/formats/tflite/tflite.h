/* tflite.h -- TensorFlow Lite files.  Reading gives a float graph with the grids of the
 * file as records; writing is in writer.h.
 *
 * The interface of the graph is that of the file: names, types and N,H,W,C dims of
 * inputs and outputs.  Inside it has operators of ai.onnx on float32 (operators.h,
 * builder.h).  Extents that the file leaves open have the value of its `shape`.
 *
 * Records   a computed tensor      its lead ACTIVATED; every reader, other form and
 *                                  value inside a fused operator OVERLAPPED under it
 *           a constant             each reading slot BAKED, per channel where the file
 *                                  has it; int32 biases have 32 bits
 *           interface              an input of codes is read by DequantizeLinear, whose
 *                                  output is the lead; an output of codes is written by
 *                                  QuantizeLinear, whose input is OVERLAPPED
 * Refused   hybrid operators (float data, integer weights), custom operators, several
 *           subgraphs, variables, sparse tensors, beta other than 1, types below 8
 *           bits: QG_EUNSUPPORTED names operator or tensor */
#ifndef QG_ENGINE_FORMATS_TFLITE_TFLITE_H
#define QG_ENGINE_FORMATS_TFLITE_TFLITE_H

#include "engine/formats/format.h"

/* A graph, inferred and verified, and its records.  The bytes (16-byte aligned) may go
 * away afterwards.  Hostile bytes give a status. */
QG_NODISCARD qg_status qg_tflite_read(qg_ctx *ctx, const unsigned char *bytes,
                                      size_t size, qg_graph **graph, qg_quant **quant);

/* The export (write.c): build and write of the format. */
QG_NODISCARD qg_status qg_tflite_build_file(qg_export *e);
QG_NODISCARD qg_status qg_tflite_write_file(qg_export *e);

#endif

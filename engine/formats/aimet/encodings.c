/* encodings.c -- encodings of tensors, as AIMET writes them and Qualcomm's converters
 * read them.
 *
 *     0.4.0, 0.6.1   {"version", "activation_encodings": {name: [{"bitwidth", "dtype",
 *                    "is_symmetric", "max", "min", "offset", "scale"}, ...]},
 *                    "param_encodings": {...}}; one entry per channel; 0.4.0 without
 *                    dtype
 *     1.0.0          lists of {"name", "enc_type", "dtype", "bw", "is_sym", "scale",
 *                    "offset"}
 *     2.0.0          {"version", "encodings": [{"name", "output_dtype", "y_scale",
 *                    "y_zero_point", "axis", "block_size"}]}, as ONNX QuantizeLinear
 *
 * Grid     up to 1.0.0: all codes of the bits; symmetric ones are signed and their zero
 *          point is 0, others are unsigned.  offset = -zero point on the unsigned grid,
 *          so that signed ones have -2^(bits - 1).  The axis of channels is guessed.
 *          2.0.0: output_dtype "int8", "uint4", "float8e4m3fn", ...
 * Rounding AIMET rounds levels, which are not negative, half away from zero: ties of
 *          x / scale go up (docs/evidence/grids.md#aimet-encodings)
 * Float    up to 1.0.0: dtype "float" of 16 (or 32) bits, without a scale, in files of
 *          mixed precision; the tensor stays in float here
 * min, max are those of the grid, in the tensor's unit
 * QNN      --quantization_overrides takes the dictionaries without a version
 * Sources  quic/aimet, aimet_onnx 2.42.0: _encoding.py, quantsim.py
 *          _validate_encoding_entry; Qualcomm AI Engine Direct SDK, "Quantization
 *          overrides"; OpenPPL/ppq@e39eecb ppq/parser/qnn_exporter.py,
 *          ppq/parser/caffe_exporter.py SNPECaffeExporter */
#include "engine/formats/aimet/encodings.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"

/* --- grids --- */

static int64_t half_of(unsigned bits) { return INT64_C(1) << (bits - 1); }

/* All codes of the bits, signed or not. */
static void set_codes(qg_scheme *s, bool is_signed)
{
    s->qmin = is_signed ? -half_of(s->bits) : 0;
    s->qmax = s->qmin + 2 * half_of(s->bits) - 1;
}

static bool has_offset(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    for (size_t c = 0; p.offset && c < p.n; c++)
        if (p.offset[c])
            return true;
    return false;
}

bool qg_encoding_grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    qg_scheme *s = &g->scheme;
    (void)e;
    if (s->policy & (QG_BLOCK | QG_DYNAMIC | QG_FLOATING))
        return false;
    bool is_signed = s->qmin < 0 && !has_offset(t);
    g->shift = s->qmin < 0 && !is_signed ? half_of(s->bits) : 0;
    s->policy &= (uint16_t) ~(QG_SYMMETRIC | QG_ASYMMETRIC);
    s->policy |= is_signed ? QG_SYMMETRIC : QG_ASYMMETRIC;
    set_codes(s, is_signed);
    if (s->policy & QG_PER_CHANNEL)
        s->axis = qg_guess_axis(qg_tqc_endpoint(t), qg_tqc_param(t).n);
    return true;
}

/* float8 types of ONNX that a scheme can be. */
static const struct {
    const char *name;
    int64_t largest;
    uint8_t exponent_bits;
} floats[] = {
    {"float8e4m3fn", 448,   4},
    { "float8e5m2",  57344, 5},
};
enum { N_FLOAT = sizeof floats / sizeof floats[0] };

/* Index into floats; N_FLOAT: none. */
static size_t float_of(const qg_scheme *s)
{
    size_t i = 0;
    while (i < N_FLOAT &&
           !(s->bits == 8 && s->exponent_bits == floats[i].exponent_bits &&
             s->qmax == floats[i].largest && !s->variant))
        i++;
    return i;
}

static bool grid_2(const qg_tqc *t, qg_table_grid *g)
{
    qg_scheme *s = &g->scheme;
    if (s->policy & QG_DYNAMIC)
        return false;
    if (s->policy & QG_FLOATING)
        return float_of(s) < N_FLOAT;
    if (has_offset(t)) {
        s->policy &= (uint16_t)~QG_SYMMETRIC;
        s->policy |= QG_ASYMMETRIC;
    }
    set_codes(s, s->qmin < 0);
    return true;
}

static bool is_version(const qg_export *e, const char *version)
{
    return strcmp(e->option[QG_FORMAT_VERSION], version) == 0;
}

static bool grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    return is_version(e, "2.0.0") ? grid_2(t, g) : qg_encoding_grid(e, t, g);
}

/* --- writing --- */

static void put_dictionary(qg_json_writer *w, const qg_export *e, const qg_tqc *t,
                           enum qg_encoding_fields fields)
{
    qg_table_grid g = qg_table_grid_of(e, t);
    bool is_signed = g.scheme.qmin < 0;
    qg_json_put_array(w, qg_tqc_value(t)->name);
    for (size_t c = 0; c < qg_tqc_param(t).n; c++) {
        qg_json_put_object(w, NULL);
        qg_json_put_int(w, "bitwidth", g.scheme.bits);
        if (fields & QG_ENCODING_DTYPE)
            qg_json_put_text(w, "dtype", "int");
        if (fields & QG_ENCODING_GRID)
            qg_json_put_text(w, "is_symmetric", is_signed ? "True" : "False");
        qg_json_put_f64(w, "max", qg_table_high(e, t, c));
        qg_json_put_f64(w, "min", qg_table_low(e, t, c));
        if (fields & QG_ENCODING_GRID) {
            qg_json_put_int(w, "offset", g.scheme.qmin - qg_table_zero(e, t, c));
            qg_json_put_f64(w, "scale", (double)qg_tqc_param(t).scale[c]);
        }
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

/* Numbers, one per parameter. */
static void put_scales(qg_json_writer *w, const char *key, const qg_tqc *t, bool list)
{
    qg_qparam p = qg_tqc_param(t);
    if (list)
        qg_json_put_array(w, key);
    for (size_t c = 0; c < p.n; c++)
        qg_json_put_f64(w, list ? NULL : key, (double)p.scale[c]);
    if (list)
        qg_json_put_end(w);
}

static void put_entry_1(qg_json_writer *w, const qg_export *e, const qg_tqc *t)
{
    qg_table_grid g = qg_table_grid_of(e, t);
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "name", qg_tqc_value(t)->name);
    qg_json_put_text(w, "enc_type",
                     g.scheme.policy & QG_PER_CHANNEL ? "PER_CHANNEL" : "PER_TENSOR");
    qg_json_put_text(w, "dtype", "INT");
    qg_json_put_int(w, "bw", g.scheme.bits);
    qg_json_put_bool(w, "is_sym", g.scheme.qmin < 0);
    put_scales(w, "scale", t, true);
    qg_json_put_array(w, "offset");
    for (size_t c = 0; c < qg_tqc_param(t).n; c++)
        qg_json_put_int(w, NULL, g.scheme.qmin - qg_table_zero(e, t, c));
    qg_json_put_end(w);
    qg_json_put_end(w);
}

/* Parameters of blocks as nested lists: like the tensor, its extent along the axis
 * divided. */
static void put_nested(qg_json_writer *w, const char *key, const qg_tqc *t, bool zeros)
{
    const qg_tensor *type = &qg_tqc_value(t)->type;
    qg_qparam p = qg_tqc_param(t);
    const qg_scheme *s = &t->scheme;
    int64_t extent[QG_MAX_RANK], inner = 1;
    for (int d = type->rank - 1; d >= 0; d--) {
        int64_t dim = type->dim[d];
        inner *= d == s->axis ? (dim + s->block - 1) / s->block : dim;
        extent[d] = inner; /* parameters below one index of axis d - 1 */
    }
    for (int64_t i = 0; i < (int64_t)p.n; i++) {
        for (int d = 0; d < type->rank; d++)
            if (i % extent[d] == 0)
                qg_json_put_array(w, i == 0 && d == 0 ? key : NULL);
        if (zeros)
            qg_json_put_int(w, NULL, p.offset ? p.offset[i] : 0);
        else
            qg_json_put_f64(w, NULL, (double)p.scale[i]);
        for (int d = 0; d < type->rank; d++)
            if ((i + 1) % extent[d] == 0)
                qg_json_put_end(w);
    }
}

static void put_zeros(qg_json_writer *w, const qg_export *e, const qg_tqc *t)
{
    bool list = t->scheme.policy & QG_PER_CHANNEL;
    if (list)
        qg_json_put_array(w, "y_zero_point");
    for (size_t c = 0; c < qg_tqc_param(t).n; c++)
        qg_json_put_int(w, list ? NULL : "y_zero_point", qg_table_zero(e, t, c));
    if (list)
        qg_json_put_end(w);
}

static void put_entry_2(qg_json_writer *w, const qg_export *e, const qg_tqc *t)
{
    const qg_scheme *s = &t->scheme;
    char type[24];
    (void)snprintf(type, sizeof type, "%sint%u", s->qmin < 0 ? "" : "u", s->bits);
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "name", qg_tqc_value(t)->name);
    qg_json_put_text(w, "output_dtype",
                     s->policy & QG_FLOATING ? floats[float_of(s)].name : type);
    if (s->policy & QG_BLOCK) {
        put_nested(w, "y_scale", t, false);
        if (has_offset(t))
            put_nested(w, "y_zero_point", t, true);
    } else {
        put_scales(w, "y_scale", t, s->policy & QG_PER_CHANNEL);
        if (has_offset(t))
            put_zeros(w, e, t);
    }
    if (s->axis >= 0)
        qg_json_put_int(w, "axis", s->axis);
    if (s->policy & QG_BLOCK)
        qg_json_put_int(w, "block_size", s->block);
    qg_json_put_end(w);
}

/* The rows of activations, or of constants. */
static void put_section(qg_json_writer *w, const qg_table *t, bool constants,
                        enum qg_encoding_fields fields)
{
    for (size_t i = 0; i < t->row.n; i++) {
        const qg_table_row *row = &t->row.at[i];
        if ((row->value->constant != NULL) != constants)
            continue;
        if (fields)
            put_dictionary(w, t->e, row->tqc, fields);
        else
            put_entry_1(w, t->e, row->tqc);
    }
}

void qg_encodings_put(qg_json_writer *w, const qg_table *t,
                      enum qg_encoding_fields fields)
{
    for (int constants = 0; constants < 2; constants++) {
        const char *key = constants ? "param_encodings" : "activation_encodings";
        if (fields)
            qg_json_put_object(w, key);
        else
            qg_json_put_array(w, key);
        put_section(w, t, constants, fields);
        qg_json_put_end(w);
    }
}

static void put_2(qg_json_writer *w, const qg_table *t)
{
    qg_json_put_array(w, "encodings");
    for (size_t i = 0; i < t->row.n; i++)
        put_entry_2(w, t->e, t->row.at[i].tqc);
    qg_json_put_end(w);
}

static qg_status put(const qg_table *t, FILE *stream)
{
    const char *version = t->e->option[QG_FORMAT_VERSION];
    qg_json_writer *w = QG_NEW(t->e->arena, qg_json_writer);
    if (!w)
        return qg_nomem(t->e->ctx);
    qg_json_begin(w, t->e->ctx, stream);
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "version", version);
    if (is_version(t->e, "2.0.0"))
        put_2(w, t);
    else
        qg_encodings_put(w, t,
                         is_version(t->e, "0.4.0")   ? QG_ENCODING_GRID
                         : is_version(t->e, "0.6.1") ? QG_ENCODING_ALL
                                                     : QG_ENCODING_LIST);
    qg_json_put_end(w);
    return qg_json_done(w);
}

/* --- reading --- */

/* A table in any version, as it is read: parameters come one by one. */
typedef struct entry {
    const qg_json *at; /* for messages */
    const char *name;
    qg_scheme scheme;
    qg_grid_record grid;
    qg_table_params room;
} entry;

static qg_status begin_entry(qg_table_reader *r, entry *n, size_t count)
{
    n->scheme.rounding = QG_ROUND_HALF_UP;
    return qg_table_grid_new(r, &n->scheme, count, &n->grid, &n->room);
}

static qg_status set_bits(qg_table_reader *r, entry *n, int64_t bits, bool is_signed)
{
    if (bits < 2 || bits > 32)
        return qg_json_fail(r->ctx, QG_EPARSE, n->at, "has %lld bits, expected 2 to 32",
                            (long long)bits);
    n->scheme.bits = (uint8_t)bits;
    n->scheme.policy |= QG_LINEAR;
    n->scheme.axis = -1;
    set_codes(&n->scheme, is_signed);
    return QG_OK;
}

/* The least and largest zero point. */
static int64_t least_zero(const qg_scheme *s)
{
    return s->qmin < -INT32_MAX ? -INT32_MAX : s->qmin;
}

static int64_t most_zero(const qg_scheme *s)
{
    return s->qmax > INT32_MAX ? INT32_MAX : s->qmax;
}

/* Sets the zero point of parameter c; false: it is none. */
static bool is_zero(entry *n, size_t c, double zero)
{
    const qg_scheme *s = &n->grid.scheme;
    bool fine = zero == rint(zero) && zero >= (double)least_zero(s) &&
                zero <= (double)most_zero(s);
    n->room.offset[c] = fine ? (int32_t)zero : 0;
    return fine;
}

static qg_status set_zero(qg_table_reader *r, entry *n, size_t c, double zero)
{
    const qg_scheme *s = &n->grid.scheme;
    return is_zero(n, c, zero)
               ? QG_OK
               : qg_json_fail(
                     r->ctx, QG_EPARSE, n->at,
                     "has zero point %.12g, expected an integer in [%lld, %lld]", zero,
                     (long long)least_zero(s), (long long)most_zero(s));
}

static qg_status end_entry(qg_table_reader *r, entry *n)
{
    bool symmetric = n->grid.scheme.qmin < 0;
    for (size_t c = 0; c < n->grid.param.n; c++)
        symmetric &= n->room.offset[c] == 0;
    if (!(n->grid.scheme.policy & QG_FLOATING))
        n->grid.scheme.policy |= symmetric ? QG_SYMMETRIC : QG_ASYMMETRIC;
    return qg_table_found(r, n->name, &n->grid);
}

/* "True" and "False" are texts in most files. */
static qg_status read_truth(qg_table_reader *r, const qg_json *o, const char *key,
                            bool *out)
{
    const qg_json *v = qg_json_get(o, key);
    bool text = v && v->type == QG_JSON_TEXT;
    *out = v && ((text && strcmp(v->text, "True") == 0) ||
                 (v->type == QG_JSON_BOOL && v->truth));
    if (v && !*out && !(text && strcmp(v->text, "False") == 0) &&
        v->type != QG_JSON_BOOL)
        return qg_json_fail(r->ctx, QG_EPARSE, v, "expected \"True\" or \"False\"");
    return QG_OK;
}

/* Whether the entry is of a tensor in float; absent: it is not. */
static qg_status read_float(qg_table_reader *r, const qg_json *o, bool *is_float)
{
    const qg_json *type = qg_json_get(o, "dtype");
    const char *text = type && type->type == QG_JSON_TEXT ? type->text : "";
    *is_float = strcmp(text, "float") == 0 || strcmp(text, "FLOAT") == 0;
    if (!type || *is_float || strcmp(text, "int") == 0 || strcmp(text, "INT") == 0)
        return QG_OK;
    return qg_json_fail(r->ctx, QG_EPARSE, type,
                        "is no type of encodings, expected \"int\" or \"float\"");
}

/* key: of the number of bits.  8 bits would need a scale, which these versions do not
 * have. */
static qg_status leave_float(qg_table_reader *r, const qg_json *o, const char *key,
                             const char *name)
{
    int64_t bits;
    const qg_value *v = qg_graph_value(r->g, name);
    QG_TRY(qg_json_int(r->ctx, o, key, &bits));
    if (bits != 16 && bits != 32)
        return qg_json_fail(r->ctx, QG_EUNSUPPORTED, o,
                            "is a float encoding of %lld bits, expected 16 or 32",
                            (long long)bits);
    return qg_table_leave_out(
        r, name, v && v->type.dtype == QG_F32 ? QG_LEFT_FLOAT : QG_LEFT_MISSING);
}

/* A zero point of a grid that the file calls symmetric, by its unsigned offset: that of
 * code 0, or 0 where AIMET found no negative value (use_unsigned_symmetric). */
static qg_status set_offset(qg_table_reader *r, entry *n, size_t c, bool symmetric,
                            double offset)
{
    const qg_scheme *s = &n->grid.scheme;
    double half = symmetric ? (double)half_of(s->bits) : 0;
    bool narrow = s->qmin == 1 - half_of(s->bits);
    double shift = half - narrow; /* of the zero point, from the unsigned grid */
    if (!is_zero(n, c, -offset - shift))
        return qg_json_fail(
            r->ctx, QG_EPARSE, n->at,
            "has zero point %.12g, expected an integer in [%lld, %lld]: its offset is "
            "%.12g, expected one in [%.12g, %.12g]",
            -offset - shift, (long long)least_zero(s), (long long)most_zero(s), offset,
            -shift - (double)most_zero(s), -shift - (double)least_zero(s));
    int32_t zero = n->room.offset[c];
    return !symmetric || zero == 0 || (!narrow && -zero == half_of(s->bits))
               ? QG_OK
               : qg_json_fail(
                     r->ctx, QG_EPARSE, n->at,
                     "is symmetric with offset %.12g, expected %.12g, or 0 for "
                     "codes without a sign",
                     offset, narrow - half);
}

/* min and max are the limits of the grid, up to half a step and the digits of a
 * float32. */
static qg_status check_limit(qg_table_reader *r, const entry *n, const qg_json *o,
                             const char *key, double expected, double scale)
{
    double x = expected;
    if (qg_json_get(o, key))
        QG_TRY(qg_json_f64(r->ctx, o, key, &x));
    return fabs(x - expected) <= 0.5001 * scale + 1e-5 * fabs(expected)
               ? QG_OK
               : qg_json_fail(r->ctx, QG_EPARSE, o,
                              "has %s %g, expected %g by its scale, offset and %u bits",
                              key, x, expected, n->scheme.bits);
}

/* What the channels of a tensor have in common: those of channel 0 are n's. */
static qg_status check_common(qg_table_reader *r, const entry *n, const qg_json *o,
                              bool symmetric)
{
    int64_t bits;
    bool own, is_float;
    QG_TRY(qg_json_as_object(r->ctx, o));
    QG_TRY(read_float(r, o, &is_float));
    if (is_float)
        return qg_json_fail(r->ctx, QG_EPARSE, o,
                            "is a float encoding, unlike the channel before, expected "
                            "one grid per tensor");
    QG_TRY(qg_json_int(r->ctx, o, "bitwidth", &bits));
    QG_TRY(read_truth(r, o, "is_symmetric", &own));
    return bits == n->scheme.bits && own == symmetric
               ? QG_OK
               : qg_json_fail(r->ctx, QG_EPARSE, o,
                              "has another bitwidth or is_symmetric than the channel "
                              "before, expected one grid per tensor");
}

/* Scale and unsigned offset of one channel of a dictionary; from min and max where they
 * are not there. */
static qg_status read_channel(qg_table_reader *r, entry *n, const qg_json *o, size_t c,
                              bool symmetric)
{
    double scale, offset, low, high;
    double steps = (double)(n->grid.scheme.qmax - n->grid.scheme.qmin);
    if (o->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_EPARSE, o, "expected an object per channel");
    bool has_scale = qg_json_get(o, "scale"), has_offset = qg_json_get(o, "offset");
    QG_TRY(check_common(r, n, o, symmetric));
    if (!has_scale || !has_offset) {
        QG_TRY(qg_json_f64(r->ctx, o, "min", &low));
        QG_TRY(qg_json_f64(r->ctx, o, "max", &high));
        scale = (high - low) / steps;
        offset = scale > 0 ? rint(low / scale) : 0;
    }
    if (has_scale)
        QG_TRY(qg_json_f64(r->ctx, o, "scale", &scale));
    if (has_offset)
        QG_TRY(qg_json_f64(r->ctx, o, "offset", &offset));
    n->room.scale[c] = (float)scale;
    QG_TRY(set_offset(r, n, c, symmetric, offset));
    if (!qg_import_is_scale(n->room.scale[c]))
        return qg_json_fail(r->ctx, QG_EPARSE, o,
                            "its scale 0 is %g, expected " QG_IMPORT_SCALE, scale);
    QG_TRY(check_limit(r, n, o, "min", scale * offset, scale));
    return check_limit(r, n, o, "max", scale * (offset + steps), scale);
}

/* A symmetric grid without its lowest code, AIMET's strict_symmetric: offset is the
 * first one. */
static void set_narrow(entry *n, bool symmetric, const qg_json *offset)
{
    if (symmetric && offset && offset->type == QG_JSON_NUMBER &&
        offset->number == (double)(1 - half_of(n->scheme.bits)))
        n->scheme.qmin++;
}

static qg_status read_dictionary(qg_table_reader *r, const qg_json *list)
{
    entry n = { .at = list, .name = list->key };
    int64_t bits;
    bool symmetric, is_float;
    if (list->type != QG_JSON_ARRAY || list->count == 0 ||
        list->item[0].type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_EPARSE, list,
                            "is no list of objects, expected one per channel");
    const qg_json *first = &list->item[0];
    QG_TRY(read_float(r, first, &is_float));
    if (is_float)
        return list->count == 1
                   ? leave_float(r, first, "bitwidth", n.name)
                   : qg_json_fail(r->ctx, QG_EPARSE, list,
                                  "is a float encoding of %zu channels, expected 1",
                                  list->count);
    QG_TRY(qg_json_int(r->ctx, first, "bitwidth", &bits));
    QG_TRY(read_truth(r, first, "is_symmetric", &symmetric));
    QG_TRY(set_bits(r, &n, bits, symmetric));
    set_narrow(&n, symmetric, qg_json_get(first, "offset"));
    n.scheme.policy |= list->count > 1 ? QG_PER_CHANNEL : QG_PER_TENSOR;
    QG_TRY(begin_entry(r, &n, list->count));
    for (size_t c = 0; c < list->count; c++)
        QG_TRY(read_channel(r, &n, &list->item[c], c, symmetric));
    return end_entry(r, &n);
}

static qg_status read_entry_1(qg_table_reader *r, const qg_json *o)
{
    entry n = { .at = o };
    int64_t bits;
    bool symmetric, is_float;
    const char *kind;
    const qg_json *scale, *offset;
    QG_TRY(qg_json_text(r->ctx, o, "name", &n.name));
    QG_TRY(qg_json_text(r->ctx, o, "enc_type", &kind));
    QG_TRY(read_float(r, o, &is_float));
    if (is_float)
        return leave_float(r, o, "bw", n.name);
    if (strcmp(kind, "PER_TENSOR") != 0 && strcmp(kind, "PER_CHANNEL") != 0)
        return qg_json_fail(r->ctx, QG_EUNSUPPORTED, o,
                            "has enc_type %s, whose axis the file does not state, "
                            "expected PER_TENSOR, PER_CHANNEL or version 2.0.0",
                            kind);
    QG_TRY(qg_json_int(r->ctx, o, "bw", &bits));
    QG_TRY(qg_json_bool(r->ctx, o, "is_sym", &symmetric));
    QG_TRY(qg_json_member(r->ctx, o, "scale", QG_JSON_ARRAY, &scale));
    QG_TRY(qg_json_member(r->ctx, o, "offset", QG_JSON_ARRAY, &offset));
    QG_TRY(set_bits(r, &n, bits, symmetric));
    if (scale->count == 0 || scale->count != offset->count)
        return qg_json_fail(r->ctx, QG_EPARSE, o,
                            "has %zu scales and %zu offsets, expected as many, and one "
                            "at least",
                            scale->count, offset->count);
    if (scale->count > 1 && strcmp(kind, "PER_TENSOR") == 0)
        return qg_json_fail(r->ctx, QG_EPARSE, o,
                            "has enc_type PER_TENSOR and %zu scales, expected 1",
                            scale->count);
    n.scheme.policy |= scale->count > 1 ? QG_PER_CHANNEL : QG_PER_TENSOR;
    set_narrow(&n, symmetric, &offset->item[0]);
    QG_TRY(begin_entry(r, &n, scale->count));
    for (size_t c = 0; c < scale->count; c++) {
        double zero;
        QG_TRY(qg_json_as_f32(r->ctx, &scale->item[c], &n.room.scale[c]));
        QG_TRY(qg_json_as_f64(r->ctx, &offset->item[c], &zero));
        QG_TRY(set_offset(r, &n, c, symmetric, zero));
    }
    return end_entry(r, &n);
}

/* Numbers of nested lists, in order. */
static size_t count_numbers(const qg_json *v)
{
    size_t n = 0;
    if (v->type != QG_JSON_ARRAY)
        return 1;
    for (size_t i = 0; i < v->count; i++) /* as deep as the reader allows */
        n += count_numbers(&v->item[i]);
    return n;
}

/* Calls take(n, c, x) for each number. */
static qg_status each_number(qg_table_reader *r, const qg_json *v, entry *n, size_t *c,
                             qg_status (*take)(qg_table_reader *, entry *, size_t,
                                               double))
{
    double x;
    for (size_t i = 0; v->type == QG_JSON_ARRAY && i < v->count; i++)
        QG_TRY(each_number(r, &v->item[i], n, c, take));
    if (v->type == QG_JSON_ARRAY)
        return QG_OK;
    QG_TRY(qg_json_as_f64(r->ctx, v, &x));
    return take(r, n, (*c)++, x);
}

static qg_status take_scale(qg_table_reader *r, entry *n, size_t c, double x)
{
    (void)r;
    n->room.scale[c] = (float)x;
    return QG_OK;
}

/* "int8", "uint4", "float8e5m2". */
static qg_status read_type(qg_table_reader *r, entry *n, const char *type)
{
    bool is_signed = *type != 'u';
    int64_t bits;
    const char *rest = type + !is_signed;
    for (size_t i = 0; i < N_FLOAT; i++)
        if (strcmp(type, floats[i].name) == 0) {
            n->scheme =
                (qg_scheme){ .policy = QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2,
                             .bits = 8,
                             .exponent_bits = floats[i].exponent_bits,
                             .axis = -1,
                             .qmin = -floats[i].largest,
                             .qmax = floats[i].largest };
            return QG_OK;
        }
    if (strncmp(rest, "int", 3) != 0 || strlen(rest) > 5 ||
        !qg_num_parse_i64(rest + 3, strlen(rest + 3), &bits))
        return qg_json_fail(r->ctx, QG_EUNSUPPORTED, n->at,
                            "has output_dtype %s, expected int or uint and bits, "
                            "float8e4m3fn or float8e5m2",
                            type);
    return set_bits(r, n, bits, is_signed);
}

static qg_status read_axis(qg_table_reader *r, entry *n)
{
    int64_t axis = -1, block = 0;
    if (qg_json_get(n->at, "axis"))
        QG_TRY(qg_json_int(r->ctx, n->at, "axis", &axis));
    if (qg_json_get(n->at, "block_size"))
        QG_TRY(qg_json_int(r->ctx, n->at, "block_size", &block));
    const qg_value *v = qg_graph_value(r->g, n->name);
    axis += axis < 0 && v && qg_json_get(n->at, "axis") ? v->type.rank : 0;
    if (axis < -1 || axis >= QG_MAX_RANK || block < 0 || block > INT32_MAX)
        return qg_json_fail(r->ctx, QG_EPARSE, n->at,
                            "has axis %lld and block_size %lld, expected an axis of "
                            "the tensor and a size",
                            (long long)axis, (long long)block);
    n->scheme.axis = (int16_t)axis;
    n->scheme.block = (int32_t)block;
    n->scheme.policy |= block ? QG_BLOCK : axis >= 0 ? QG_PER_CHANNEL : QG_PER_TENSOR;
    return QG_OK;
}

static qg_status read_entry_2(qg_table_reader *r, const qg_json *o)
{
    entry n = { .at = o };
    const char *type;
    size_t c = 0;
    QG_TRY(qg_json_text(r->ctx, o, "name", &n.name));
    QG_TRY(qg_json_text(r->ctx, o, "output_dtype", &type));
    const qg_json *scale = qg_json_get(o, "y_scale"),
                  *zero = qg_json_get(o, "y_zero_point");
    if (!scale || scale->type == QG_JSON_OBJECT || count_numbers(scale) == 0)
        return qg_json_fail(r->ctx, QG_EUNSUPPORTED, o,
                            "has no y_scale of numbers, expected one (LPBQ and double "
                            "quantization are not supported)");
    QG_TRY(read_type(r, &n, type));
    QG_TRY(read_axis(r, &n));
    QG_TRY(begin_entry(r, &n, count_numbers(scale)));
    QG_TRY(each_number(r, scale, &n, &c, take_scale));
    if (zero && zero->type != QG_JSON_NULL) {
        if (count_numbers(zero) != c)
            return qg_json_fail(r->ctx, QG_EPARSE, o,
                                "has %zu zero points for %zu scales, expected as many",
                                count_numbers(zero), c);
        c = 0;
        QG_TRY(each_number(r, zero, &n, &c, set_zero));
    }
    return end_entry(r, &n);
}

/* The entries of one section, which an older file has as an object. */
static qg_status read_section(qg_table_reader *r, const qg_json *root, const char *key,
                              qg_status (*read)(qg_table_reader *, const qg_json *))
{
    const qg_json *list = qg_json_get(root, key);
    enum qg_json_type want = read == read_dictionary ? QG_JSON_OBJECT : QG_JSON_ARRAY;
    if (!list)
        return QG_OK;
    if (list->type == QG_JSON_ARRAY && !qg_json_get(root, "version"))
        return qg_json_fail(r->ctx, QG_EPARSE, list,
                            "is a list, and the file has no version, expected "
                            "\"version\": \"1.0.0\" beside it");
    if (list->type != want)
        return qg_json_fail(r->ctx, QG_EPARSE, list,
                            "is not of its version, expected %s",
                            want == QG_JSON_ARRAY ? "a list" : "an object");
    for (size_t i = 0; i < list->count; i++) {
        if (want == QG_JSON_ARRAY && list->item[i].type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_EPARSE, &list->item[i],
                                "is not an object, expected an object");
        QG_TRY(read(r, &list->item[i]));
    }
    return QG_OK;
}

static qg_status parse_root(qg_table_reader *r, const qg_json *root)
{
    const char *version = "0.4.0";
    if (root->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_EPARSE, root,
                            "is not an object, expected an object");
    if (qg_json_get(root, "version"))
        QG_TRY(qg_json_text(r->ctx, root, "version", &version));
    r->from = qg_arena_printf(r->g->arena, "aimet %s", version);
    if (!r->from)
        return qg_nomem(r->ctx);
    if (strcmp(version, "2.0.0") == 0)
        return qg_json_get(root, "encodings")
                   ? read_section(r, root, "encodings", read_entry_2)
                   : qg_json_fail(r->ctx, QG_EPARSE, root,
                                  "has no entries, expected a list 'encodings'");
    bool lists = strcmp(version, "1.0.0") == 0;
    static const char *const dictionaries[] = { "0.4.0", "0.5.0", "0.5.1",
                                                "0.6.0", "0.6.1", NULL };
    if (!lists && !qg_table_among(version, dictionaries))
        return qg_json_fail(r->ctx, QG_EUNSUPPORTED, root,
                            "has version %s, expected 0.4.0 to 0.6.1, 1.0.0 or 2.0.0",
                            version);
    if (!qg_json_get(root, "activation_encodings") &&
        !qg_json_get(root, "param_encodings"))
        return qg_json_fail(r->ctx, QG_EPARSE, root,
                            "has no entries, expected 'activation_encodings' or "
                            "'param_encodings'");
    QG_TRY(read_section(r, root, "activation_encodings",
                        lists ? read_entry_1 : read_dictionary));
    return read_section(r, root, "param_encodings",
                        lists ? read_entry_1 : read_dictionary);
}

static qg_status parse(qg_table_reader *r, const qg_json_source *from)
{
    return qg_table_parse_json(r, from, parse_root);
}

/* --- the row --- */

static const qg_table_form form = {
    .constants = true, .grid = grid, .put = put, .parse = parse
};

static const char *const versions[] = { "1.0.0", "0.4.0", "0.6.1", "2.0.0", NULL };

const qg_format qg_format_aimet = {
    .name = "aimet",
    .suffix = ".encodings + .onnx",
    .rounding = QG_ROUND_HALF_UP,
    .nan = QG_NAN_BIT(QG_NAN_KEEP),
    .summary = "AIMET's encodings; versions 0.4.0, 0.6.1, 1.0.0, 2.0.0",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_BLOCK | QG_SAYS_OFFSET | QG_SAYS_RANGE |
            QG_SAYS_BITS | QG_SAYS_FLOATING | QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING |
            QG_SAYS_DERIVED | QG_SAYS_SILENT,
    .choice = { [QG_FORMAT_VERSION] = versions },
    .table = &form,
    .build = qg_table_build,
    .write = qg_table_write,
    .import = qg_table_import,
    .needs_model = true,
};

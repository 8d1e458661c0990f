/* csv.c -- every endpoint in one line, for spreadsheets (RFC 4180, UTF-8).
 *
 *     endpoint,value,op,state,policy,bits,exponent_bits,qmin,qmax,rounding,axis,block,
 *     scale,offset,dominator
 *
 *     scale, offset   of the dominator: numbers separated by blanks, in channel order;
 *                     scale in the unit of the tensor per step, offset in steps
 *     axis, block     empty where the policy has none
 *
 * A line, wrapped here:
 *
 *     "conv1.in1","w1","Conv",baked,per-channel linear symmetric,8,0,-127,127,
 *     half-even,0,,0.01 0.02 0.005,0 0 0,"conv1.in1"
 *
 * Names are quoted always, since ONNX allows any character in them; words and numbers
 * never.  Floats have as many digits as they need to be read back with the same bits.
 *
 * Import takes the endpoints that round; others follow from them or stay float.  The
 * columns may be in any order, and only endpoint, state, policy, bits, qmin, qmax and
 * scale must be there.  A column value must agree with the model: a network that
 * quantize has changed (BatchNormalization in a convolution) has other values at the
 * same endpoints. */
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/formats/table.h"

/* clang-format off */
#define COLUMN_MAP(X)                                                          \
    X(ENDPOINT, "endpoint") X(VALUE, "value") X(OP, "op") X(STATE, "state")    \
    X(POLICY, "policy") X(BITS, "bits") X(EXPONENT_BITS, "exponent_bits")      \
    X(QMIN, "qmin") X(QMAX, "qmax") X(ROUNDING, "rounding") X(AXIS, "axis")    \
    X(BLOCK, "block") X(SCALE, "scale") X(OFFSET, "offset")                    \
    X(DOMINATOR, "dominator")
/* clang-format on */

enum column {
#define X(id, word) COLUMN_##id,
    COLUMN_MAP(X)
#undef X
        N_COLUMN
};

static const char *const column_word[N_COLUMN] = {
#define X(id, word) word,
    COLUMN_MAP(X)
#undef X
};

/* --- writing --- */

static void put_text(FILE *stream, const char *text, char end)
{
    (void)fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            (void)fputc('"', stream);
        (void)fputc(*text, stream);
    }
    (void)fputc('"', stream);
    (void)fputc(end, stream);
}

static void put_params(FILE *stream, qg_qparam p)
{
    char text[QG_NUM_TEXT];
    for (size_t c = 0; c < p.n; c++) {
        qg_num_f32(text, p.scale[c]);
        (void)fprintf(stream, "%s%s", c ? " " : "", text);
    }
    (void)fputc(',', stream);
    for (size_t c = 0; c < p.n; c++)
        (void)fprintf(stream, "%s%d", c ? " " : "", p.offset ? p.offset[c] : 0);
    (void)fputc(',', stream);
}

static qg_status put_row(qg_export *e, FILE *stream, const qg_tqc *t)
{
    char policy[QG_POLICY_TEXT];
    const qg_scheme *s = &t->scheme;
    const char *own = qg_endpoint_full_text(e->arena, qg_tqc_endpoint(t));
    const char *root = qg_endpoint_full_text(e->arena, qg_tqc_endpoint(qg_tqc_root(t)));
    if (!own || !root)
        return qg_nomem(e->ctx);
    put_text(stream, own, ',');
    put_text(stream, qg_tqc_value(t)->name, ',');
    put_text(stream, t->node->op->name, ',');
    (void)fprintf(stream, "%s,%s,%u,%u,%lld,%lld,%s,", qg_tqc_state_name(t->state),
                  qg_policy_text(s->policy, policy), s->bits, s->exponent_bits,
                  (long long)s->qmin, (long long)s->qmax,
                  qg_rounding_name((qg_rounding)s->rounding));
    if (s->axis >= 0)
        (void)fprintf(stream, "%d", s->axis);
    (void)fputc(',', stream);
    if (s->policy & QG_BLOCK)
        (void)fprintf(stream, "%d", s->block);
    (void)fputc(',', stream);
    put_params(stream, qg_tqc_param(t));
    put_text(stream, root, '\n');
    return QG_OK;
}

static qg_status put(qg_export *e, FILE *stream)
{
    for (size_t i = 0; i < N_COLUMN; i++)
        (void)fprintf(stream, "%s%s", i ? "," : "", column_word[i]);
    (void)fputc('\n', stream);
    for (size_t i = 0; i < e->quant->tqc.n; i++)
        QG_TRY(put_row(e, stream, e->quant->tqc.at[i]));
    return QG_OK;
}

static qg_status build(qg_export *e)
{
    for (size_t i = 0; i < e->quant->tqc.n; i++) {
        const qg_tqc *t = e->quant->tqc.at[i];
        if (t->scheme.variant)
            QG_TRY(qg_table_lose(e, QG_SAYS_FLOATING, t,
                                 "the variant of the floating-point grid"));
    }
    return QG_OK;
}

static qg_status write(qg_export *e) { return qg_export_beside_model(e, put); }

/* --- reading --- */

typedef struct sheet {
    qg_table_reader *r;
    const qg_json_source *from;
    size_t offset, line; /* behind the record that was read; its last line */
    char *next;          /* room for what is left of the file, decoded */
    const char *cell[64];
    size_t n, width;         /* cells of this record, of the first one */
    size_t column[N_COLUMN]; /* index into cell; SIZE_MAX: not there */
} sheet;

/* The text of a cell and what ends it: ',', '\n' or, at the end of the file, 0.  It is
 * no longer than its source, and its zero takes the place of the end. */
static qg_status read_cell(sheet *s, char *end)
{
    const char *at = s->from->bytes + s->offset, *stop = s->from->bytes + s->from->size;
    bool quoted = at < stop && *at == '"';
    at += quoted;
    for (; at < stop && (quoted || (*at != ',' && *at != '\n')); at++) {
        if (quoted && *at == '"' && (at + 1 == stop || at[1] != '"')) {
            quoted = false;
            continue;
        }
        at += quoted && *at == '"'; /* two stand for one */
        if (*at == '\0')
            return qg_table_fail(s->r, s->from, s->line, "has a byte 0, expected text");
        s->line += *at == '\n';
        if (*at != '\r' || quoted)
            *s->next++ = *at;
    }
    if (quoted)
        return qg_table_fail(s->r, s->from, s->line, "a quoted text does not end");
    *s->next++ = '\0';
    *end = '\0';
    if (at < stop)
        *end = *at++;
    s->offset = (size_t)(at - s->from->bytes);
    return QG_OK;
}

/* The cells of the next record. */
static qg_status read_record(sheet *s, bool *more)
{
    char end = ',';
    *more = s->offset < s->from->size;
    s->line++;
    for (s->n = 0; *more && end == ','; s->n++) {
        if (s->n == sizeof s->cell / sizeof s->cell[0])
            return qg_table_fail(s->r, s->from, s->line, "has more than %zu cells",
                                 s->n);
        s->cell[s->n] = s->next;
        QG_TRY(read_cell(s, &end));
    }
    return QG_OK;
}

static qg_status read_head(sheet *s)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, as Excel writes it */
    bool more;
    if (s->from->size > 3 && memcmp(s->from->bytes, mark, 3) == 0)
        s->offset = 3;
    QG_TRY(read_record(s, &more));
    s->width = s->n;
    for (size_t k = 0; k < N_COLUMN; k++) {
        s->column[k] = SIZE_MAX;
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->cell[i], column_word[k]) == 0)
                s->column[k] = i;
    }
    static const enum column needed[] = { COLUMN_ENDPOINT, COLUMN_STATE, COLUMN_POLICY,
                                          COLUMN_BITS,     COLUMN_QMIN,  COLUMN_QMAX,
                                          COLUMN_SCALE };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (s->column[needed[i]] == SIZE_MAX)
            return qg_table_fail(s->r, s->from, s->line, "has no column '%s'",
                                 column_word[needed[i]]);
    return QG_OK;
}

/* The text of a column; "" when the record has none. */
static const char *cell_of(const sheet *s, enum column k)
{
    return s->column[k] < s->n ? s->cell[s->column[k]] : "";
}

static qg_status fail_cell(const sheet *s, enum column k, const char *expected)
{
    return qg_table_fail(s->r, s->from, s->line, "%s is '%.60s', expected %s",
                         column_word[k], cell_of(s, k), expected);
}

/* An integer within limits; `preset` where the cell is empty. */
static qg_status read_int(const sheet *s, enum column k, int64_t preset, int64_t most,
                          int64_t *out)
{
    const char *text = cell_of(s, k);
    size_t n = strlen(text);
    *out = preset;
    char expected[64];
    if (!n ||
        (n <= 20 && qg_num_parse_i64(text, n, out) && *out >= -most && *out <= most))
        return QG_OK;
    (void)snprintf(expected, sizeof expected, "an integer of at most %lld",
                   (long long)most);
    return fail_cell(s, k, expected);
}

/* "per-tensor linear symmetric" */
static qg_status read_policy(const sheet *s, uint16_t *policy)
{
    const char *at = cell_of(s, COLUMN_POLICY);
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        char word[24] = "";
        size_t n = strcspn(at, " ");
        uint32_t bit = 0;
        if (n < sizeof word) {
            memcpy(word, at, n);
            bit = qg_policy_bit_named(word);
        }
        if (!bit)
            return fail_cell(s, COLUMN_POLICY, "words of a policy");
        *policy |= (uint16_t)bit;
        at += n;
    }
    return QG_OK;
}

static qg_status read_rounding(const sheet *s, uint8_t *rounding)
{
    const char *text = cell_of(s, COLUMN_ROUNDING);
    int r = *text ? qg_rounding_named(text) : QG_ROUND_HALF_EVEN;
    if (r < 0)
        return fail_cell(s, COLUMN_ROUNDING, "one of `qg list roundings`");
    *rounding = (uint8_t)r;
    return QG_OK;
}

static qg_status read_scheme(const sheet *s, qg_scheme *out)
{
    int64_t bits, exponent, axis, block;
    QG_TRY(read_policy(s, &out->policy));
    QG_TRY(read_rounding(s, &out->rounding));
    QG_TRY(read_int(s, COLUMN_BITS, 0, 32, &bits));
    QG_TRY(read_int(s, COLUMN_EXPONENT_BITS, 0, 8, &exponent));
    QG_TRY(read_int(s, COLUMN_AXIS, -1, QG_MAX_RANK - 1, &axis));
    QG_TRY(read_int(s, COLUMN_BLOCK, 0, INT32_MAX, &block));
    QG_TRY(read_int(s, COLUMN_QMIN, 0, INT64_MAX, &out->qmin));
    QG_TRY(read_int(s, COLUMN_QMAX, 0, INT64_MAX, &out->qmax));
    out->bits = (uint8_t)(bits < 0 ? 0 : bits);
    out->exponent_bits = (uint8_t)(exponent < 0 ? 0 : exponent);
    out->axis = (int16_t)axis;
    out->block = (int32_t)(block < 0 ? 0 : block);
    return QG_OK;
}

static size_t count_words(const char *at)
{
    size_t n = 0;
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        at += strcspn(at, " ");
        n++;
    }
    return n;
}

/* The number at *at, which moves behind it. */
static bool next_number(const char **at, double *x)
{
    *at += strspn(*at, " ");
    size_t n = strcspn(*at, " ");
    bool fine = n > 0 && n < 64 && qg_num_parse_f64(*at, n, x);
    *at += n;
    return fine;
}

static qg_status read_params(const sheet *s, const qg_scheme *scheme,
                             qg_grid_record *grid)
{
    qg_table_params room;
    const char *scale = cell_of(s, COLUMN_SCALE), *offset = cell_of(s, COLUMN_OFFSET);
    size_t n = count_words(scale), zeros = count_words(offset);
    double x;
    if (n == 0 || (zeros && zeros != n))
        return fail_cell(s, COLUMN_OFFSET, "one per scale, and a scale");
    QG_TRY(qg_table_grid_new(s->r, scheme, n, grid, &room));
    for (size_t c = 0; c < n; c++) {
        if (!next_number(&scale, &x))
            return fail_cell(s, COLUMN_SCALE, "numbers");
        room.scale[c] = (float)x;
        if (zeros && (!next_number(&offset, &x) || x < INT32_MIN || x > INT32_MAX ||
                      x != (double)(int32_t)x))
            return fail_cell(s, COLUMN_OFFSET, "integers");
        room.offset[c] = zeros ? (int32_t)x : 0;
    }
    return QG_OK;
}

/* Whether a record in this state has a place of its own after an import. */
static bool is_taken(const char *state)
{
    static const qg_tqc_state taken[] = { QG_TQC_ACTIVATED, QG_TQC_BAKED,
                                          QG_TQC_PASSIVE, QG_TQC_PASSIVE_BAKED };
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(state, qg_tqc_state_name(taken[i])) == 0)
            return true;
    return false;
}

static qg_status take_record(const sheet *s)
{
    qg_endpoint at;
    qg_grid_record grid;
    qg_scheme scheme = { .axis = -1 };
    const char *name = cell_of(s, COLUMN_ENDPOINT);
    if (s->n != s->width)
        return qg_table_fail(s->r, s->from, s->line, "has %zu cells, expected %zu",
                             s->n, s->width);
    if (qg_tqc_state_named(cell_of(s, COLUMN_STATE)) < 0)
        return fail_cell(s, COLUMN_STATE, "one of `qg list states`");
    if (!is_taken(cell_of(s, COLUMN_STATE)))
        return QG_OK;
    if (!qg_endpoint_named(s->r->g, name, &at) || !qg_endpoint_value(at) ||
        qg_endpoint_value(at)->type.dtype != QG_F32 ||
        qg_node_has(at.node, QG_OP_CONTROL) ||
        (!at.is_output && at.slot >= at.node->n_in - at.node->n_capture)) {
        qg_table_missing(s->r, name);
        return QG_OK;
    }
    const char *value = cell_of(s, COLUMN_VALUE), *own = qg_endpoint_value(at)->name;
    if (*value && strcmp(value, own) != 0)
        return qg_table_fail(s->r, s->from, s->line,
                             "%.60s is the value '%.60s', '%.60s' in the model, "
                             "expected the model that qg export wrote beside the file",
                             name, value, own);
    QG_TRY(read_scheme(s, &scheme));
    QG_TRY(read_params(s, &scheme, &grid));
    return qg_table_found_at(s->r, at, &grid);
}

static qg_status parse(qg_table_reader *r, const qg_json_source *from)
{
    sheet s = { .r = r, .from = from };
    bool more;
    s.next = QG_NEWN(r->g->arena, from->size + 1, char);
    if (!s.next)
        return qg_nomem(r->ctx);
    QG_TRY(read_head(&s));
    do {
        QG_TRY(read_record(&s, &more));
        if (more)
            QG_TRY(take_record(&s));
    } while (more);
    return QG_OK;
}

static const qg_table_form form = { .constants = true, .parse = parse };

const qg_format qg_format_csv = {
    .name = "csv",
    .suffix = ".csv + .onnx",
    .summary = "all endpoints for spreadsheets, one per line",
    .says =
        (1u << QG_N_ASPECT) - 1 -
        (QG_SAYS_SHARING | QG_SAYS_DERIVED | QG_SAYS_SILENT | QG_SAYS_STATE |
         QG_SAYS_QUANTIZER | QG_SAYS_DYNAMIC | QG_SAYS_ENDPOINT | QG_SAYS_FLOAT_TYPE),
    .table = &form,
    .build = build,
    .write = write,
    .import = qg_table_import,
    .needs_model = true,
};

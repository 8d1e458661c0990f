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
 * scale must be there; others than those above are left out with a warning.  All rows
 * are checked, also those of endpoints that do not round: value and op must be those of
 * the model, since a network that quantize has changed (BatchNormalization in a
 * convolution) has other values at the same endpoints.
 *
 *     read            endpoint, state, policy, bits, exponent_bits, qmin, qmax,
 *                     rounding, axis, block, scale, offset
 *     checked only    value, op, dominator */
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
            QG_TRY(qg_export_lose_result(e, QG_SAYS_FLOATING, t,
                                         "the variant of the floating-point grid"));
    }
    return QG_OK;
}

static qg_status write(qg_export *e) { return qg_export_beside_model(e, put); }

/* --- reading --- */

typedef struct sheet {
    qg_table_reader *r; /* its line is the last one of the record that was read */
    const qg_json_source *from;
    size_t offset; /* behind that record */
    char *next;    /* room for what is left of the file, decoded */
    const char *cell[64];
    size_t n, width;         /* cells of this record, of the first one */
    size_t column[N_COLUMN]; /* index into cell; SIZE_MAX: not there */
    size_t *first;           /* [nodes] index into row of a node's endpoint 0 */
    size_t *row;             /* [endpoints] line that describes it; 0: none yet */
} sheet;

/* Columns that must be there, and whose cells must not be empty. */
static const enum column needed[] = { COLUMN_ENDPOINT, COLUMN_STATE, COLUMN_POLICY,
                                      COLUMN_BITS,     COLUMN_QMIN,  COLUMN_QMAX,
                                      COLUMN_SCALE };
enum { N_NEEDED = sizeof needed / sizeof needed[0] };

static bool is_needed(enum column k)
{
    size_t i = 0;
    while (i < N_NEEDED && needed[i] != k)
        i++;
    return i < N_NEEDED;
}

/* The text of a cell and what ends it: ',', '\n' or, at the end of the file, 0.  It is
 * no longer than its source, and its zero takes the place of the end. */
static qg_status read_cell(sheet *s, char *end)
{
    const char *at = s->from->bytes + s->offset, *stop = s->from->bytes + s->from->size;
    bool quoted = at < stop && *at == '"', ended = false;
    at += quoted;
    for (; at < stop && (quoted || (*at != ',' && *at != '\n')); at++) {
        if (quoted && *at == '"' && (at + 1 == stop || at[1] != '"')) {
            quoted = false;
            ended = true;
            continue;
        }
        if (ended && *at != '\r')
            return qg_table_fail(s->r, "has '%c' behind a quoted text, expected ','",
                                 *at);
        at += quoted && *at == '"'; /* two stand for one */
        s->r->line += *at == '\n';
        if (quoted || *at != '\r' || (at + 1 < stop && at[1] != '\n'))
            *s->next++ = *at;
    }
    if (quoted)
        return qg_table_fail(s->r, "a quoted text does not end");
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
    s->r->line++;
    for (s->n = 0; *more && end == ','; s->n++) {
        if (s->n == sizeof s->cell / sizeof s->cell[0])
            return qg_table_fail(s->r, "has more than %zu cells", s->n);
        s->cell[s->n] = s->next;
        QG_TRY(read_cell(s, &end));
    }
    return QG_OK;
}

/* Cell i of the first record. */
static qg_status add_column(sheet *s, size_t i)
{
    size_t k = 0;
    while (k < N_COLUMN && strcmp(s->cell[i], column_word[k]) != 0)
        k++;
    if (k == N_COLUMN)
        qg_warn(s->r->ctx, "import: %s: column '%.60s' is unknown and left out",
                s->from->name, s->cell[i]);
    else if (s->column[k] != SIZE_MAX)
        return qg_table_fail(s->r, "has column '%s' twice, expected once",
                             column_word[k]);
    else
        s->column[k] = i;
    return QG_OK;
}

static qg_status read_head(sheet *s)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, as Excel writes it */
    bool more;
    if (s->from->size > 3 && memcmp(s->from->bytes, mark, 3) == 0)
        s->offset = 3;
    QG_TRY(read_record(s, &more));
    const char *other = s->n == 1 ? strpbrk(s->cell[0], ";\t") : NULL;
    if (other)
        return qg_table_fail(s->r, "has %s between its columns, expected ','",
                             *other == '\t' ? "tabs" : "';'");
    s->width = s->n;
    for (size_t k = 0; k < N_COLUMN; k++)
        s->column[k] = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++)
        QG_TRY(add_column(s, i));
    for (size_t i = 0; i < N_NEEDED; i++)
        if (s->column[needed[i]] == SIZE_MAX)
            return qg_table_fail(s->r, "has no column '%s'", column_word[needed[i]]);
    return QG_OK;
}

/* The text of a column; "" when the record has none. */
static const char *cell_of(const sheet *s, enum column k)
{
    return s->column[k] < s->n ? s->cell[s->column[k]] : "";
}

static qg_status fail_cell(const sheet *s, enum column k, const char *expected)
{
    return qg_table_fail(s->r, "%s is '%.60s', expected %s", column_word[k],
                         cell_of(s, k), expected);
}

/* An integer within limits; *out stays where the cell may be empty and is. */
static qg_status read_int(const sheet *s, enum column k, int64_t least, int64_t most,
                          int64_t *out)
{
    const char *text = cell_of(s, k);
    size_t n = strlen(text);
    char expected[80];
    if ((!n && !is_needed(k)) ||
        (n <= 20 && qg_num_parse_i64(text, n, out) && *out >= least && *out <= most))
        return QG_OK;
    (void)snprintf(expected, sizeof expected, "an integer in [%lld, %lld]",
                   (long long)least, (long long)most);
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
    const int64_t far = INT64_C(1) << 32;
    int64_t bits = 0, exponent = 0, axis = -1, block = 0;
    QG_TRY(read_policy(s, &out->policy));
    QG_TRY(read_rounding(s, &out->rounding));
    QG_TRY(read_int(s, COLUMN_BITS, 2, 32, &bits));
    QG_TRY(read_int(s, COLUMN_EXPONENT_BITS, 0, 8, &exponent));
    QG_TRY(read_int(s, COLUMN_AXIS, 0, QG_MAX_RANK - 1, &axis));
    QG_TRY(read_int(s, COLUMN_BLOCK, 0, INT32_MAX, &block));
    QG_TRY(read_int(s, COLUMN_QMIN, -far, far, &out->qmin));
    QG_TRY(read_int(s, COLUMN_QMAX, -far, far, &out->qmax));
    out->bits = (uint8_t)bits;
    out->exponent_bits = (uint8_t)exponent;
    out->axis = (int16_t)axis;
    out->block = (int32_t)block;
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

/* As many scales as the scheme has for the dims of the value. */
static qg_status check_count(const sheet *s, const qg_scheme *scheme, qg_endpoint at,
                             size_t n)
{
    const qg_tensor *type = &qg_endpoint_value(at)->type;
    bool known =
        qg_tensor_known(type) && (scheme->policy & QG_PER_TENSOR ||
                                  (scheme->axis >= 0 && scheme->axis < type->rank));
    int64_t count = known ? qg_scheme_param_count(scheme, type) : -1;
    if (count < 0 || (size_t)count == n)
        return QG_OK;
    return qg_table_fail(s->r,
                         "scale has %zu numbers, expected %lld by its policy, axis and "
                         "block",
                         n, (long long)count);
}

static qg_status read_params(const sheet *s, const qg_scheme *scheme, qg_endpoint at,
                             qg_grid_record *grid)
{
    qg_table_params room;
    const char *scale = cell_of(s, COLUMN_SCALE), *offset = cell_of(s, COLUMN_OFFSET);
    size_t n = count_words(scale), zeros = count_words(offset);
    double x;
    if (n == 0)
        return fail_cell(s, COLUMN_SCALE, "numbers");
    QG_TRY(check_count(s, scheme, at, n));
    if (zeros && zeros != n)
        return fail_cell(s, COLUMN_OFFSET, "one per scale");
    QG_TRY(qg_table_grid_new(s->r, scheme, n, grid, &room));
    for (size_t c = 0; c < n; c++) {
        if (!next_number(&scale, &x) || !qg_import_is_scale((float)x))
            return fail_cell(s, COLUMN_SCALE, "numbers, each " QG_IMPORT_SCALE);
        room.scale[c] = (float)x;
        if (zeros && (!next_number(&offset, &x) || x < INT32_MIN || x > INT32_MAX ||
                      x != (double)(int32_t)x))
            return fail_cell(s, COLUMN_OFFSET, "integers");
        room.offset[c] = zeros ? (int32_t)x : 0;
    }
    return QG_OK;
}

/* What the state of a row requires of its import. */
static bool is_taken(qg_tqc_state s) { return (QG_TABLE_EXPORTED >> s & 1u) != 0; }

static bool has_no_scale(qg_tqc_state s) { return s == QG_TQC_FP32 || s == QG_TQC_SOI; }

/* A text of the row that the model has as well, where the file states it. */
static qg_status check_text(const sheet *s, enum column k, const char *own)
{
    const char *text = cell_of(s, k);
    return !*text || strcmp(text, own) == 0
               ? QG_OK
               : qg_table_fail(s->r,
                               "%.60s is the %s '%.60s', '%.60s' in the model, "
                               "expected the model that qg export wrote beside the "
                               "file",
                               cell_of(s, COLUMN_ENDPOINT), column_word[k], text, own);
}

static qg_status check_twice(const sheet *s, qg_endpoint at)
{
    uint32_t k = at.is_output ? at.node->n_in + at.slot : at.slot;
    size_t *row = &s->row[s->first[at.node->id] + k];
    if (*row)
        return qg_table_fail(s->r,
                             "endpoint is '%.1000s' as in line %zu, expected one row",
                             cell_of(s, COLUMN_ENDPOINT), *row);
    *row = s->r->line;
    return QG_OK;
}

static qg_status check_dominator(const sheet *s, qg_tqc_state state)
{
    qg_endpoint root;
    const char *name = cell_of(s, COLUMN_DOMINATOR);
    bool own = strcmp(name, cell_of(s, COLUMN_ENDPOINT)) == 0;
    if (s->column[COLUMN_DOMINATOR] == SIZE_MAX)
        return QG_OK;
    if (state == QG_TQC_OVERLAPPED && (own || !*name))
        return fail_cell(s, COLUMN_DOMINATOR,
                         "another endpoint, since the state is "
                         "OVERLAPPED");
    return !*name || qg_endpoint_named(s->r->g, name, &root)
               ? QG_OK
               : fail_cell(s, COLUMN_DOMINATOR, "an endpoint of the model");
}

/* A row of an endpoint that the model has, whatever its state. */
static qg_status check_row(const sheet *s, qg_endpoint at, qg_tqc_state state)
{
    QG_TRY(check_twice(s, at));
    QG_TRY(check_text(s, COLUMN_VALUE, qg_endpoint_value(at)->name));
    QG_TRY(check_text(s, COLUMN_OP, at.node->op->name));
    QG_TRY(check_dominator(s, state));
    return has_no_scale(state) && *cell_of(s, COLUMN_SCALE)
               ? fail_cell(s, COLUMN_SCALE, "none in a state that does not round")
               : QG_OK;
}

static bool has_record(qg_endpoint at)
{
    return qg_endpoint_value(at)->type.dtype == QG_F32 &&
           !qg_node_has(at.node, QG_OP_CONTROL) &&
           (at.is_output || at.slot < at.node->n_in - at.node->n_capture);
}

static qg_status take_record(const sheet *s)
{
    qg_endpoint at;
    qg_grid_record grid;
    qg_scheme scheme = { .axis = -1 };
    const char *name = cell_of(s, COLUMN_ENDPOINT);
    int state = qg_tqc_state_named(cell_of(s, COLUMN_STATE));
    if (s->n != s->width)
        return qg_table_fail(s->r, "has %zu cells, expected %zu", s->n, s->width);
    if (state < 0)
        return fail_cell(s, COLUMN_STATE, "one of `qg list states`");
    bool there = qg_endpoint_named(s->r->g, name, &at) && qg_endpoint_value(at);
    if (there)
        QG_TRY(check_row(s, at, (qg_tqc_state)state));
    if (there && !is_taken((qg_tqc_state)state))
        return QG_OK;
    if (!there || !has_record(at))
        return qg_table_leave_out(s->r, name, QG_LEFT_MISSING);
    QG_TRY(read_scheme(s, &scheme));
    QG_TRY(read_params(s, &scheme, at, &grid));
    return qg_table_found_at(s->r, at, &grid);
}

/* Room for the line of every endpoint. */
static qg_status number_endpoints(sheet *s)
{
    const qg_graph *g = s->r->g;
    size_t n = 0;
    s->first = QG_NEWN(g->arena, g->node.n, size_t);
    for (size_t i = 0; s->first && i < g->node.n; i++) {
        s->first[i] = n;
        n += (size_t)g->node.at[i]->n_in + g->node.at[i]->n_out;
    }
    s->row = QG_NEWN(g->arena, n, size_t);
    return s->first && s->row ? QG_OK : qg_nomem(s->r->ctx);
}

static qg_status parse(qg_table_reader *r, const qg_json_source *from)
{
    sheet s = { .r = r, .from = from };
    bool more;
    s.next = QG_NEWN(r->g->arena, from->size + 1, char);
    if (!s.next)
        return qg_nomem(r->ctx);
    QG_TRY(number_endpoints(&s));
    QG_TRY(read_head(&s));
    do {
        QG_TRY(read_record(&s, &more));
        if (more)
            QG_TRY(take_record(&s));
    } while (more);
    return QG_OK;
}

static const char *endpoint_name(const qg_table_reader *r, size_t k)
{
    for (size_t i = 0; i < r->g->node.n; k -= qg_node_endpoints(r->g->node.at[i++]))
        if (k < qg_node_endpoints(r->g->node.at[i]))
            return qg_endpoint_full_text(
                r->g->arena, qg_node_endpoint(r->g->node.at[i], (uint32_t)k));
    return NULL;
}

static const qg_table_form form = { .constants = true,
                                    .parse = parse,
                                    .name = endpoint_name };

const qg_format qg_format_csv = {
    .name = "csv",
    .suffix = ".csv + .onnx",
    .summary = "all endpoints for spreadsheets, one per line",
    .says = (1u << QG_N_ASPECT) - 1 -
            (QG_SAYS_SHARING | QG_SAYS_DERIVED | QG_SAYS_SILENT | QG_SAYS_STATE |
             QG_SAYS_QUANTIZER | QG_SAYS_DYNAMIC | QG_SAYS_ENDPOINT |
             QG_SAYS_FLOAT_TYPE | QG_SAYS_NAN),
    .table = &form,
    .build = build,
    .write = write,
    .import = qg_table_import,
    .needs_model = true,
};

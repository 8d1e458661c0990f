/* The layered drawing of qg report, on random graphs: boxes of a rank do not touch,
 * lines go down from box to box, the same input gives the same drawing.  What the page
 * contains is tested by tests/scripts/test_report.py and test_page.py. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/webpage/layers.h"

enum { MOST_VERTICES = 60, MOST_EDGES = 240, GRAPHS = 200, WIDTH = 100, HEIGHT = 30 };

typedef struct random_layers {
    qg_layers l;
    qg_layers_edge edge[MOST_EDGES];
} random_layers;

/* Edges from each vertex to later ones, near ones more often. */
static void make(uint64_t seed, random_layers *g)
{
    qg_rng rng = { seed };
    size_t n_edge = 0;
    uint32_t n = 1 + (uint32_t)qg_rng_below(&rng, MOST_VERTICES);
    for (uint32_t i = 0; i + 1 < n; i++)
        for (uint64_t k = qg_rng_below(&rng, 4); k > 0 && n_edge < MOST_EDGES; k--) {
            uint32_t far = qg_rng_below(&rng, 5) == 0 ? n - 1 - i : 3;
            uint32_t to = i + 1 + (uint32_t)qg_rng_below(&rng, far);
            g->edge[n_edge++] =
                (qg_layers_edge){ .from = i, .to = to < n ? to : n - 1 };
        }
    g->l = (qg_layers){
        .n = n, .edge = g->edge, .n_edge = n_edge, .width = WIDTH, .height = HEIGHT
    };
}

static void check_boxes(const qg_layers *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        assert_cmp_f64(l->x[i], >=, WIDTH / 2 - 1);
        for (uint32_t k = 0; k < i; k++)
            if (l->y[i] == l->y[k])
                assert_cmp_f64(abs((int)(l->x[i] - l->x[k])), >=, WIDTH);
            else
                assert_cmp_f64(abs((int)(l->y[i] - l->y[k])), >=, HEIGHT);
    }
}

static void check_lines(const qg_layers *l)
{
    for (size_t i = 0; i < l->n_edge; i++) {
        const qg_layers_edge *e = &l->edge[i];
        const float *last = e->point + 2 * (e->n_point - 1);
        assert_cmp_int(e->n_point, >=, 2);
        assert_cmp_f64(e->point[0], ==, l->x[e->from]);
        assert_cmp_f64(e->point[1], ==, l->y[e->from] + HEIGHT / 2);
        assert_cmp_f64(last[0], ==, l->x[e->to]);
        assert_cmp_f64(last[1], ==, l->y[e->to] - HEIGHT / 2);
        for (size_t k = 1; k < e->n_point; k++)
            assert_cmp_f64(e->point[2 * k + 1], >, e->point[2 * k - 1]);
    }
}

static void drawings_are_sound(void **state)
{
    qg_ctx *ctx = *state;
    static random_layers g, again;
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        qg_arena *a = qg_arena_new(ctx->alloc);
        make(seed, &g);
        make(seed, &again);
        assert_ok(ctx, qg_layers_place(ctx, a, &g.l));
        assert_ok(ctx, qg_layers_place(ctx, a, &again.l));
        check_boxes(&g.l);
        check_lines(&g.l);
        assert_memory_equal(g.l.x, again.l.x, g.l.n * sizeof *g.l.x);
        qg_arena_free(a);
    }
}

/* An edge over more ranks than QG_LAYERS_LONGEST is a straight line. */
static void long_edges_have_no_joints(void **state)
{
    enum { N = QG_LAYERS_LONGEST + 3 };
    qg_ctx *ctx = *state;
    qg_layers_edge edge[N] = {
        {.from = 0, .to = N - 1}
    };
    qg_layers l = {
        .n = N, .edge = edge, .n_edge = N, .width = WIDTH, .height = HEIGHT
    };
    qg_arena *a = qg_arena_new(ctx->alloc);
    for (uint32_t i = 0; i + 1 < N; i++)
        edge[i + 1] = (qg_layers_edge){ .from = i, .to = i + 1 };
    assert_ok(ctx, qg_layers_place(ctx, a, &l));
    assert_cmp_int(edge[0].n_point, ==, 2);
    check_boxes(&l);
    check_lines(&l);
    qg_arena_free(a);
}

static void an_empty_graph_is_drawn(void **state)
{
    qg_ctx *ctx = *state;
    qg_layers l = { .width = WIDTH, .height = HEIGHT };
    qg_arena *a = qg_arena_new(ctx->alloc);
    assert_ok(ctx, qg_layers_place(ctx, a, &l));
    qg_arena_free(a);
}

QG_TEST_MAIN(WITH_CTX(drawings_are_sound), WITH_CTX(long_edges_have_no_joints),
             WITH_CTX(an_empty_graph_is_drawn))

#include "engine/exec/ahead.h"

#include <assert.h>
#include <pthread.h>

enum { MOST_SLOTS = 64 };

/* A place for one sample.  `index` and `state` are under the lock; the sample belongs
 * to the reader while it is READING. */
typedef struct slot {
    enum { FREE, READING, READY } state;
    size_t index;
    qg_sample sample;
} slot;

struct qg_ahead {
    const qg_feed *feed;
    size_t n, inputs;
    qg_arena *arena; /* of all this */
    slot *slot;      /* [slots]; sample i goes into slot i % slots */
    size_t slots;
    qg_ctx *ctx; /* the reader's; NULL: there is none */
    pthread_t reader;

    pthread_mutex_t lock; /* of all below, and of the slots' states */
    pthread_cond_t moved; /* something was taken, or became ready, or `stop` */
    size_t next;          /* the reader has begun with all samples below */
    size_t taken;         /* one above the highest that a worker took */
    bool stop;
};

static qg_status fetch(const qg_ahead *h, qg_ctx *ctx, size_t i, qg_sample *s)
{
    qg_arena_reset(s->arena);
    s->in = QG_NEWN(s->arena, h->inputs, const qg_tensor *);
    if (!s->in)
        return qg_nomem(ctx);
    return h->feed->fetch(h->feed->ud, ctx, s->arena, i, s->in);
}

/* Reads into the slot without the lock. */
static void read_into(qg_ahead *h, slot *s, size_t i)
{
    assert(s->state == FREE && i < h->n);
    s->state = READING;
    s->index = i;
    h->next = i + 1;
    (void)pthread_mutex_unlock(&h->lock);
    qg_status status = fetch(h, h->ctx, i, &s->sample);
    (void)pthread_mutex_lock(&h->lock);
    s->state = status == QG_OK ? READY : FREE;
    (void)pthread_cond_broadcast(&h->moved);
}

/* Samples taken by workers are skipped; samples too far ahead wait. */
static void *read_on(void *arg)
{
    qg_ahead *h = arg;
    (void)pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        size_t i = h->next > h->taken ? h->next : h->taken;
        slot *s = &h->slot[i % h->slots];
        if (i >= h->n)
            break;
        if (i - h->taken < h->slots && s->state == FREE)
            read_into(h, s, i);
        else
            (void)pthread_cond_wait(&h->moved, &h->lock);
    }
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* True: sample i was read ahead, and *s has it; the slot keeps the other arena. */
static bool take_ready(qg_ahead *h, size_t i, qg_sample *s)
{
    slot *from = &h->slot[i % h->slots];
    (void)pthread_mutex_lock(&h->lock);
    if (h->taken <= i)
        h->taken = i + 1;
    while (from->state == READING && from->index == i)
        (void)pthread_cond_wait(&h->moved, &h->lock);
    bool ready = from->state == READY && from->index == i;
    if (ready) {
        qg_sample other = *s;
        *s = from->sample;
        from->sample = other;
        from->state = FREE;
    }
    (void)pthread_cond_broadcast(&h->moved);
    (void)pthread_mutex_unlock(&h->lock);
    return ready;
}

qg_status qg_ahead_take(qg_ahead *h, qg_ctx *ctx, size_t i, qg_sample *s)
{
    assert(i < h->n && s->arena);
    return h->ctx && take_ready(h, i, s) ? QG_OK : fetch(h, ctx, i, s);
}

/* Slots and their arenas; freed by qg_ahead_close, however far we come. */
static qg_status make_slots(qg_ctx *ctx, qg_ahead *h, unsigned slots)
{
    h->slot = QG_NEWN(h->arena, slots, slot);
    if (!h->slot)
        return qg_nomem(ctx);
    for (; h->slots < slots; h->slots++)
        if (!(h->slot[h->slots].sample.arena = qg_arena_new(ctx->alloc)))
            return qg_nomem(ctx);
    return QG_OK;
}

/* Without a thread the workers read. */
static qg_status start(qg_ctx *ctx, qg_ahead *h)
{
    h->ctx = qg_ctx_fork(ctx);
    if (!h->ctx)
        return qg_nomem(ctx);
    if (pthread_create(&h->reader, NULL, read_on, h) != 0) {
        qg_ctx_free(h->ctx);
        h->ctx = NULL;
    }
    return QG_OK;
}

qg_status qg_ahead_open(qg_ctx *ctx, const qg_feed *feed, size_t n, size_t inputs,
                        unsigned slots, qg_ahead **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_ahead *h = a ? QG_NEW(a, qg_ahead) : NULL;
    if (!h) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *h = (qg_ahead){ .feed = feed, .n = n, .inputs = inputs, .arena = a };
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->moved, NULL);
    if (slots > MOST_SLOTS)
        slots = MOST_SLOTS;
    qg_status s = slots ? make_slots(ctx, h, slots) : QG_OK;
    if (s == QG_OK && slots)
        s = start(ctx, h);
    if (s == QG_OK)
        *out = h;
    else
        qg_ahead_close(h);
    return s;
}

void qg_ahead_close(qg_ahead *h)
{
    if (!h)
        return;
    if (h->ctx) {
        (void)pthread_mutex_lock(&h->lock);
        h->stop = true;
        (void)pthread_cond_broadcast(&h->moved);
        (void)pthread_mutex_unlock(&h->lock);
        (void)pthread_join(h->reader, NULL);
        qg_ctx_free(h->ctx);
    }
    for (size_t k = 0; k < h->slots; k++)
        qg_arena_free(h->slot[k].sample.arena);
    (void)pthread_cond_destroy(&h->moved);
    (void)pthread_mutex_destroy(&h->lock);
    qg_arena_free(h->arena);
}

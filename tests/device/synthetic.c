/* SPDX-License-Identifier: GPL-3.0-or-later */
/* synthetic.c - times the engine on random weights of a model's shape: no file is needed.
 *
 *   synthetic [--backend cuda|cpu] [--numerics NAME] [--shape NAME] [--layers N]
 *             [--tokens A,B,...] [--keep N] [--steps N] [--wave N] [--seed N]
 *
 * Weights are bf16, close to normal with deviation 0.02, slices of one block of random
 * numbers at different offsets: what is timed depends on their number and on their being
 * no zeros (a card draws less on zeros), not on what they say. Each length is prefilled,
 * decoded from in full, evicted to N entries a KV head by knorm and by snapkv, and
 * decoded from again, alone and as a wave. Decode times are medians over the steps after
 * WARM others.
 *
 * Standard output has one JSON object a line, complete as soon as it stands there:
 *   {"model": ...}                                     once
 *   {"measure": NAME, "tokens", "entries", "sessions", "seconds", "bytes", "flop"}
 *       bytes and flop: what the work cannot do without, for the roofline
 *   {"memory": NAME, "tokens", "held", "committed", "alloc", "live"}
 *       held: what the device (cpu: the system) says is in use; the rest the store's
 * books Exit 0; 1 when something failed; 2 on misuse; 3 without a device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/model_impl.h"
#ifdef KVA_CUDA
#include "kernels/cuda/cuda.h"
#endif

enum { WARM = 8, MAX_STEPS = 256, MAX_WAVE = 64, MAX_LENGTHS = 8 };

struct shape {
    const char *name;
    int layers, dim, heads, kv_heads, head_dim, ffn, vocab, ctx;
    double theta;
};
static const struct shape shapes[] = {
    {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 1 << 20, 500000},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 1 << 20, 100000},
    {"toy", 2, 128, 4, 2, 64, 192, 512, 1 << 20, 10000},
};

struct options {
    const char *backend, *numerics;
    struct shape shape;
    int tokens[MAX_LENGTHS], n_tokens, keep, steps, wave;
    uint64_t seed;
};

static struct kva_model *model;
static uint16_t *block; /* the random numbers all weights are slices of */

static void stop(const char *what, const struct kva_error *err)
{
    (void)fflush(stdout);
    fprintf(stderr, "synthetic: %s%s%s\n", what, err && err->text[0] ? ": " : "",
            err ? err->text : "");
    exit(1);
}

static double now(void)
{
    struct kva_error err = {0};

    if (model->ops->sync(model->ops, &err) != KVA_OK)
        stop("waiting for the device", &err);
    return 1e-9 * (double)kva_now_ns();
}

/* ---- the model ---- */

static uint16_t bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Four uniform numbers of 16 bits, centred, summed: variance 4/12, close to normal. */
static void fill_block(size_t n, uint64_t seed)
{
    struct kva_rng r = {seed};

    block = kva_calloc(n, sizeof *block);
    if (!block)
        stop("out of memory for random numbers", NULL);
    for (size_t i = 0; i < n; i++) {
        uint64_t u = kva_rng_next(&r);
        float sum =
            (float)((u & 0xffff) + (u >> 16 & 0xffff) + (u >> 32 & 0xffff) + (u >> 48)) /
            65536.0f;

        block[i] = bf16((sum - 2.0f) * (0.02f * 1.7320508f));
    }
}

static struct kva_weight *new_weight(int out, int in, size_t slack)
{
    static size_t at;
    struct kva_error err = {0};
    struct kva_weight *w;

    at = (at + 8191 * 16) % slack; /* another slice, 32-byte aligned */
    if (model->ops->weight_new(model->ops, KVA_BF16, block + at, out, in, NULL, &w,
                               &err) != KVA_OK)
        stop("weight", &err);
    return w;
}

static void fill_layer(struct kva_layer *l, const struct shape *sh, size_t slack,
                       const float *ones, const float *inv_freq)
{
    const int q = sh->heads * sh->head_dim, kv = sh->kv_heads * sh->head_dim;

    l->ffn = sh->ffn;
    l->n_rot = sh->head_dim;
    l->inv_freq = inv_freq;
    l->mscale = 1.0f;
    l->attn_norm = l->ffn_norm = ones;
    l->q = new_weight(q, sh->dim, slack);
    l->k = new_weight(kv, sh->dim, slack);
    l->v = new_weight(kv, sh->dim, slack);
    l->o = new_weight(sh->dim, q, slack);
    l->gate = new_weight(sh->ffn, sh->dim, slack);
    l->up = new_weight(sh->ffn, sh->dim, slack);
    l->down = new_weight(sh->dim, sh->ffn, slack);
}

static void fill_arch(struct kva_arch *a, const struct shape *sh, size_t slack,
                      struct kva_error *err)
{
    float *ones = kva_arena_alloc(&a->arena, (size_t)sh->dim, sizeof *ones);
    const float *norm, *inv_freq;

    a->layers = sh->layers;
    a->dim = sh->dim;
    a->heads = sh->heads;
    a->kv_heads = sh->kv_heads;
    a->head_dim = a->v_dim = sh->head_dim;
    a->ffn = sh->ffn;
    a->vocab = sh->vocab;
    a->ctx_train = sh->ctx;
    a->eps = 1e-5f;
    a->score_scale = 1.0f / sqrtf((float)sh->head_dim);
    a->layer = kva_arena_alloc(&a->arena, (size_t)sh->layers, sizeof *a->layer);
    if (!ones || !a->layer)
        stop("out of memory", NULL);
    for (int i = 0; i < sh->dim; i++)
        ones[i] = 1.0f;
    norm = model->ops->constant(model->ops, ones, (size_t)sh->dim);
    if (kva_arch_inv_freq(a, sh->theta, sh->head_dim, 1.0, NULL, &inv_freq, err) !=
        KVA_OK)
        stop("rotation", err);
    a->out_norm = norm;
    a->tok_embd = new_weight(sh->vocab, sh->dim, slack);
    a->lm_head = new_weight(sh->vocab, sh->dim, slack);
    for (int i = 0; i < sh->layers; i++)
        fill_layer(&a->layer[i], sh, slack, norm, inv_freq);
    if (kva_arch_check(a, err) != KVA_OK)
        stop("shape", err);
}

/* Weights that one decode step reads; all but the table of embeddings. */
static double read_elements(const struct shape *sh, bool head)
{
    double q = (double)sh->heads * sh->head_dim, kv = (double)sh->kv_heads * sh->head_dim,
           d = sh->dim;

    return sh->layers * (d * (2 * q + 2 * kv) + 3 * d * sh->ffn) +
           (head ? d * sh->vocab : 0);
}

static void make_model(const struct options *o)
{
    const struct shape *sh = &o->shape;
    const size_t slack = (size_t)1 << 20;
    size_t most = (size_t)sh->vocab * (size_t)sh->dim, ffn = (size_t)sh->ffn;
    struct kva_error err = {0};
    double t;

    model = kva_calloc(1, sizeof *model);
    if (!model)
        stop("out of memory", NULL);
    if (kva_ops_open(o->backend, o->numerics, 1, &model->ops, &err) != KVA_OK) {
        fprintf(stderr, "synthetic: %s\n", err.text);
        exit(err.code == KVA_EUNSUPPORTED ? 3 : 1);
    }
    kva_arch_init(&model->arch, "llama");
    kva_buf_init(&model->file, 0);
    kva_lend_init(model);
    if (ffn * (size_t)sh->dim > most)
        most = ffn * (size_t)sh->dim;
    t = now();
    fill_block(most + slack, o->seed);
    fill_arch(&model->arch, sh, slack, &err);
    t = now() - t;
    printf("{\"model\": {\"shape\": \"%s\", \"layers\": %d, \"backend\": \"%s\", "
           "\"numerics\": \"%s\", \"isa\": \"%s\", \"seed\": %llu, \"weights\": %.0f, "
           "\"seconds\": %.3f}}\n",
           sh->name, sh->layers, o->backend, o->numerics, model->ops->isa,
           (unsigned long long)o->seed, 2 * read_elements(sh, true), t);
    (void)fflush(stdout);
}

/* ---- memory ---- */

/* Bytes in use by another account than ours: the device's, or of the process. */
static double held_bytes(void)
{
    unsigned long long size, resident = 0;
    FILE *f;

#ifdef KVA_CUDA
    if (!model->ops->host) {
        size_t free_bytes = 0, total = 0;

        kva_rt_mem_info(kva_cuda_of(model->ops)->rt, &free_bytes, &total);
        return (double)(total - free_bytes);
    }
#endif
    f = fopen("/proc/self/statm", "re");
    if (f == NULL || fscanf(f, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (f != NULL)
        (void)fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void tell_memory(const char *name, int tokens, struct kva_session *s)
{
    struct kva_kv_bytes b = {0};

    (void)now();
    if (s)
        kva_kvstore_bytes(kva_session_store(s), &b);
    printf("{\"memory\": \"%s\", \"tokens\": %d, \"held\": %.0f, \"committed\": %llu, "
           "\"alloc\": %llu, \"live\": %llu}\n",
           name, tokens, held_bytes(), (unsigned long long)b.committed_bytes,
           (unsigned long long)b.alloc_bytes, (unsigned long long)b.live_bytes);
    (void)fflush(stdout);
}

/* ---- measures ---- */

struct work {
    int tokens, entries, sessions;
    double seconds, bytes, flop;
};

static void tell(const char *name, const struct work *w)
{
    printf("{\"measure\": \"%s\", \"tokens\": %d, \"entries\": %d, \"sessions\": %d, "
           "\"seconds\": %.9f, \"bytes\": %.0f, \"flop\": %.0f}\n",
           name, w->tokens, w->entries, w->sessions, w->seconds, w->bytes, w->flop);
    (void)fflush(stdout);
}

static struct kva_session *new_session(const struct shape *sh, int tokens, int window)
{
    struct kva_session_opts so = {
        .kv = KVA_F16, .mode = KVA_KV_PHYSICAL, .q_window = window};
    struct kva_error err = {0};
    struct kva_session *s;

    so.page_cap = (size_t)sh->layers * (size_t)sh->kv_heads *
                  (size_t)((tokens + KVA_PAGE - 1) / KVA_PAGE + 1);
    if (kva_session_new(model, &so, &s, &err) != KVA_OK)
        stop("session", &err);
    return s;
}

static void prefill(const struct options *o, struct kva_session *s, int n, bool say,
                    struct kva_row *last)
{
    const struct shape *sh = &o->shape;
    int32_t *ids = kva_calloc((size_t)n, sizeof *ids);
    struct kva_rng r = {o->seed + 1};
    struct kva_error err = {0};
    struct work w = {.tokens = n, .entries = n, .sessions = 1};

    if (!ids)
        stop("out of memory", NULL);
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)kva_rng_below(&r, (uint64_t)sh->vocab);
    w.seconds = now();
    if (kva_prefill(model, s, ids, n, 2048, last, &err) != KVA_OK)
        stop("prefill", &err);
    w.seconds = now() - w.seconds;
    /* weights once, the cache written; products, scores and values of the causal half */
    w.bytes = 2 * read_elements(sh, true) +
              (double)n * sh->layers * sh->kv_heads * sh->head_dim * 4.0;
    w.flop = 2 * read_elements(sh, false) * n + 2.0 * sh->dim * sh->vocab +
             4.0 * sh->layers * sh->heads * sh->head_dim * (0.5 * n * (n + 1.0));
    if (say)
        tell("prefill", &w);
    free(ids);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Greedy steps of n sessions that hold `entries`; they are rewound behind them. */
static void decode(const struct options *o, const char *name, struct kva_row *rows, int n,
                   int entries)
{
    const struct shape *sh = &o->shape;
    struct kva_error err = {0};
    struct work w = {
        .tokens = kva_session_seen(rows[0].session), .entries = entries, .sessions = n};
    double t[MAX_STEPS];

    for (int k = 0; k < WARM + o->steps; k++) {
        for (int i = 0; i < n; i++)
            rows[i] = (struct kva_row){.session = rows[i].session,
                                       .token = rows[i].argmax,
                                       .logits = true,
                                       .target = -1};
        double from = now();

        if (kva_step(model, rows, n, NULL, &err) != KVA_OK)
            stop(name, &err);
        if (k >= WARM)
            t[k - WARM] = now() - from;
        for (int i = 0; i < n; i++)
            if (kva_session_error(rows[i].session)->code != KVA_OK)
                stop(name, kva_session_error(rows[i].session));
    }
    for (int i = 0; i < n; i++)
        if (kva_session_rewind(rows[i].session, w.tokens, &err) != KVA_OK)
            stop(name, &err);
    qsort(t, (size_t)o->steps, sizeof t[0], by_value);
    w.seconds = t[o->steps / 2];
    w.bytes = 2 * read_elements(sh, true) +
              (double)n * entries * sh->layers * sh->kv_heads * sh->head_dim * 4.0;
    w.flop = n * (2 * read_elements(sh, true) +
                  4.0 * sh->layers * sh->heads * sh->head_dim * (double)entries);
    tell(name, &w);
}

/* Score, select and keep N entries a KV head, memory given back. */
static void evict(const struct options *o, const char *method, struct kva_session *s)
{
    const struct shape *sh = &o->shape;
    const struct kva_schedule once = {0};
    const double row = 2.0 * sh->head_dim, heads = (double)sh->layers * sh->kv_heads;
    struct kva_method m = {0};
    struct kva_decide_in in = {.seed = o->seed};
    struct kva_scores scores = {0};
    struct kva_decision d = {0};
    struct kva_error err = {0};
    struct work w = {.tokens = kva_session_seen(s), .entries = o->keep, .sessions = 1};
    double total = heads * o->keep, t0, t1, t2, t3;
    char name[96];

    if (kva_method_parse(method, &once, &m, &err) != KVA_OK)
        stop(method, &err);
    kva_session_decide_in(s, &in);
    t0 = now();
    if (kva_method_score(&m, &in, &scores, NULL, &err) != KVA_OK)
        stop(method, &err);
    t1 = now();
    if (kva_method_decide(&m, &in, &scores, (uint64_t)total, &d, NULL, &err) != KVA_OK)
        stop(method, &err);
    t2 = now();
    tell_memory("full", w.tokens, s);
    t3 = now();
    if (kva_session_keep(s, &d.keep, &err) != KVA_OK ||
        kva_kvstore_trim(kva_session_store(s), &err) != KVA_OK)
        stop(method, &err);
    w.seconds = now() - t3;
    tell_memory("evicted", w.tokens, s);
    w.bytes = 2.0 * total * 2.0 * row;
    snprintf(name, sizeof name, "keep and trim, %s", method);
    tell(name, &w);
    w.seconds = t1 - t0;
    w.bytes = heads * w.tokens * row;
    snprintf(name, sizeof name, "score, %s", method);
    tell(name, &w);
    w.seconds = t2 - t1;
    w.bytes = heads * w.tokens * 4.0;
    snprintf(name, sizeof name, "select, %s", method);
    tell(name, &w);
    kva_decision_release(&d);
    kva_scores_release(&scores);
    kva_method_release(&m);
}

static void wave(const struct options *o, struct kva_session *s)
{
    const struct shape *sh = &o->shape;
    struct kva_session_opts so = {.kv = KVA_F16, .mode = KVA_KV_PHYSICAL};
    struct kva_row rows[MAX_WAVE];
    struct kva_error err = {0};

    so.page_cap = (size_t)sh->layers * (size_t)sh->kv_heads *
                  (size_t)((o->keep + WARM + o->steps) / KVA_PAGE + 2);
    for (int i = 0; i < o->wave; i++) {
        rows[i] = (struct kva_row){.argmax = i + 1};
        if (kva_session_fork(s, NULL, &so, &rows[i].session, &err) != KVA_OK)
            stop("fork", &err);
    }
    decode(o, "decode, wave", rows, o->wave, o->keep);
    for (int i = 0; i < o->wave; i++)
        kva_session_free(rows[i].session);
}

static void one_length(const struct options *o, int n)
{
    static const char *const methods[] = {"knorm", "snapkv"};

    tell_memory("before", n, NULL);
    for (int i = 0; i < 2; i++) {
        struct kva_session *s = new_session(&o->shape, n + WARM + o->steps, 64);
        struct kva_row last = {.session = s};

        prefill(o, s, n, true, &last);
        tell_memory("prefilled", n, s);
        last.session = s;
        if (i == 0)
            decode(o, "decode", &last, 1, n);
        if (o->keep < n) {
            evict(o, methods[i], s);
            decode(o, "decode, evicted", &last, 1, o->keep);
            if (i == 0 && o->wave > 1)
                wave(o, s);
        }
        kva_session_free(s);
        tell_memory("freed", n, NULL);
    }
}

/* ---- the command line ---- */

static int number(const char *text, int least, int most, const char *name)
{
    int64_t v;

    if (!kva_parse_i64(text, &v) || v < least || v > most) {
        fprintf(stderr, "synthetic: %s wants a number from %d to %d, not \"%s\"\n", name,
                least, most, text);
        exit(2);
    }
    return (int)v;
}

static void set_shape(struct options *o, const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, name) == 0) {
            o->shape = shapes[i];
            return;
        }
    fprintf(stderr, "synthetic: no shape \"%s\"\n", name);
    exit(2);
}

static void set_lengths(struct options *o, const char *list)
{
    char text[128], *save = NULL;

    snprintf(text, sizeof text, "%s", list);
    o->n_tokens = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (o->n_tokens == MAX_LENGTHS) {
            fprintf(stderr, "synthetic: more than %d lengths\n", MAX_LENGTHS);
            exit(2);
        }
        o->tokens[o->n_tokens++] = number(p, 1, 1 << 19, "--tokens");
    }
}

static void set(struct options *o, const char *key, const char *value, int *layers)
{
    if (strcmp(key, "--backend") == 0)
        o->backend = value;
    else if (strcmp(key, "--numerics") == 0)
        o->numerics = value;
    else if (strcmp(key, "--shape") == 0)
        set_shape(o, value);
    else if (strcmp(key, "--layers") == 0)
        *layers = number(value, 1, KVA_MAX_LAYERS, key);
    else if (strcmp(key, "--tokens") == 0)
        set_lengths(o, value);
    else if (strcmp(key, "--keep") == 0)
        o->keep = number(value, 1, 1 << 19, key);
    else if (strcmp(key, "--steps") == 0)
        o->steps = number(value, 1, MAX_STEPS - WARM, key);
    else if (strcmp(key, "--wave") == 0)
        o->wave = number(value, 1, MAX_WAVE, key);
    else if (strcmp(key, "--seed") == 0)
        o->seed = (uint64_t)number(value, 0, INT32_MAX, key);
    else {
        fprintf(stderr, "synthetic: no option %s\n", key);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = {.backend = "cuda",
                        .numerics = "f32",
                        .shape = shapes[0],
                        .tokens = {4096, 32768},
                        .n_tokens = 2,
                        .keep = 2048,
                        .steps = 64,
                        .wave = 8,
                        .seed = 1};
    int layers = 0;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            fprintf(stderr, "synthetic: %s without a value\n", argv[i]);
            return 2;
        }
        set(&o, argv[i], argv[i + 1], &layers);
    }
    if (layers)
        o.shape.layers = layers;
    make_model(&o);
    {
        struct kva_session *s = new_session(&o.shape, 512, 0);

        prefill(&o, s, 512, false, NULL); /* first launches, choices of the library */
        kva_session_free(s);
    }
    for (int i = 0; i < o.n_tokens; i++)
        one_length(&o, o.tokens[i]);
    printf("{\"done\": true}\n");
    kva_model_close(model);
    free(block); /* a backend may have pointed at it */
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bench_engine.c - times the engine on a real model, one command a line.
 *
 *   bench_engine MODEL TEXT [THREADS [cpu]]
 *
 * `cpu` takes processor time instead of wall time: for a look on a busy machine, one
 * thread.
 *
 * Reads commands from standard input and answers each with `key value` lines and an empty
 * line. A process that stays lets a peer be measured in between, in the order A B B A.
 *
 *   info            model, instruction set, threads
 *   ids N           the first N token ids of TEXT
 *   prefill N       a fresh session takes N tokens in chunks of KVA_CHUNK rows
 *   decode K        K greedy steps behind that prefill, after WARM unmeasured ones; the
 * session is rewound, so that the next command finds it as it was wave S K        K steps
 * of S sessions, each with its own 128 random entries of a prompt of 512 tokens per KV
 * head peak            register loop of fused multiply-adds product M       the seven
 * linear layers of four layers, M rows profile N K     where the time of prefill and of K
 * decode steps goes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/cpu.h"
#include "models/model_impl.h"

#define WARM         8    /* unmeasured decode steps */
#define MAX_TOKENS   8192 /* ids taken from the text */
#define WAVE         48   /* most sessions of a wave */
#define WAVE_PROMPT  512
#define WAVE_ENTRIES 128
#define MAX_STEPS    256
#define RUNS         5 /* best of, for peaks and products */

struct bench {
    struct kva_model *m;
    struct kva_tokens ids;
    struct kva_session *s; /* the last prefill */
    struct kva_row last;
    struct kva_session *wave[WAVE];
    const char *text_path;
};

static clockid_t clock_used = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;

    clock_gettime(clock_used, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const char *what, const struct kva_error *err)
{
    fprintf(stderr, "bench_engine: %s%s%s\n", what, err && err->text[0] ? ": " : "",
            err ? err->text : "");
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- text ---- */

static void read_ids(struct bench *b, const char *path)
{
    struct kva_tokenizer *tok;
    struct kva_error err = {0};
    size_t cap = (size_t)MAX_TOKENS * 8, n;
    char *text = malloc(cap);
    FILE *f = fopen(path, "re");

    if (!f || !text)
        stop("cannot read the text", NULL);
    n = fread(text, 1, cap, f);
    (void)fclose(f);
    if (kva_tokenizer_clone(kva_model_tokenizer(b->m), &tok, &err) != KVA_OK ||
        kva_tokenizer_encode(tok, text, n, false, &b->ids, &err) != KVA_OK)
        stop("cannot encode the text", &err);
    kva_tokenizer_free(tok);
    free(text);
}

/* Seconds to encode the whole text, mean of `passes`. */
static double tokenise(const struct bench *b, int passes)
{
    struct kva_tokenizer *tok;
    struct kva_tokens ids = {0};
    struct kva_error err = {0};
    struct kva_buf text;
    double t;

    kva_buf_init(&text, 0);
    if (passes < 1 ||
        kva_read_file(b->text_path, (size_t)1 << 30, &text, &err) != KVA_OK ||
        kva_tokenizer_clone(kva_model_tokenizer(b->m), &tok, &err) != KVA_OK)
        stop("cannot read the text", &err);
    t = now();
    for (int i = 0; i < passes; i++) {
        ids.n = 0;
        if (kva_tokenizer_encode(tok, text.data, text.len, false, &ids, &err) != KVA_OK)
            stop("cannot encode the text", &err);
    }
    t = (now() - t) / passes;
    kva_tokens_release(&ids);
    kva_tokenizer_free(tok);
    kva_buf_release(&text);
    return t;
}

static void tokens_check(const struct bench *b, int n)
{
    if (n < 1 || (size_t)n > b->ids.n || n > MAX_TOKENS)
        stop("a number of tokens that the text does not have", NULL);
}

/* ---- one session ---- */

static struct kva_session *new_session(struct bench *b, int tokens)
{
    const struct kva_model_info *info = kva_model_info(b->m);
    struct kva_session_opts o = {.kv = KVA_F16, .mode = KVA_KV_PHYSICAL};
    struct kva_error err = {0};
    struct kva_session *s;

    o.page_cap =
        (size_t)(info->layers * info->kv_heads) * (size_t)(tokens / KVA_PAGE + 1);
    if (kva_session_new(b->m, &o, &s, &err) != KVA_OK)
        stop("cannot make a session", &err);
    return s;
}

static double prefill(struct bench *b, int n)
{
    struct kva_error err = {0};
    double t;

    tokens_check(b, n);
    kva_session_free(b->s);
    b->s = new_session(b, n + MAX_STEPS);
    t = now();
    if (kva_prefill(b->m, b->s, b->ids.id, n, 0, &b->last, &err) != KVA_OK)
        stop("prefill", &err);
    return now() - t;
}

/* One step of n sessions from rows[]; leaves the next tokens there. */
static double step(struct bench *b, struct kva_row *rows, int n)
{
    struct kva_error err = {0};
    double t;

    for (int i = 0; i < n; i++)
        rows[i] = (struct kva_row){.session = rows[i].session,
                                   .token = rows[i].argmax,
                                   .logits = true,
                                   .target = -1};
    t = now();
    if (kva_step(b->m, rows, n, NULL, &err) != KVA_OK)
        stop("a step", &err);
    t = now() - t;
    for (int i = 0; i < n; i++)
        if (kva_session_error(rows[i].session)->code != KVA_OK)
            stop("a session failed", kva_session_error(rows[i].session));
    return t;
}

/* Median seconds of a step; sessions are rewound. */
static double steps(struct bench *b, struct kva_row *rows, int n, int warm, int k)
{
    double t[MAX_STEPS];
    int32_t seen[WAVE];

    if (k < 1 || warm + k > MAX_STEPS)
        stop("a number of steps outside 1..240", NULL);
    for (int i = 0; i < n; i++)
        seen[i] = kva_session_seen(rows[i].session);
    for (int i = 0; i < warm + k; i++) {
        double s = step(b, rows, n);

        if (i >= warm)
            t[i - warm] = s;
    }
    for (int i = 0; i < n; i++)
        if (kva_session_rewind(rows[i].session, seen[i], NULL) != KVA_OK)
            stop("cannot rewind", NULL);
    return median(t, k);
}

static double decode(struct bench *b, int k)
{
    struct kva_row row = b->last;

    if (!b->s)
        stop("decode without a prefill", NULL);
    return steps(b, &row, 1, WARM, k);
}

/* ---- waves ---- */

static void random_keep(struct kva_rng *r, const struct kva_model_info *info,
                        struct kva_keep *keep)
{
    size_t heads = (size_t)(info->layers * info->kv_heads);

    keep->layers = info->layers;
    keep->kv_heads = info->kv_heads;
    keep->rank = kva_calloc(heads * WAVE_ENTRIES, sizeof *keep->rank);
    keep->off = kva_calloc(heads + 1, sizeof *keep->off);
    if (!keep->rank || !keep->off)
        stop("out of memory", NULL);
    for (size_t c = 0; c < heads; c++) {
        size_t at = c * WAVE_ENTRIES, n = 0;

        /* of the j entries left take each with the chance that fills the list */
        for (int j = WAVE_PROMPT; j > 0 && n < WAVE_ENTRIES; j--)
            if (kva_rng_below(r, (uint64_t)j) < WAVE_ENTRIES - n)
                keep->rank[at + n++] = WAVE_PROMPT - j;
        keep->off[c + 1] = at + n;
    }
}

static void wave_make(struct bench *b)
{
    const struct kva_model_info *info = kva_model_info(b->m);
    struct kva_session_opts o = {.kv = KVA_F16, .mode = KVA_KV_PHYSICAL};
    struct kva_rng r = {7};

    (void)prefill(b, WAVE_PROMPT);
    o.page_cap = (size_t)(info->layers * info->kv_heads) *
                 ((WAVE_ENTRIES + MAX_STEPS) / KVA_PAGE + 1);
    for (int i = 0; i < WAVE; i++) {
        struct kva_keep keep = {0};
        struct kva_error err = {0};

        random_keep(&r, info, &keep);
        if (kva_session_fork(b->s, &keep, &o, &b->wave[i], &err) != KVA_OK)
            stop("cannot fork", &err);
        kva_keep_release(&keep);
    }
}

static double wave(struct bench *b, int n, int k)
{
    struct kva_row rows[WAVE];

    if (n < 1 || n > WAVE)
        stop("a wave of 1 to 48 sessions", NULL);
    if (!b->wave[0])
        wave_make(b);
    for (int i = 0; i < n; i++) /* different first tokens */
        rows[i] = (struct kva_row){.session = b->wave[i], .argmax = b->ids.id[i]};
    return steps(b, rows, n, WARM / 2, k);
}

/* ---- products ---- */

static double peak_gflops(const struct bench *b)
{
    const struct kva_cpu_kernels *k =
        ((const struct kva_cpu *)kva_model_ops(b->m)->impl)->k;
    const long loops = 2000000;
    volatile double sink = 0;
    double best = 0;

    for (int i = 0; i < RUNS; i++) {
        double t = now();

        sink = sink + k->peak(loops);
        t = (double)loops * k->peak_flops / (now() - t) * 1e-9;
        best = t > best ? t : best;
    }
    return best;
}

static double product_gflops(struct bench *b, int rows)
{
    const struct kva_arch *a = &b->m->arch;
    struct kva_ops *ops = b->m->ops;
    size_t n = (size_t)rows * (size_t)(a->ffn + a->dim);
    float *x = kva_aligned(n * sizeof *x), *y = kva_aligned(n * sizeof *y);
    struct kva_rng r = {3};
    double best = 0;

    if (!x || !y)
        stop("out of memory", NULL);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(kva_rng_unit(&r) - 0.5);
    for (int run = 0; run < RUNS; run++) {
        double flop = 0, t = now();

        for (int l = 0; l < 4 && l < a->layers; l++) {
            const struct kva_layer *la = &a->layer[l];
            const struct kva_weight *w[7] = {la->q,    la->k,  la->v,   la->o,
                                             la->gate, la->up, la->down};

            for (int i = 0; i < 7; i++) {
                ops->matmul(ops, w[i], x, rows, y, w[i]->out);
                flop += 2.0 * w[i]->out * w[i]->in * rows;
            }
        }
        t = flop / (now() - t) * 1e-9;
        best = t > best ? t : best;
    }
    free(x);
    free(y);
    return best;
}

/* ---- profile: the backend's table with a clock around each entry ---- */

enum part { MATMUL, HEAD, ATTEND, NORM, ROPE, SILU, ADD, EMBED, STATS, PARTS };
static const char *const part_name[PARTS] = {"layers", "head", "attend", "norm", "rope",
                                             "silu",   "add",  "embed",  "stats"};
static struct kva_ops plain; /* the table as it was */
static double spent[PARTS];

static void timed_matmul(struct kva_ops *o, const struct kva_weight *w, const float *x,
                         int rows, float *y, int ys)
{
    double t = now();

    plain.matmul(o, w, x, rows, y, ys);
    spent[w->out > 16384 ? HEAD : MATMUL] += now() - t;
}

static void timed_attend(struct kva_ops *o, const struct kva_attn *a, int n)
{
    double t = now();

    plain.attend(o, a, n);
    spent[ATTEND] += now() - t;
}

static void timed_rmsnorm(struct kva_ops *o, const float *x, const float *w, float eps,
                          int rows, int dim, float *y)
{
    double t = now();

    plain.rmsnorm(o, x, w, eps, rows, dim, y);
    spent[NORM] += now() - t;
}

static void timed_rope_table(struct kva_ops *o, const int32_t *pos, int rows,
                             const float *inv_freq, int half, float mscale, float *cs)
{
    double t = now();

    plain.rope_table(o, pos, rows, inv_freq, half, mscale, cs);
    spent[ROPE] += now() - t;
}

static void timed_rope(struct kva_ops *o, float *x, int stride, int rows, int heads,
                       int dim, const float *cs, int half)
{
    double t = now();

    plain.rope(o, x, stride, rows, heads, dim, cs, half);
    spent[ROPE] += now() - t;
}

static void timed_silu(struct kva_ops *o, const float *g, const float *u, size_t n,
                       float *y)
{
    double t = now();

    plain.silu_mul(o, g, u, n, y);
    spent[SILU] += now() - t;
}

static void timed_add(struct kva_ops *o, float *x, const float *y, size_t n)
{
    double t = now();

    plain.add(o, x, y, n);
    spent[ADD] += now() - t;
}

static void timed_embed(struct kva_ops *o, const struct kva_weight *w, const int32_t *ids,
                        int rows, float scale, float *x)
{
    double t = now();

    plain.embed(o, w, ids, rows, scale, x);
    spent[EMBED] += now() - t;
}

static void timed_stats(struct kva_ops *o, const float *logits, int n, int rows,
                        const int32_t *target, int32_t *argmax, double *nll, bool *finite)
{
    double t = now();

    plain.logits_stats(o, logits, n, rows, target, argmax, nll, finite);
    spent[STATS] += now() - t;
}

static void print_profile(const char *what, double total)
{
    double rest = total;

    printf("%s_s %.4f\n", what, total);
    for (int i = 0; i < PARTS; i++) {
        printf("%s_%s %.4f\n", what, part_name[i], spent[i] / total);
        rest -= spent[i];
        spent[i] = 0;
    }
    printf("%s_rest %.4f\n", what, rest / total);
}

/* Runs `what` a b with the clocks on. */
static void profile(struct bench *b, const char *what, int n, int k)
{
    struct kva_ops *o = b->m->ops;
    bool is_wave = strcmp(what, "wave") == 0, is_decode = strcmp(what, "decode") == 0;
    double t;

    if (is_wave && !b->wave[0])
        wave_make(b);
    plain = *o;
    o->matmul = timed_matmul;
    o->attend = timed_attend;
    o->rmsnorm = timed_rmsnorm;
    o->rope_table = timed_rope_table;
    o->rope = timed_rope;
    o->silu_mul = timed_silu;
    o->add = timed_add;
    o->embed = timed_embed;
    o->logits_stats = timed_stats;
    t = now();
    if (is_wave)
        (void)wave(b, n, k);
    else if (is_decode)
        (void)decode(b, n);
    else
        (void)prefill(b, n);
    print_profile(what, now() - t);
    *o = plain;
}

/* ---- commands ---- */

/* Floating-point operations of the products of one token, output head included. */
static double token_flop(const struct kva_arch *a)
{
    double n = (double)a->lm_head->out * a->lm_head->in;

    for (int i = 0; i < a->layers; i++) {
        const struct kva_layer *l = &a->layer[i];
        const struct kva_weight *w[7] = {l->q, l->k, l->v, l->o, l->gate, l->up, l->down};

        for (int j = 0; j < 7; j++)
            n += (double)w[j]->out * w[j]->in;
    }
    return 2.0 * n;
}

static void info(const struct bench *b)
{
    const struct kva_model_info *i = kva_model_info(b->m);

    printf("model %s\nisa %s\nthreads %d\nweights %s\nweight_bytes %llu\n"
           "token_gflop %.4f\n",
           i->name, b->m->ops->isa, b->m->ops->threads, i->wtype,
           (unsigned long long)i->weight_bytes, token_flop(&b->m->arch) * 1e-9);
}

static void command(struct bench *b, char *line)
{
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    const char *a1 = strtok_r(NULL, " \n", &save), *a2 = strtok_r(NULL, " \n", &save);
    const char *a3 = strtok_r(NULL, " \n", &save);
    int n1 = a1 ? (int)strtol(a1, NULL, 10) : 0;
    int n2 = a2 ? (int)strtol(a2, NULL, 10) : 0;

    if (!word)
        return;
    if (strcmp(word, "info") == 0) {
        info(b);
    } else if (strcmp(word, "ids") == 0) {
        tokens_check(b, n1);
        printf("ids");
        for (int i = 0; i < n1; i++)
            printf(" %d", b->ids.id[i]);
        printf("\n");
    } else if (strcmp(word, "tokenise") == 0) {
        printf("seconds %.6f\n", tokenise(b, n1));
    } else if (strcmp(word, "prefill") == 0) {
        printf("seconds %.6f\n", prefill(b, n1));
    } else if (strcmp(word, "decode") == 0) {
        printf("seconds %.6f\n", decode(b, n1));
    } else if (strcmp(word, "wave") == 0) {
        printf("seconds %.6f\n", wave(b, n1, n2));
    } else if (strcmp(word, "peak") == 0) {
        printf("gflops %.1f\n", peak_gflops(b));
    } else if (strcmp(word, "product") == 0 && n1 > 0) {
        printf("gflops %.1f\n", product_gflops(b, n1));
    } else if (strcmp(word, "profile") == 0) {
        n1 = a2 ? (int)strtol(a2, NULL, 10) : 0;
        profile(b, a1 ? a1 : "prefill", n1, a3 ? (int)strtol(a3, NULL, 10) : 0);
    } else {
        stop("unknown command", NULL);
    }
    printf("\n");
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct kva_model_opts o = {.numerics = "f32", .threads = 1};
    struct kva_error err = {0};
    struct bench b = {0};
    char line[256];

    if (argc < 3) {
        fprintf(stderr, "usage: bench_engine MODEL TEXT [THREADS [cpu]] < commands\n");
        return 2;
    }
    if (argc > 3)
        o.threads = (int)strtol(argv[3], NULL, 10);
    if (argc > 4 && strcmp(argv[4], "cpu") == 0)
        clock_used = CLOCK_PROCESS_CPUTIME_ID;
    if (kva_model_open(argv[1], &o, &b.m, &err) != KVA_OK)
        stop("cannot open the model", &err);
    b.text_path = argv[2];
    read_ids(&b, argv[2]);
    while (fgets(line, sizeof line, stdin))
        command(&b, line);
    for (int i = 0; i < WAVE; i++)
        kva_session_free(b.wave[i]);
    kva_session_free(b.s);
    kva_tokens_release(&b.ids);
    kva_model_close(b.m);
    return 0;
}

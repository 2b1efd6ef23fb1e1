/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_analyze.c - `kvaudit analyze KIND MODEL`: measures a model once and writes what
 * methods read as a file. */
#include "models/calibrate.h"
#include "runner/commands.h"
#include "runner/plan.h"
#include "tasks/task.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *out, *text, *numerics;
    int sequences, length, rows, threads;
} opt = {.numerics = "f32", .threads = 1};

const struct kva_opt *kva_cmd_analyze_options(void)
{
    static const struct kva_opt table[] = {
        {"out", 'o', KVA_OPT_STR, &opt.out, "FILE", "the file to write", 0, 0},
        {"text", 0, KVA_OPT_STR, &opt.text, "FILE",
         "calibration text (default: the essays the program carries)", 0, 0},
        {"sequences", 0, KVA_OPT_INT, &opt.sequences, "N",
         "pieces of the text that are read (default 20)", 1, 1 << 20},
        {"length", 0, KVA_OPT_INT, &opt.length, "L", "tokens of a piece (default 2048)",
         1, 1 << 24},
        {"rows", 0, KVA_OPT_INT, &opt.rows, "N",
         "qfilter: queries of each head (default 150 a piece)", 1, 1 << 24},
        {"numerics", 0, KVA_OPT_STR, &opt.numerics, "T", "f32 (default) or ref", 0, 0},
        {"threads", 0, KVA_OPT_INT, &opt.threads, "N", "threads of a step (default 1)", 1,
         64},
        {0},
    };

    return table;
}

static enum kva_status open_model(const char *id, struct kva_model **m,
                                  struct kva_error *err)
{
    struct kva_arena arena;
    struct kva_model_opts opts = {.numerics = opt.numerics, .threads = opt.threads};
    char *path, *chat = NULL;
    enum kva_status rc;

    kva_arena_init(&arena);
    rc = kva_models_resolve(id, NULL, &path, &chat, &arena, err);
    opts.chat = chat;
    if (rc == KVA_OK)
        rc = kva_model_open(path, &opts, m, err);
    kva_arena_release(&arena);
    return rc;
}

/* The text in valid UTF-8, and where it is from for the file's "made". */
static enum kva_status load_text(struct kva_buf *text, char made[256],
                                 struct kva_error *err)
{
    struct kva_buf own;
    const char *bytes;
    uint8_t digest[32];
    char sha[65];
    size_t n;
    enum kva_status rc;

    kva_buf_init(&own, 0);
    if (opt.text != NULL) {
        KVA_GO(kva_read_file(opt.text, (size_t)1 << 30, &own, err));
        bytes = own.data != NULL ? own.data : "";
        n = own.len;
        kva_sha256_of(bytes, n, digest);
        kva_hex(digest, sizeof digest, sha);
    } else {
        KVA_GO(kva_carried_load(NULL, "emerson_essays.txt", &own, &bytes, &n, sha, err));
    }
    (void)kva_utf8_clean(bytes, n, text);
    snprintf(made, 256, "kvaudit %s, text %.12s (%s)", kva_version_commit(), sha,
             opt.text != NULL ? "given" : "Emerson's essays");
    rc = kva_buf_status(text, err);
out:
    kva_buf_release(&own);
    return rc;
}

static void show(void *ctx, int done, int all)
{
    (void)ctx;
    if (!kva_common.quiet)
        kva_log(KVA_LOG_INFO, "sequence %d of %d", done, all);
}

static enum kva_status qfilter(struct kva_model *m, const struct kva_buf *text,
                               char made[256], struct kva_table *t, struct kva_error *err)
{
    struct kva_qfilter_opts q = {.sequences = opt.sequences ? opt.sequences : 20,
                                 .tokens = opt.length ? opt.length : 2048,
                                 .progress = show};
    int share = q.tokens < 150 ? q.tokens : 150;
    size_t at = strlen(made);

    q.rows = opt.rows ? opt.rows : q.sequences * share;
    snprintf(made + at, 256 - at, ", %d sequences of %d tokens, %d queries of each head",
             q.sequences, q.tokens, q.rows);
    return kva_qfilter_calibrate(m, text->data, text->len, &q, t, err);
}

/* Fills the table and adds to `made`. */
static const struct analysis {
    const char *name;
    enum kva_status (*run)(struct kva_model *, const struct kva_buf *text, char made[256],
                           struct kva_table *, struct kva_error *);
} analyses[] = {
    {"qfilter", qfilter},
};

static enum kva_status analyze(const struct analysis *a, const char *model,
                               struct kva_error *err)
{
    struct kva_model *m = NULL;
    struct kva_table t = {.layers = 0};
    struct kva_buf text;
    uint8_t sha[32];
    char hex[65], made[256];
    enum kva_status rc;

    kva_buf_init(&text, 0);
    KVA_GO(load_text(&text, made, err));
    KVA_GO(open_model(model, &m, err));
    KVA_GO(kva_model_sha256(m, sha, err));
    kva_hex(sha, sizeof sha, hex);
    KVA_GO(a->run(m, &text, made, &t, err));
    rc = kva_table_write(opt.out, &t, hex, made, err);
out:
    kva_table_release(&t);
    kva_buf_release(&text);
    if (m != NULL)
        kva_model_close(m);
    return rc;
}

int kva_cmd_analyze(int argc, char **argv)
{
    const size_t n = sizeof analyses / sizeof analyses[0];
    const char *names[sizeof analyses / sizeof analyses[0] + 1] = {NULL}, *near;
    struct kva_error err = {0};

    for (size_t i = 0; i < n; i++)
        names[i] = analyses[i].name;
    if (argc != 2)
        return kva_command_usage("analyze", "%s",
                                 argc < 1   ? "what? known is qfilter"
                                 : argc < 2 ? "which model?"
                                            : "one model at a time");
    if (opt.out == NULL)
        return kva_command_usage("analyze", "--out FILE is needed");
    for (size_t i = 0; i < n; i++)
        if (strcmp(argv[0], names[i]) == 0) {
            kva_command_signals();
            return analyze(&analyses[i], argv[1], &err) == KVA_OK
                       ? 0
                       : kva_command_fail(&err);
        }
    near = kva_nearest(argv[0], names);
    return kva_command_usage(
        "analyze", near ? "unknown kind '%s'; did you mean '%s'?" : "unknown kind '%s'",
        argv[0], near);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_score.c - `kvaudit score METRIC FILE`: predictions that something else made, scored
 * as the official scorers do. */
#include "runner/commands.h"
#include "runner/score.h"
#include "tasks/longbench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct {
    const char *profile, *post, *dataset, *out;
} opt;

const struct kva_opt *kva_cmd_score_options(void)
{
    static const struct kva_opt table[] = {
        {"profile", 0, KVA_OPT_STR, &opt.profile, "official|kvpress",
         "whose post-processing LongBench sets get (default official)", 0, 0},
        {"dataset", 0, KVA_OPT_STR, &opt.dataset, "NAME",
         "LongBench set of lines without \"dataset\"", 0, 0},
        {"post", 0, KVA_OPT_STR, &opt.post, "NAME",
         "this post-processing for all: none, first_line, strip, strip_first_line, "
         "no_control",
         0, 0},
        {"out", 'o', KVA_OPT_STR, &opt.out, "FILE",
         "write the lines there instead of to standard output", 0, 0},
        {0},
    };

    return table;
}

enum { SHOWN = 20 }; /* refused lines that are named one by one */

struct tally {
    double *score; /* of every line; 0 of one that cannot be scored */
    size_t n, cap;
    size_t errors, no_answer;
};

static enum kva_status keep(struct tally *t, double score, struct kva_error *err)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 1024;
        double *grown = kva_realloc(t->score, cap, sizeof grown[0]);

        if (!grown)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory for %zu scores", cap);
        t->score = grown;
        t->cap = cap;
    }
    t->score[t->n++] = score;
    return KVA_OK;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

/* A line that cannot be scored is named and answered, and counts as 0: what is broken
 * must not raise a mean. */
static enum kva_status take(const struct kva_score_opts *opts, const char *path,
                            long number, const char *line, size_t n, struct kva_buf *out,
                            struct tally *t, struct kva_error *err)
{
    struct kva_error why = {0};
    struct kva_scored got;
    enum kva_status rc = kva_score_line(opts, number, line, n, out, &got, &why);

    if (rc == KVA_OK) {
        t->no_answer += got.no_answer;
        return keep(t, got.score, err);
    }
    if (rc != KVA_EFORMAT)
        return KVA_FAIL(err, rc, "%s:%ld: %s", path, number, why.text);
    if (t->errors++ < SHOWN)
        fprintf(stderr, "kvaudit: %s:%ld: %s\n", path, number, why.text);
    return keep(t, 0, err);
}

static enum kva_status score_lines(const struct kva_score_opts *opts, const char *path,
                                   FILE *from, FILE *to, struct tally *t,
                                   struct kva_error *err)
{
    struct kva_buf out;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&out, 0);
    errno = 0;
    for (long number = 1; (n = getline(&line, &room, from)) >= 0; number++) {
        size_t skip = number == 1 && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0;
        const char *s = line + 3 * skip;
        size_t len = (size_t)n - 3 * skip;

        len -= len > 0 && s[len - 1] == '\n';
        if (kva_interrupted)
            break;
        if (is_blank(s, len))
            continue;
        out.len = 0;
        KVA_GO(take(opts, path, number, s, len, &out, t, err));
        if (to && fwrite(out.data, 1, out.len, to) != out.len) {
            rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s",
                          opt.out ? opt.out : "to standard output", strerror(errno));
            goto out;
        }
    }
    if (kva_interrupted)
        rc = KVA_FAIL(err, KVA_EINTERRUPTED, "interrupted after %zu lines", t->n);
    else if (ferror(from) || errno == ENOMEM)
        rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    else if (t->n == 0)
        rc = KVA_FAIL(err, KVA_EINVALID, "%s: no predictions", path);
out:
    free(line);
    kva_buf_release(&out);
    return rc;
}

/* ---- what came out ---- */

static void print_text(const struct kva_metric *m, const struct tally *t,
                       struct kva_interval ci)
{
    if (t->errors > SHOWN)
        fprintf(stderr, "kvaudit: and %zu more\n", t->errors - SHOWN);
    if (t->errors)
        fprintf(stderr, "kvaudit: %zu of %zu lines cannot be scored and count as 0\n",
                t->errors, t->n);
    if (kva_common.quiet)
        return;
    if (t->no_answer)
        fprintf(stderr, "%zu of %zu have no reference and count as 0\n", t->no_answer,
                t->n);
    fprintf(stderr, "%s, version %d: %.2f of 100, 95 %% interval %.2f to %.2f, n = %zu\n",
            m->name, m->version, 100 * kva_stat_mean(t->score, t->n), 100 * ci.lo,
            100 * ci.hi, t->n);
}

static enum kva_status print_json(const struct kva_metric *m, const struct tally *t,
                                  struct kva_interval ci, struct kva_error *err)
{
    json_t *o = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:f, s:[f,f]}", "schema",
                          "kvaudit.score/1", "metric", m->name, "version", m->version,
                          "n", (json_int_t)t->n, "errors", (json_int_t)t->errors,
                          "no_answer", (json_int_t)t->no_answer, "mean",
                          kva_stat_mean(t->score, t->n), "ci95", ci.lo, ci.hi);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    if (!text)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for the summary");
    puts(text);
    free(text);
    return KVA_OK;
}

/* ---- files ---- */

static enum kva_status open_files(const char *path, FILE **from, FILE **to,
                                  struct kva_error *err)
{
    struct stat a, b;

    if (strcmp(path, "-") != 0)
        *from = fopen(path, "rb");
    if (!*from)
        return KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    if (fstat(fileno(*from), &a) == 0 && S_ISDIR(a.st_mode))
        return KVA_FAIL(err, KVA_EIO, "%s: is a directory", path);
    if (!opt.out)
        return KVA_OK;
    if (fstat(fileno(*from), &a) == 0 && S_ISREG(a.st_mode) && stat(opt.out, &b) == 0 &&
        a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return KVA_FAIL(err, KVA_EINVALID, "%s would be written over what is read",
                        opt.out);
    *to = fopen(opt.out, "wb");
    if (!*to)
        return KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", opt.out, strerror(errno));
    return KVA_OK;
}

static enum kva_status score(const struct kva_score_opts *opts, const char *path,
                             struct tally *t, struct kva_error *err)
{
    FILE *from = stdin, *to = kva_common.json ? NULL : stdout;
    struct kva_interval ci;
    enum kva_status rc;

    KVA_GO(open_files(path, &from, &to, err));
    KVA_GO(score_lines(opts, path, from, to, t, err));
    ci = kva_stat_arm(&(struct kva_stratum){"", t->score, NULL, NULL, t->n}, 1);
    print_text(opts->metric, t, ci);
    if (kva_common.json)
        rc = print_json(opts->metric, t, ci, err);
out:
    if (from && from != stdin)
        fclose(from);
    if (to && to != stdout && fclose(to) != 0 && rc == KVA_OK)
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", opt.out, strerror(errno));
    return rc;
}

/* ---- the command line ---- */

static int unknown(const char *what, const char *word, const char *const *known)
{
    const char *near = kva_nearest(word, known);

    return near ? kva_command_usage("score", "unknown %s '%s'; did you mean '%s'?", what,
                                    word, near)
                : kva_command_usage("score", "unknown %s '%s'", what, word);
}

static int unknown_metric(const char *word)
{
    const char *names[64];
    size_t n = 0;

    for (const struct kva_metric *const *m = kva_metrics(); *m && n < 63; m++)
        names[n++] = (*m)->name;
    names[n] = NULL;
    return kva_nearest(word, names)
               ? unknown("metric", word, names)
               : kva_command_usage(
                     "score", "unknown metric '%s'; see 'kvaudit list metrics'", word);
}

static int unknown_dataset(const char *word)
{
    const char *names[KVA_LONGBENCH_SETS + 1];

    for (int i = 0; i < KVA_LONGBENCH_SETS; i++)
        names[i] = kva_longbench_sets[i].name;
    names[KVA_LONGBENCH_SETS] = NULL;
    return unknown("LongBench set", word, names);
}

int kva_cmd_score(int argc, char **argv)
{
    static const char *const profiles[] = {"official", "kvpress", NULL};
    struct kva_score_opts opts = {.post = -1, .dataset = opt.dataset};
    struct tally t = {0};
    struct kva_error err = {0};
    enum kva_status rc;
    bool e;

    if (argc != 2)
        return kva_command_usage("score", argc < 2 ? "which metric and which file?"
                                                   : "one file at a time");
    opts.metric = kva_metric_find(argv[0]);
    if (!opts.metric)
        return unknown_metric(argv[0]);
    if (opt.profile && strcmp(opt.profile, "official") != 0) {
        opts.kvpress = strcmp(opt.profile, "kvpress") == 0;
        if (!opts.kvpress)
            return unknown("profile", opt.profile, profiles);
    }
    if (opt.dataset && !kva_longbench_find(opt.dataset, &e))
        return unknown_dataset(opt.dataset);
    for (int i = 0; opt.post && kva_post_names[i]; i++)
        if (strcmp(kva_post_names[i], opt.post) == 0)
            opts.post = i;
    if (opt.post && opts.post < 0)
        return unknown("post-processing", opt.post, kva_post_names);
    kva_command_signals();
    rc = score(&opts, argv[1], &t, &err);
    free(t.score);
    if (rc != KVA_OK)
        return kva_command_fail(&err);
    return t.errors ? 2 : 0;
}

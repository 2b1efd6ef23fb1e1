/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_compare.c - `kvaudit compare A B`: paired win, tie and loss of two selections. */
#include "runner/cmd_compare.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct kva_compare_args opt;

const struct kva_opt *kva_cmd_compare_options(void)
{
    static const struct kva_opt table[] = {
        {"gate", 0, KVA_OPT_STR, &opt.gate, "FILE",
         "judge B against A by the rules of FILE; exit 1 when one is broken", 0, 0},
        {"match", 0, KVA_OPT_STR, &opt.match, "RULE",
         "nominal: equal budgets; bytes: equal measured bytes (default both)", 0, 0},
        {"ties", 0, KVA_OPT_STR, &opt.ties, "MODE",
         "exact, epsilon or stat: what is a tie (default stat)", 0, 0},
        {"epsilon", 0, KVA_OPT_STR, &opt.epsilon, "E",
         "largest difference that ties under --ties epsilon (default 0.005)", 0, 0},
        {"alpha", 0, KVA_OPT_STR, &opt.alpha, "P",
         "adjusted p below which a difference counts (default 0.05)", 0, 0},
        {"metric", 0, KVA_OPT_STR, &opt.metric, "NAME",
         "score, or gold_nll: nats per token of the right answer (default score)", 0, 0},
        {"missing", 0, KVA_OPT_STR, &opt.missing, "RULE",
         "leave: failed outcomes are missing; zero: they score 0 (default leave)", 0, 0},
        {"format", 'f', KVA_OPT_STR, &opt.format, "FORMAT",
         "text, json, csv or markdown (default text)", 0, 0},
        {"gates", 0, KVA_OPT_STR, &opt.night.gates, "LIST",
         "with --gate: score, time, memory; over the file's \"gates\"", 0, 0},
        {"cell", 0, KVA_OPT_STR, &opt.night.cell, "CELL",
         "with --gate: judge this cell only, by slug or digest", 0, 0},
        {"exact", 0, KVA_OPT_FLAG, &opt.night.exact, NULL,
         "with --gate: changed tokens on the CPU backend fail", 0, 0},
        {"allow-removed", 0, KVA_OPT_FLAG, &opt.night.allow_removed, NULL,
         "with --gate: cells that are no longer measured do not fail", 0, 0},
        {"non-inferiority", 0, KVA_OPT_STR, &opt.night.non_inferiority, "POINTS",
         "with --gate: pass only what is surely not worse by POINTS", 0, 0},
        {"confirm", 0, KVA_OPT_LIST, &opt.night.confirm, "DB",
         "with --gate: measured again; a time fails only if it fails here too; "
         "repeatable",
         0, 0},
        {"pin", 0, KVA_OPT_STR, &opt.night.pin, "NAME",
         "with --gate: a night that passes becomes baseline NAME in the gate file", 0, 0},
        {"force", 0, KVA_OPT_FLAG, &opt.night.force, NULL,
         "with --pin: whatever the verdict", 0, 0},
        {"junit", 0, KVA_OPT_STR, &opt.night.junit, "FILE",
         "with --gate: verdicts as JUnit XML", 0, 0},
        {"github", 0, KVA_OPT_FLAG, &opt.night.github, NULL,
         "with --gate: summary into $GITHUB_STEP_SUMMARY, at most 10 annotations", 0, 0},
        {"history", 0, KVA_OPT_LIST, &opt.night.history, "DB",
         "with --gate: databases of other nights; repeatable", 0, 0},
        {"figures", 0, KVA_OPT_STR, &opt.night.figures, "DIR",
         "with --history: draw the scores of the nights into DIR", 0, 0},
        {"suggest-quarantine", 0, KVA_OPT_FLAG, &opt.night.suggest, NULL,
         "with --history: cells whose verdict keeps flipping", 0, 0},
        {"bisect-step", 0, KVA_OPT_STR, &opt.night.bisect, "CELL",
         "with --gate: what git bisect run calls: build, measure CELL, exit 0 good, 1 "
         "bad, 125 skip",
         0, 0},
        {"repo", 0, KVA_OPT_STR, &opt.night.repo, "DIR",
         "with --gate: where the sources are, for hints and --bisect-step (default here)",
         0, 0},
        {0},
    };

    return table;
}

/* ---- loading ---- */

/* The files of a side: those of its db= conditions, else those of --db. */
static int paths_of(const struct kva_select *s, const char **path)
{
    int n = 0;

    for (int i = 0; i < s->n; i++)
        if (s->term[i].key == KVA_SELECT_DB)
            path[n++] = s->term[i].value;
    for (int i = 0; n == 0 && i < kva_common.db.n; i++)
        path[i] = kva_common.db.v[i];
    if (n == 0)
        n = kva_common.db.n;
    if (n == 0)
        path[n++] = kva_db_default();
    return n;
}

/* Where the words of the sides differ the cells may, too; but for the task: no two tasks
 * have a sample in common. */
static unsigned free_keys(const struct kva_select *a, const struct kva_select *b)
{
    static const struct {
        enum kva_select_key key;
        unsigned bit;
    } same[] = {{KVA_SELECT_MODEL, KVA_COMPARE_MODEL},
                {KVA_SELECT_METHOD, KVA_COMPARE_METHOD},
                {KVA_SELECT_BUDGET, KVA_COMPARE_BUDGET},
                {KVA_SELECT_ENFORCE, KVA_COMPARE_ENFORCE},
                {KVA_SELECT_SCHEDULE, KVA_COMPARE_SCHEDULE},
                {KVA_SELECT_VISIBILITY, KVA_COMPARE_VISIBILITY},
                {KVA_SELECT_NUMERICS, KVA_COMPARE_NUMERICS},
                {KVA_SELECT_KV, KVA_COMPARE_KV},
                {KVA_SELECT_SAMPLING, KVA_COMPARE_SAMPLING}};
    unsigned out = 0;

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (!kva_select_same(a, b, same[i].key))
            out |= same[i].bit;
    return out;
}

static enum kva_status load(const char *const *path, int n, struct kva_data *out,
                            struct kva_error *err)
{
    struct kva_db *db[KVA_SELECT_MAX] = {NULL};
    enum kva_status rc = KVA_OK;

    for (int i = 0; i < n; i++)
        KVA_GO(kva_db_open(path[i], KVA_DB_READ, &db[i], err));
    KVA_GO(kva_data_load(db, n, out, err));
out:
    for (int i = 0; i < n; i++)
        kva_db_close(db[i]);
    return rc;
}

enum kva_status kva_compare_load(const char *a, const char *b,
                                 struct kva_compare_sides *out, struct kva_error *err)
{
    const char *path[2][KVA_SELECT_MAX], *text[2] = {a, b};
    int n[2];

    memset(out, 0, sizeof *out);
    if (kva_common.db.n > KVA_SELECT_MAX)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%d databases, at most %d are compared at once: merge them first",
                        kva_common.db.n, KVA_SELECT_MAX);
    for (int i = 0; i < 2; i++) {
        if (text[i])
            KVA_TRY(kva_select_parse(text[i], &out->select[i], err));
        n[i] = paths_of(&out->select[i], path[i]);
    }
    out->shared = n[0] == n[1];
    for (int i = 0; i < n[0] && out->shared; i++)
        out->shared = strcmp(path[0][i], path[1][i]) == 0;
    for (int i = 0; i < (out->shared ? 1 : 2); i++) {
        KVA_TRY(load(path[i], n[i], &out->data[i], err));
        out->loaded[i] = true;
    }
    out->free = free_keys(&out->select[0], &out->select[1]);
    for (int i = 0; i < 2; i++) {
        struct kva_data *d = &out->data[out->shared ? 0 : i];

        out->mark[2 * i] = kva_calloc((size_t)d->n_cells + 1, sizeof(bool));
        out->mark[2 * i + 1] = kva_calloc((size_t)d->n_runs + 1, sizeof(bool));
        if (!out->mark[2 * i] || !out->mark[2 * i + 1])
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        KVA_TRY(kva_select_apply(&out->select[i], d, out->mark[2 * i],
                                 out->mark[2 * i + 1], err));
        out->side[i] = (struct kva_compare_side){
            .data = d,
            .cell = out->mark[2 * i],
            .run =
                out->select[i].named & 1u << KVA_SELECT_RUN ? out->mark[2 * i + 1] : NULL,
            .label = text[i] ? text[i] : kva_db_default()};
    }
    return KVA_OK;
}

void kva_compare_sides_release(struct kva_compare_sides *s)
{
    for (int i = 0; i < 2; i++) {
        kva_select_release(&s->select[i]);
        if (s->loaded[i])
            kva_data_release(&s->data[i]);
    }
    for (int i = 0; i < 4; i++)
        free(s->mark[i]);
    memset(s, 0, sizeof *s);
}

/* ---- the command ---- */

/* Place of a word in a NULL-terminated list; `def` when it is not given, -1 when it is
 * unknown (and then it has been said). */
static int choice(const char *option, const char *word, const char *const *list, int def)
{
    const char *near;
    int i = 0;

    if (!word)
        return def;
    while (list[i] && strcmp(list[i], word) != 0)
        i++;
    if (list[i])
        return i;
    near = kva_nearest(word, list);
    (void)kva_command_usage("compare", "--%s: unknown '%s'%s%s%s", option, word,
                            near ? "; did you mean '" : "", near ? near : "",
                            near ? "'?" : "");
    return -1;
}

static bool share(const char *option, const char *word, double def, double *out)
{
    *out = def;
    if (!word || (kva_parse_f64(word, out) && *out >= 0 && *out <= 1))
        return true;
    (void)kva_command_usage("compare", "--%s wants a number from 0 to 1, not '%s'",
                            option, word);
    return false;
}

enum { TEXT, JSON, CSV, MARKDOWN };

/* False: something is wrong and has been said. */
static bool options_of(const struct kva_compare_args *args, struct kva_compare_opts *o,
                       int *format)
{
    static const char *const formats[] = {"text", "json", "csv", "markdown", NULL};
    static const char *const matches[] = {"nominal", "bytes", "both", NULL};
    static const char *const ties[] = {"exact", "epsilon", "stat", NULL};
    static const char *const metrics[] = {"score", "gold_nll", NULL};
    static const char *const missing[] = {"leave", "zero", NULL};
    int match = choice("match", args->match, matches, 3);
    int tie = choice("ties", args->ties, ties, KVA_TIE_STAT);
    int metric = choice("metric", args->metric, metrics, 0);
    int left = choice("missing", args->missing, missing, 0);

    memset(o, 0, sizeof *o);
    *format = choice("format", args->format, formats, TEXT);
    if (match < 0 || tie < 0 || metric < 0 || left < 0 || *format < 0 ||
        !share("epsilon", args->epsilon, 0.005, &o->epsilon) ||
        !share("alpha", args->alpha, 0.05, &o->alpha))
        return false;
    if (args->epsilon && tie != KVA_TIE_EPSILON) {
        (void)kva_command_usage("compare", "--epsilon goes with --ties epsilon");
        return false;
    }
    if (kva_common.json)
        *format = JSON;
    o->match = match == 3   ? 0
               : match == 2 ? KVA_COMPARE_NOMINAL | KVA_COMPARE_BYTES
               : match      ? KVA_COMPARE_BYTES
                            : KVA_COMPARE_NOMINAL;
    o->ties = (enum kva_tie_mode)tie;
    o->nats = metric == 1;
    o->missing_zero = left == 1;
    o->list_all = kva_common.verbose || *format != TEXT;
    return true;
}

static void terminal(struct kva_compare_opts *o)
{
    const char *no = getenv("NO_COLOR");
    struct winsize ws;

    if (!isatty(STDOUT_FILENO))
        return;
    o->color = !kva_common.no_color && !(no && no[0]);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
        o->width = ws.ws_col;
}

static enum kva_status print(const struct kva_report *r, int format,
                             struct kva_error *err)
{
    enum kva_status rc;
    struct kva_buf out;

    kva_buf_init(&out, 0);
    KVA_GO(format == JSON       ? kva_compare_json(r, &out, err)
           : format == CSV      ? kva_report_csv(r, &out, err)
           : format == MARKDOWN ? kva_report_markdown(r, &out, err)
                                : kva_report_text(r, &out, err));
    KVA_GO(kva_command_out(out.data ? out.data : "", out.len, err));
out:
    kva_buf_release(&out);
    return rc;
}

static int compare(const struct kva_compare_args *args)
{
    struct kva_compare_sides sides = {.shared = false};
    struct kva_compare_opts o;
    struct kva_error err = {0};
    struct kva_report *r = NULL;
    int format, valid = 0;
    enum kva_status rc;

    if (!options_of(args, &o, &format))
        return 2;
    KVA_GO(kva_compare_load(args->a, args->b, &sides, &err));
    o.free = sides.free;
    terminal(&o);
    KVA_GO(kva_compare_build(sides.side, &o, &r, &valid, &err));
    KVA_GO(print(r, format, &err));
    if (valid == 0)
        rc = KVA_FAIL(&err, KVA_EMISSING, "no pair can be judged");
out:
    kva_report_free(r);
    kva_compare_sides_release(&sides);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}

int kva_cmd_compare(int argc, char **argv)
{
    if (argc > 2)
        return kva_command_usage("compare", "A and B, and nothing more: '%s'", argv[2]);
    opt.a = argc > 0 ? argv[0] : NULL;
    opt.b = argc > 1 ? argv[1] : NULL;
    if (opt.gate)
        return kva_cmd_compare_gate(&opt);
    if (argc < 2)
        return kva_command_usage("compare",
                                 "name two selections, A and B, such as method=snapkv "
                                 "method=tova");
    return compare(&opt);
}

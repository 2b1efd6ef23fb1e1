/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_run.c - `kvaudit run SUITE`: plan, measure what is missing, store, summarise.
 *
 * sweep.c measures. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/commands.h"
#include "runner/rescore.h"
#include "runner/slurm.h"
#include "runner/sweep_args.h"

static struct {
    int dry_run, probe, keep_going, chunk, trace_kept, prompts, slurm, rescore, fetch;
    const char *shard, *balance, *db_dir, *metric, *journal;
} opt;

const struct kva_opt *kva_cmd_run_options(void)
{
    static const struct kva_opt table[] = {
        {"dry-run", 'n', KVA_OPT_FLAG, &opt.dry_run, NULL,
         "print the plan: cells, outcomes done and to do, time, memory; run nothing", 0,
         0},
        {"probe", 0, KVA_OPT_FLAG, &opt.probe, NULL,
         "with --dry-run: where no earlier run tells the time, read two prompts to "
         "estimate it; nothing is stored",
         0, 0},
        KVA_SWEEP_CELLS,
        {"keep-going", 0, KVA_OPT_FLAG, &opt.keep_going, NULL,
         "go on with a model that is at its guess floor in every task", 0, 0},
        {"shard", 0, KVA_OPT_STR, &opt.shard, "I/N",
         "only part I (from 0) of N; parts are measured anywhere and joined later", 0, 0},
        {"balance", 0, KVA_OPT_STR, &opt.balance, "RULE",
         "with --shard or --slurm: how parts are cut, cost (default) or mod", 0, 0},
        {"slurm", 0, KVA_OPT_INT, &opt.slurm, "N",
         "print a script that submits N shards and what joins them to Slurm; run nothing",
         1, 10000},
        {"db-dir", 0, KVA_OPT_STR, &opt.db_dir, "DIR",
         "with --slurm: where databases, scripts and logs go (default ./kvaudit-shards)",
         0, 0},
        {"fetch", 0, KVA_OPT_FLAG, &opt.fetch, NULL,
         "download model files that are missing; without it a run opens no connection", 0,
         0},
        {"rescore", 0, KVA_OPT_FLAG, &opt.rescore, NULL,
         "score the stored answers again, without SUITE or model; with --dry-run: say "
         "what would change",
         0, 0},
        {"metric", 0, KVA_OPT_STR, &opt.metric, "NAME", "with --rescore: only this one",
         0, 0},
        {"journal", 0, KVA_OPT_STR, &opt.journal, "wal|delete",
         "delete: for one process alone on a network file system", 0, 0},
        KVA_SWEEP_MEANS,
        {"chunk", 0, KVA_OPT_INT, &opt.chunk, "N",
         "rows of a prefill step (default 256, on a device 1024)", 1, 8192},
        {"trace-kept", 0, KVA_OPT_INT, &opt.trace_kept, "N",
         "store which entries stayed for the first N samples of each cell", 1, 1000000},
        {"store-prompts", 0, KVA_OPT_FLAG, &opt.prompts, NULL,
         "keep prompt texts in the database", 0, 0},
        {0}};

    return table;
}

/* Model files that cells want and that are not here. */
static enum kva_status fetch_models(struct kva_suite *s, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;

    for (int c = 0; c < s->n_cells && rc == KVA_OK; c++) {
        struct kva_suite_model *m = &s->models[s->cells[c].model];
        struct kva_buf path;

        if (m->path)
            continue;
        kva_buf_init(&path, 1 << 14);
        rc = kva_fetch_missing(m->by_name ? m->id : "", m->source, &path, err);
        if (rc == KVA_OK && path.len > 0) {
            m->path = kva_arena_strdup(&s->arena, path.data);
            if (!m->path)
                rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        }
        kva_buf_release(&path);
        if (rc == KVA_OK && !m->path) /* a path of the user's own: nothing to fetch */
            rc = KVA_FAIL(err, KVA_EIO, "%s", m->why_missing);
    }
    return rc;
}

static enum kva_status read_shard(struct kva_suite *s, struct kva_error *err)
{
    if (opt.db_dir != NULL && (opt.db_dir[0] == '\0' || opt.db_dir[0] == '-'))
        return KVA_FAIL(err, KVA_EINVALID,
                        "--db-dir '%s': a directory is wanted; ./ comes before a name "
                        "that begins with -",
                        opt.db_dir);
    if (opt.slurm > 0 && (opt.shard != NULL || opt.dry_run || kva_common.db.n > 0))
        return KVA_FAIL(err, KVA_EINVALID,
                        "--slurm gives every shard its number and its database in "
                        "--db-dir; --shard, --dry-run and --db do not go with it");
    if (opt.slurm > 0)
        return kva_balance_parse(opt.balance, &s->shard.balance, err);
    if (opt.shard == NULL)
        return KVA_OK;
    KVA_TRY(kva_shard_parse(opt.shard, &s->shard, err));
    return kva_balance_parse(opt.balance, &s->shard.balance, err);
}

static enum kva_db_mode write_mode(void)
{
    return opt.journal != NULL && strcmp(opt.journal, "delete") == 0 ? KVA_DB_WRITE_DELETE
                                                                     : KVA_DB_WRITE;
}

/* The suite was read: a broken one fails here and not on the cluster. */
static int slurm(const char *suite)
{
    static const char *const not_forwarded[] = {"slurm", "db-dir", NULL};
    char program[PATH_MAX], cwd[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    struct kva_slurm job = {.program = program,
                            .cwd = cwd,
                            .suite = suite,
                            .dir = opt.db_dir != NULL ? opt.db_dir : "./kvaudit-shards",
                            .shards = opt.slurm};
    struct kva_error err = {0};
    struct kva_buf words, out;
    int code = 0;

    kva_buf_init(&words, 0);
    kva_buf_init(&out, 0);
    if (n < 0 || getcwd(cwd, sizeof cwd) == NULL) {
        KVA_FAIL(&err, KVA_EIO, "where this program and its directory are: %s",
                 strerror(errno));
        code = kva_command_fail(&err);
        goto out;
    }
    program[n] = '\0';
    kva_options_words(kva_cmd_run_options(), not_forwarded, &words);
    job.words = words.len > 0 ? words.data : "";
    kva_slurm_script(&job, &out);
    if (kva_buf_status(&words, &err) != KVA_OK || kva_buf_status(&out, &err) != KVA_OK ||
        kva_command_out(out.data, out.len, &err) != KVA_OK)
        code = kva_command_fail(&err);
out:
    kva_buf_release(&words);
    kva_buf_release(&out);
    return code;
}

static int rescore(int argc)
{
    struct kva_rescore_opts o = {.metric = opt.metric,
                                 .dry_run = opt.dry_run != 0,
                                 .json = kva_common.json != 0,
                                 .quiet = kva_common.quiet != 0};
    enum kva_db_mode mode = write_mode();
    static const char *const taken[] = {"rescore", "dry-run", "metric", "journal", NULL};
    struct kva_error err = {0};
    struct kva_db *db = NULL;
    struct kva_buf others;
    enum kva_status rc;
    int code = 0;

    kva_buf_init(&others, 0);
    kva_options_words(kva_cmd_run_options(), taken, &others);
    if (argc > 0 || others.len > 0)
        code = kva_command_usage("run",
                                 "--rescore scores every answer of --db again and takes "
                                 "no%s",
                                 argc > 0 ? " suite" : others.data);
    kva_buf_release(&others);
    if (code != 0)
        return code;
    kva_command_signals();
    if (access(kva_db_default(), F_OK) != 0)
        rc = KVA_FAIL(&err, KVA_EIO, "cannot open %s: %s", kva_db_default(),
                      strerror(errno));
    else
        rc = kva_db_open(kva_db_default(), o.dry_run ? KVA_DB_READ : mode, &db, &err);
    if (rc == KVA_OK)
        rc = kva_rescore(db, &o, &err);
    kva_db_close(db);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}

int kva_cmd_run(int argc, char **argv)
{
    struct kva_suite suite = {0};
    struct kva_plan plan = {0};
    struct kva_db *db = NULL;
    struct kva_error err = {0};
    struct kva_sweep_opts o = kva_sweep_means("run", argv[0]);
    static const char *const not_repeated[] = {"progress", NULL};
    struct kva_buf words;
    enum kva_status rc;
    int code = 0;

    if (opt.journal != NULL && strcmp(opt.journal, "wal") != 0 &&
        strcmp(opt.journal, "delete") != 0)
        return kva_command_usage("run", "--journal is wal or delete");
    if (opt.rescore)
        return rescore(argc);
    if (argc != 1)
        return kva_command_usage("run", "one suite file is expected");
    kva_buf_init(&words, 0);
    kva_options_words(kva_cmd_run_options(), not_repeated, &words);
    o.words = words.data;
    o.chunk = opt.chunk;
    o.trace_kept = opt.trace_kept;
    o.keep_going = opt.keep_going != 0;
    o.prompts = opt.prompts != 0;
    o.json = kva_common.json != 0;
    kva_command_signals();
    KVA_GO(kva_sweep_suite(argv[0], &suite, &err));
    KVA_GO(kva_sweep_backend(kva_sweep_args.backend, &suite, &o, &err));
    KVA_GO(read_shard(&suite, &err));
    if (opt.slurm > 0) {
        code = slurm(argv[0]);
        goto out;
    }
    if (opt.fetch && !opt.dry_run)
        KVA_GO(fetch_models(&suite, &err));
    if (!opt.dry_run || access(kva_db_default(), F_OK) == 0)
        KVA_GO(kva_db_open(kva_db_default(), opt.dry_run ? KVA_DB_READ : write_mode(),
                           &db, &err));
    KVA_GO(kva_plan_new(&suite, db, o.threads, &plan, &err));
    if (opt.dry_run)
        KVA_GO(kva_sweep_show(&plan, db, o.threads, opt.probe != 0, &err));
    else
        code = kva_sweep(&plan, db, &o);
out:
    if (rc != KVA_OK)
        code = kva_command_fail(&err);
    kva_plan_release(&plan);
    kva_suite_release(&suite);
    if (rc != KVA_OK)
        kva_db_drop_unused(db);
    else
        kva_db_close(db);
    kva_buf_release(&words);
    return code;
}

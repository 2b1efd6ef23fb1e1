/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_doctor.c - `kvaudit doctor`: what this build and machine can do, and what is
 * missing.
 *
 * --tokenize and --nll make it a filter for comparing the tokenizer and the engine with
 * others: JSON in, JSON out, a line each. */
#include "runner/commands.h"
#include "runner/doctor_db.h"
#include "runner/env_row.h"
#include "runner/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int tokenize, special, nll;
    const char *model, *backend, *numerics, *kv, *chat;
} opt = {.backend = "cpu", .numerics = "f32", .kv = "f16"};

const struct kva_opt *kva_cmd_doctor_options(void)
{
    static const struct kva_opt table[] = {
        {"model", 'm', KVA_OPT_STR, &opt.model, "MODEL",
         "open this model and describe it", 0, 0},
        {"tokenize", 0, KVA_OPT_FLAG, &opt.tokenize, NULL,
         "standard input: a JSON string a line; output: its token ids", 0, 0},
        {"special", 0, KVA_OPT_FLAG, &opt.special, NULL,
         "with --tokenize: read control tokens inside the text", 0, 0},
        {"nll", 0, KVA_OPT_FLAG, &opt.nll, NULL,
         "standard input: a JSON list of ids a line; output: -log p of each next token",
         0, 0},
        {"backend", 0, KVA_OPT_STR, &opt.backend, "NAME",
         "cpu (default) or cuda, of --model; alone: whether the device must be there", 0,
         0},
        {"numerics", 0, KVA_OPT_STR, &opt.numerics, "T",
         "f32 (default) or ref; bf16 on a device", 0, 0},
        {"kv", 0, KVA_OPT_STR, &opt.kv, "TYPE",
         "cache type f16 (default) or f32; ref uses f32", 0, 0},
        {"chat", 0, KVA_OPT_STR, &opt.chat, "FAMILY",
         "template family instead of the detected one", 0, 0},
        {0},
    };

    return table;
}

/* ---- the machine ---- */

struct finding {
    const char *what;
    bool ok, needed;
    char text[512];
};

static void find_cache(struct finding *f)
{
    struct kva_buf dir;
    struct kva_error err = {0};

    f->what = "cache";
    f->needed = true;
    kva_buf_init(&dir, 1 << 16);
    if (kva_cache_dir(&dir, &err) != KVA_OK) {
        snprintf(f->text, sizeof f->text, "%.400s", err.text);
    } else if (kva_mkdirs(dir.data, &err) != KVA_OK) {
        snprintf(f->text, sizeof f->text, "%.400s", err.text);
    } else {
        f->ok = access(dir.data, W_OK) == 0;
        snprintf(f->text, sizeof f->text, "%.400s%s", dir.data,
                 f->ok ? "" : " is not writable");
    }
    kva_buf_release(&dir);
}

static void find_device(struct finding *f)
{
    struct kva_error err = {0};
    struct kva_ops *ops;

    f->what = "cuda";
    f->needed = strcmp(opt.backend, "cuda") == 0;
    f->ok = kva_ops_open("cuda", "f32", 1, &ops, &err) == KVA_OK;
    if (!f->ok) {
        snprintf(f->text, sizeof f->text, "%.400s", err.text);
        return;
    }
    kva_device_text(ops->device, f->text, sizeof f->text);
    kva_ops_close(ops);
}

static int find_models(struct finding *f, int max)
{
    const struct kva_model_entry *e;
    size_t n = 0;
    int k = 0;

    if (kva_models_known(&e, &n, NULL) != KVA_OK)
        return 0;
    for (size_t i = 0; i < n && k < max; i++, k++) {
        struct kva_buf path;

        kva_buf_init(&path, 1 << 16);
        f[k].what = e[i].name;
        if (kva_models_path(&e[i], &path, NULL) == KVA_OK)
            f[k].ok = access(path.data, R_OK) == 0;
        if (f[k].ok)
            snprintf(f[k].text, sizeof f[k].text, "%.400s", path.data);
        else
            snprintf(f[k].text, sizeof f[k].text,
                     "not here; 'kvaudit fetch %.100s' brings it", e[i].name);
        kva_buf_release(&path);
    }
    return k;
}

static int find_all(struct finding *f, int max)
{
    const char *const *pip = kva_fetch_pip();
    const char *const *isa = kva_cpu_isas();
    int n = 0;

    f[n].what = "cpu";
    f[n].needed = true;
    for (const char *const *i = isa; *i; i++) {
        size_t at = strlen(f[n].text);

        snprintf(f[n].text + at, sizeof f[n].text - at, "%s%s", at ? " " : "", *i);
        f[n].ok = f[n].ok || strcmp(*i, "avx2") == 0 || strcmp(*i, "avx512") == 0;
    }
    if (!f[n].ok)
        snprintf(f[n].text, sizeof f[n].text, "no AVX2 and FMA: this program needs both");
    n++;
    find_device(&f[n++]);
    find_cache(&f[n++]);
    f[n].what = "gnuplot";
    f[n].ok = kva_on_path("gnuplot");
    snprintf(f[n].text, sizeof f[n].text, "%s",
             f[n].ok ? "found" : "not on PATH: reports have no figures");
    n++;
    f[n].what = "pip";
    f[n].ok = pip != NULL;
    for (int i = 0; pip && pip[i]; i++) {
        size_t at = strlen(f[n].text);

        snprintf(f[n].text + at, sizeof f[n].text - at, "%s%s", i ? " " : "", pip[i]);
    }
    if (!pip)
        snprintf(f[n].text, sizeof f[n].text,
                 "not on PATH: 'kvaudit fetch' cannot download wheels");
    n++;
    return n + find_models(f + n, max - n);
}

static int machine(void)
{
    struct finding f[32];
    struct kva_buf out;
    struct kva_error err = {0};
    bool bad = false;
    int n;
    enum kva_status rc;

    memset(f, 0, sizeof f);
    n = find_all(f, 32);
    kva_buf_init(&out, 0);
    for (int i = 0; i < n; i++)
        bad = bad || (f[i].needed && !f[i].ok);
    if (kva_common.json) {
        json_t *o = json_object(), *list = json_array();
        char *text;

        for (int i = 0; i < n; i++)
            json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:s}", "what",
                                                  f[i].what, "ok", f[i].ok, "needed",
                                                  f[i].needed, "text", f[i].text));
        json_object_set_new(o, "schema", json_string("kvaudit.doctor/1"));
        json_object_set_new(o, "ok", json_boolean(!bad));
        json_object_set_new(o, "build", kva_version_json());
        json_object_set_new(o, "findings", list);
        text = json_dumps(o, JSON_COMPACT);
        json_decref(o);
        kva_buf_puts(&out, text ? text : "");
        kva_buf_putc(&out, '\n');
        free(text);
    } else {
        kva_version_text(&out);
        kva_buf_putc(&out, '\n');
        for (int i = 0; i < n; i++)
            kva_buf_printf(&out, "%-8s %-14s %s\n",
                           f[i].ok       ? "ok"
                           : f[i].needed ? "MISSING"
                                         : "absent",
                           f[i].what, f[i].text);
    }
    rc = kva_buf_status(&out, &err);
    if (rc == KVA_OK)
        rc = kva_command_out(out.data, out.len, &err);
    kva_buf_release(&out);
    if (rc != KVA_OK)
        return kva_command_fail(&err);
    return bad ? kva_status_exit(KVA_ENO) : 0;
}

/* ---- one model ---- */

static enum kva_status describe(struct kva_model *m, struct kva_error *err)
{
    const struct kva_model_info *i = kva_model_info(m);
    const struct kva_tokenizer *t = kva_model_tokenizer(m);
    uint64_t row = (uint64_t)i->layers * i->kv_heads * (i->head_dim + i->v_dim) * 2;
    uint8_t sha[32];
    char hex[65];
    struct kva_buf out;
    enum kva_status rc;

    KVA_TRY(kva_model_sha256(m, sha, err));
    kva_hex(sha, 32, hex);
    kva_buf_init(&out, 0);
    if (kva_common.json) {
        json_t *o = json_pack(
            "{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, "
            "s:I, s:I, "
            "s:s, s:s, s:s}",
            "schema", "kvaudit.model/1", "name", i->name, "arch", i->arch, "wtype",
            i->wtype, "sha256", hex, "layers", i->layers, "dim", i->dim, "heads",
            i->heads, "kv_heads", i->kv_heads, "head_dim", i->head_dim, "v_dim", i->v_dim,
            "ffn", i->ffn, "vocab", i->vocab, "ctx_train", i->ctx_train, "params",
            (json_int_t)i->params, "file_bytes", (json_int_t)i->file_bytes,
            "kv_bytes_token_f16", (json_int_t)row, "chat", kva_model_chat(m)->family,
            "isa", kva_model_ops(m)->isa, "numerics", kva_model_ops(m)->numerics);
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        json_decref(o);
        kva_buf_puts(&out, text ? text : "");
        kva_buf_putc(&out, '\n');
        free(text);
    } else {
        kva_buf_printf(&out, "%s: %s, %s, %.1f M parameters, %.1f MB\n", i->name, i->arch,
                       i->wtype, (double)i->params / 1e6, (double)i->file_bytes / 1e6);
        kva_buf_printf(&out, "sha256 %s\n", hex);
        kva_buf_printf(
            &out, "%d layers, %d heads, %d KV heads of %d (values %d), d %d, ff %d\n",
            i->layers, i->heads, i->kv_heads, i->head_dim, i->v_dim, i->dim, i->ffn);
        kva_buf_printf(&out,
                       "context %d, vocabulary %d, cache %llu bytes a token in f16\n",
                       i->ctx_train, i->vocab, (unsigned long long)row);
        kva_buf_printf(&out, "chat family %s, BOS %d%s\n", kva_model_chat(m)->family,
                       kva_tokenizer_bos(t), kva_tokenizer_add_bos(t) ? " (added)" : "");
        kva_buf_printf(&out, "runs on %s, numerics %s\n", kva_model_ops(m)->isa,
                       kva_model_ops(m)->numerics);
    }
    rc = kva_buf_status(&out, err);
    if (rc == KVA_OK)
        rc = kva_command_out(out.data, out.len, err);
    kva_buf_release(&out);
    return rc;
}

/* ---- filters ---- */

static enum kva_status tokenize_line(struct kva_model *m, json_t *v, struct kva_buf *out,
                                     struct kva_error *err)
{
    struct kva_tokenizer *t = NULL;
    struct kva_tokens ids;
    enum kva_status rc;

    memset(&ids, 0, sizeof ids);
    if (!json_is_string(v))
        return KVA_FAIL(err, KVA_EFORMAT, "is not a JSON string");
    KVA_GO(kva_tokenizer_clone(kva_model_tokenizer(m), &t, err));
    KVA_GO(kva_tokenizer_encode(t, json_string_value(v), json_string_length(v),
                                opt.special != 0, &ids, err));
    kva_buf_putc(out, '[');
    for (size_t i = 0; i < ids.n; i++)
        kva_buf_printf(out, "%s%d", i ? "," : "", ids.id[i]);
    kva_buf_puts(out, "]\n");
    rc = KVA_OK;
out:
    kva_tokens_release(&ids);
    kva_tokenizer_free(t);
    return rc;
}

/* Feeds ids[0..n-2], each with the next id as target, in steps of at most KVA_CHUNK rows.
 */
static enum kva_status nll_ids(struct kva_model *m, const int32_t *ids, int n,
                               struct kva_buf *out, struct kva_error *err)
{
    const struct kva_model_info *info = kva_model_info(m);
    struct kva_session_opts so = {.mode = KVA_KV_PHYSICAL};
    struct kva_session *s = NULL;
    struct kva_row *rows = kva_calloc(KVA_CHUNK, sizeof rows[0]);
    enum kva_status rc;

    so.kv = strcmp(opt.kv, "f32") == 0 || strcmp(opt.numerics, "ref") == 0 ? KVA_F32
                                                                           : KVA_F16;
    so.page_cap = (size_t)info->layers * info->kv_heads * ((n + KVA_PAGE - 1) / KVA_PAGE);
    if (!rows)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    KVA_GO(kva_session_new(m, &so, &s, err));
    for (int at = 0; at < n - 1; at += KVA_CHUNK) {
        int k = n - 1 - at < KVA_CHUNK ? n - 1 - at : KVA_CHUNK;

        for (int i = 0; i < k; i++)
            rows[i] = (struct kva_row){.session = s,
                                       .token = ids[at + i],
                                       .logits = true,
                                       .target = ids[at + i + 1]};
        KVA_GO(kva_step(m, rows, k, NULL, err));
        if (kva_session_error(s) && kva_session_error(s)->code != KVA_OK) {
            rc = KVA_FAIL(err, kva_session_error(s)->code, "%s",
                          kva_session_error(s)->text);
            goto out;
        }
        for (int i = 0; i < k; i++)
            kva_buf_printf(out, "%s%.9g", at + i ? "," : "", rows[i].nll);
    }
    rc = KVA_OK;
out:
    kva_session_free(s);
    free(rows);
    return rc;
}

static enum kva_status nll_line(struct kva_model *m, json_t *v, struct kva_buf *out,
                                struct kva_error *err)
{
    size_t n = json_array_size(v);
    int32_t *ids;
    enum kva_status rc = KVA_OK;

    if (!json_is_array(v) || n < 1)
        return KVA_FAIL(err, KVA_EFORMAT, "is not a JSON list of ids");
    ids = kva_calloc(n, sizeof ids[0]);
    if (!ids)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_array_get(v, i);
        json_int_t id = json_integer_value(e);

        if (!json_is_integer(e) || id < 0 || id >= kva_model_info(m)->vocab) {
            rc = KVA_FAIL(err, KVA_EFORMAT, "element %zu is no id below %d", i,
                          kva_model_info(m)->vocab);
            goto out;
        }
        ids[i] = (int32_t)id;
    }
    kva_buf_putc(out, '[');
    KVA_GO(nll_ids(m, ids, (int)n, out, err));
    kva_buf_puts(out, "]\n");
out:
    free(ids);
    return rc;
}

static enum kva_status filter(struct kva_model *m, struct kva_error *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    long number = 0;
    struct kva_buf out;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&out, 0);
    while ((len = getline(&line, &cap, stdin)) > 0) {
        json_error_t je;
        json_t *v = json_loadb(line, (size_t)len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);

        number++;
        out.len = 0;
        if (!v)
            rc = KVA_FAIL(err, KVA_EFORMAT, "%s", je.text);
        else
            rc = opt.nll ? nll_line(m, v, &out, err) : tokenize_line(m, v, &out, err);
        json_decref(v);
        if (rc == KVA_OK)
            rc = kva_buf_status(&out, err);
        if (rc != KVA_OK) {
            kva_context(err, "standard input line %ld", number);
            break;
        }
        KVA_GO(kva_command_out(out.data, out.len, err));
        fflush(stdout);
    }
    if (rc == KVA_OK && ferror(stdin))
        rc = KVA_FAIL(err, KVA_EIO, "reading standard input: %s", strerror(errno));
out:
    free(line);
    kva_buf_release(&out);
    return rc;
}

/* ---- entry ---- */

static enum kva_status with_model(struct kva_error *err)
{
    struct kva_model_opts mo = {.backend = opt.backend,
                                .numerics = opt.numerics,
                                .threads = (int)kva_env_int("KVAUDIT_THREADS", 1, 64, 1),
                                .check_tensors = !opt.tokenize && !opt.nll};
    struct kva_arena arena;
    struct kva_model *m = NULL;
    char *path, *chat = NULL;
    enum kva_status rc;

    kva_arena_init(&arena);
    KVA_GO(kva_models_resolve(opt.model, NULL, &path, &chat, &arena, err));
    mo.chat = opt.chat ? opt.chat : chat;
    KVA_GO(kva_model_open(path, &mo, &m, err));
    rc = opt.tokenize || opt.nll ? filter(m, err) : describe(m, err);
out:
    if (m)
        kva_model_close(m);
    kva_arena_release(&arena);
    return rc;
}

/* All files are examined; the first failure decides the exit code. */
static int check_db(void)
{
    int code = 0;

    for (int i = 0; i < kva_common.db.n; i++) {
        struct kva_error err = {0};

        if (kva_doctor_db(kva_common.db.v[i], kva_common.json != 0, &err) != KVA_OK) {
            int here = kva_command_fail(&err);

            code = code ? code : here;
        }
    }
    return code;
}

int kva_cmd_doctor(int argc, char **argv)
{
    struct kva_error err = {0};

    if (argc)
        return kva_command_usage("doctor", "unexpected '%s'", argv[0]);
    if (opt.model && kva_common.db.n)
        return kva_command_usage("doctor", "--model or --db, not both");
    if ((opt.tokenize || opt.nll) && !opt.model)
        return kva_command_usage("doctor", "--%s needs --model MODEL",
                                 opt.nll ? "nll" : "tokenize");
    if (opt.tokenize && opt.nll)
        return kva_command_usage("doctor", "--tokenize or --nll, not both");
    if (strcmp(opt.kv, "f16") != 0 && strcmp(opt.kv, "f32") != 0)
        return kva_command_usage("doctor", "unknown cache type '%s': f16 or f32", opt.kv);
    if (strcmp(opt.numerics, "f32") != 0 && strcmp(opt.numerics, "ref") != 0 &&
        strcmp(opt.numerics, "bf16") != 0)
        return kva_command_usage("doctor", "unknown numerics '%s': f32, ref or bf16",
                                 opt.numerics);
    if (strcmp(opt.backend, "cpu") != 0 && strcmp(opt.backend, "cuda") != 0)
        return kva_command_usage("doctor", "unknown backend '%s': cpu or cuda",
                                 opt.backend);
    if (opt.model)
        return with_model(&err) == KVA_OK ? 0 : kva_command_fail(&err);
    if (kva_common.db.n)
        return check_db();
    return machine();
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_obcache.c - how much the outputs of the last queries would change without an
 * entry's value, its key, or both.
 *
 *     value  A^2 ||v||^2
 *     key    (A z)^2 ||v - o||^2
 *     joint  || A v + A z (v - o) ||^2 = value + key + 2 A^2 z (||v||^2 - v.o)
 *
 * summed over the window rows and the query heads of the group, then the maximum over
 * `kernel` neighbours. z is the model's own scaled logit: the score depends on it as it
 * is, not up to a shift. base=tova takes the last query alone and pools nothing. */
#include "methods/method.h"

#include "methods/outputs.h"
#include "methods/window.h"

enum { BASE, FORM, KERNEL, RECENT, SHARE, SINKS, WINDOW };
enum { BASE_SNAPKV, BASE_TOVA };

static const char *const base_names[] = {"snapkv", "tova", NULL};
static const char *const form_names[] = {"joint", "key", "value", NULL};

static const struct kva_param params_table[] = {
    {.name = "base",
     .help = "whose rows: the window, or the last query alone without pooling",
     .type = KVA_PARAM_CHOICE,
     .choices = base_names},
    {.name = "form",
     .help = "what goes: the value, the key, or both",
     .type = KVA_PARAM_CHOICE,
     .choices = form_names},
    KVA_PARAM_KERNEL(7),
    KVA_PARAM_RECENT,
    KVA_PARAM_RECENT_SHARE(0),
    KVA_PARAM_SINKS(0),
    KVA_PARAM_WINDOW(32),
    {.name = NULL},
};

static bool last_only(const struct kva_params *params)
{
    return (int)params->value[BASE] == BASE_TOVA;
}

static int window(const struct kva_params *params)
{
    return last_only(params) ? 1 : (int)params->value[WINDOW];
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    kva_window_protect(kva_window_rows(view, window(params)), p);
}

static double value_term(const struct kva_output *e)
{
    return e->a * e->a * e->vv;
}

static double key_term(const struct kva_output *e)
{
    return e->a * e->z * e->a * e->z * e->dd;
}

/* a squared norm: what rounding takes below zero is zero */
static double joint_term(const struct kva_output *e)
{
    double sum = e->vv + e->z * e->z * e->dd + 2 * e->z * (e->vv - e->vo);

    return sum > 0 ? e->a * e->a * sum : 0;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    double (*const terms[])(const struct kva_output *) = {joint_term, key_term,
                                                          value_term};

    return kva_output_scores(view, kva_window_rows(view, window(params)),
                             last_only(params) ? 1 : (int)params->value[KERNEL],
                             terms[(int)params->value[FORM]], s, err);
}

const struct kva_scorer kva_score_obcache = {
    .name = "obcache",
    .summary = "change of the window's outputs without an entry's key and value",
    .source = "OBCache, arXiv 2510.07651",
    .storage = "query head",
    .deviates = "Official code ranks per query head and holds group times the entries; "
                "here the group is summed. Its form over column sums of all queries is "
                "not offered.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_QUERIES,
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .window = window,
    .protect = protect,
    .score = score,
};

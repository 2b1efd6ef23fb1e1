/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit_arms.c - the arms A0-A6 of methods.md 5 as cells of the suite. */
#include "runner/audit.h"

#include <string.h>

const char *kva_arm_enforce(enum kva_arm_kind kind)
{
    static const char *const names[KVA_ARM_KINDS] = {"physical", "mask",    "physical",
                                                     "padded",   "union",   "qhead",
                                                     "fakekey",  "physical"};

    return names[kind];
}

static bool audited(const struct kva_suite_cell *c)
{
    return c->arm == KVA_ARM_AUDITED && c->enforce == KVA_PHYSICAL &&
           c->budget.kind != KVA_BUDGET_DENSE;
}

struct twin {
    char *uniform; /* the method with the allocator `uniform`; NULL: none of its own */
    bool rotates;  /* kept keys move, which a masked cache cannot do */
};

/* A method with a file has no uniform twin: its specification does not name the path. */
static enum kva_status twin_of(const struct kva_suite_cell *c, struct kva_arena *a,
                               struct twin *out, struct kva_error *err)
{
    struct kva_schedule schedule;
    struct kva_method m;
    enum kva_status rc;

    memset(out, 0, sizeof *out);
    KVA_TRY(kva_schedule_parse(c->schedule, &schedule, err));
    KVA_TRY(kva_method_parse(c->method_text, &schedule, &m, err));
    rc = KVA_OK;
    out->rotates = kva_method_rotates(&m);
    if (m.scorer != NULL && strcmp(m.allocator->name, "uniform") != 0 &&
        m.file[0] == '\0') {
        out->uniform = kva_arena_strdup(a, m.wrapped_spec);
        rc = out->uniform == NULL ? KVA_FAIL(err, KVA_ENOMEM, "arms") : KVA_OK;
    }
    kva_method_release(&m);
    return rc;
}

static bool make_arm(const struct kva_suite_cell *from, enum kva_arm_kind kind,
                     const struct twin *twin, struct kva_suite_cell *out)
{
    *out = *from;
    out->arm = kind;
    out->perf = kind == KVA_ARM_MASK ? from->perf : 0;
    out->perf_reps = 0;
    if (!kva_enforce_find(kva_arm_enforce(kind), &out->enforce))
        return false;
    if (kind == KVA_ARM_UNIFORM) {
        out->method_text = out->method_id = twin->uniform;
        return twin->uniform != NULL;
    }
    if (kva_enforce_hides(out->enforce) && twin->rotates)
        return false;
    if (kind == KVA_ARM_AWARE) {
        out->visibility = KVA_AWARE;
        return from->visibility == KVA_AGNOSTIC;
    }
    return true;
}

enum kva_status kva_audit_arms(struct kva_suite *s, int *n_audited, struct kva_error *err)
{
    struct kva_suite_cell *cells =
        kva_arena_alloc(&s->arena, (size_t)s->n_cells * KVA_ARM_KINDS + 1, sizeof *cells);
    int n = s->n_cells;

    *n_audited = 0;
    if (cells == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "arms of %d cells", s->n_cells);
    memcpy(cells, s->cells, (size_t)n * sizeof *cells);
    for (int i = 0; i < s->n_cells; i++) {
        struct twin twin;

        if (!audited(&s->cells[i]))
            continue;
        (*n_audited)++;
        KVA_TRY(twin_of(&s->cells[i], &s->arena, &twin, err));
        for (int k = KVA_ARM_AUDITED + 1; k < KVA_ARM_KINDS; k++)
            n += make_arm(&s->cells[i], (enum kva_arm_kind)k, &twin, &cells[n]);
    }
    s->cells = cells;
    s->n_cells = n;
    return KVA_OK;
}

void kva_audit_probes(struct kva_suite *s, int n, bool exact)
{
    static char ref[] = "ref";
    int kept = 0;

    for (int i = 0; i < s->n_cells; i++) {
        struct kva_suite_cell c = s->cells[i];

        if (!audited(&c) && c.arm != KVA_ARM_MASK)
            continue;
        c.n = c.n > n ? n : c.n;
        c.reps = 1;
        c.perf = c.perf_reps = 0;
        if (exact)
            c.numerics = ref;
        s->cells[kept++] = c;
    }
    s->n_cells = kept;
}

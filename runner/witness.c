/* SPDX-License-Identifier: GPL-3.0-or-later */
/* witness.c - the process's resident set and the driver's counter around a cell. */
#include "runner/witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a line of /proc/self/status; -1: not known. */
static int64_t status_bytes(const char *key)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    int64_t kb = -1;
    size_t n = strlen(key);

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, n) == 0)
            kb = strtoll(line + n, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    return kb < 0 ? -1 : kb * 1024;
}

int64_t kva_witness_host_peak(void)
{
    return status_bytes("VmHWM:");
}

static void reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");

    if (f != NULL) {
        (void)fputs("5", f);
        (void)fclose(f);
    }
}

static int64_t slack_of(int64_t account)
{
    return account / 50 > (2 << 20) ? account / 50 : (2 << 20);
}

/* Bytes in use by an independent counter; *own: what of them we say is no pages. */
static int64_t counted(const struct kva_unit_run *u, uint64_t *own)
{
    struct kva_ops *ops = kva_model_ops(u->model);

    if (ops->memory_used != NULL)
        return (int64_t)ops->memory_used(ops, own);
    *own = kva_model_scratch_bytes(u->model);
    return status_bytes("RssAnon:");
}

void kva_witness_begin(struct kva_witness *w, const struct kva_unit_run *u)
{
    *w = (struct kva_witness){.ops = kva_model_ops(u->model), .host = -1};
    reset_peak();
    if (w->ops->memory_used != NULL)
        w->host = status_bytes("RssAnon:");
    w->counted = counted(u, &w->own);
    if (w->ops->memory_most != NULL)
        (void)w->ops->memory_most(w->ops, true);
}

/* What the host may hold of a cell on a device: its books, and what its decisions needed,
 * for the C library may keep what was given back. */
static int64_t host_may(const struct kva_run_cell *c, const struct kva_db_memory *m)
{
    int64_t may = m->kv_meta_bytes + (int64_t)c->scratch_bytes +
                  (int64_t)(kva_session_window_bytes(c->session) +
                            kva_session_collect_bytes(c->session));

    return may + slack_of(may);
}

/* Tables and what methods note lie on the host; a device's part of them is its own. */
void kva_witness_look(struct kva_witness *w, const struct kva_unit_run *u,
                      const struct kva_run_cell *c, struct kva_db_memory *m)
{
    uint64_t own;
    int64_t now = counted(u, &own), account;

    if (now < 0 || w->counted < 0)
        return;
    m->dev_delta_bytes = now - w->counted;
    account = m->kv_committed_bytes + (int64_t)(own - w->own);
    if (w->ops->memory_used == NULL) {
        account += m->kv_meta_bytes;
        if (!kva_keeps_state(c->cell))
            account += (int64_t)(kva_session_window_bytes(c->session) +
                                 kva_session_collect_bytes(c->session));
    }
    w->slack = slack_of(account);
    w->surplus = m->dev_delta_bytes - account;
    w->claims = c->cell->enforce == KVA_PHYSICAL;
    if (w->host >= 0)
        w->hides = status_bytes("RssAnon:") - w->host > host_may(c, m);
}

bool kva_witness_end(struct kva_witness *w, bool last, struct kva_db_memory *m)
{
    bool moved = false;
    int64_t drift;
    uint64_t own;

    if (w->ops->memory_most != NULL)
        m->dev_peak_bytes = (int64_t)w->ops->memory_most(w->ops, false) - w->counted;
    if (!w->claims)
        return false;
    if (w->ops->memory_used != NULL) {
        drift = (int64_t)w->ops->memory_used(w->ops, &own) - w->counted -
                (int64_t)(own - w->own);
        moved = drift > w->slack || drift < -w->slack;
    }
    if ((moved || w->hides) && !last)
        return true;
    if (w->hides || (!moved && w->surplus > w->slack))
        kva_audit_add(m, 16);
    else if (moved && m->audit == 0)
        m->audit = -1;
    return false;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* yardstick.c - a fixed matrix product and a fixed copy, in plain C that never changes:
 * no kernel of this program, so that a faster kernel does not move the yardstick. */
#include "runner/yardstick.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 192, COPY_WORDS = 2 << 20 };

static void product(const float *a, const float *b, float *c)
{
    memset(c, 0, (size_t)SIDE * SIDE * sizeof *c);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++) {
            float x = a[i * SIDE + k];

            for (int j = 0; j < SIDE; j++)
                c[i * SIDE + j] += x * b[k * SIDE + j];
        }
}

/* Not memcpy, whose code belongs to the C library. */
static void copy(const uint64_t *from, uint64_t *to)
{
    for (size_t i = 0; i < COPY_WORDS; i++)
        to[i] = from[i] ^ 0x5555555555555555u;
}

enum kva_status kva_yardstick(int64_t *gemm_ns, int64_t *copy_ns, struct kva_error *err)
{
    static volatile uint64_t seen; /* the work has a reader */
    size_t n = (size_t)SIDE * SIDE;
    float *m = kva_calloc(3 * n, sizeof *m);
    uint64_t *w = kva_calloc((size_t)2 * COPY_WORDS, sizeof *w), t;
    enum kva_status rc = KVA_OK;

    if (m == NULL || w == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory for the yardsticks");
        goto out;
    }
    for (size_t i = 0; i < 2 * n; i++)
        m[i] = (float)(i % 31) * 0.125F;
    memset(w, 1, (size_t)2 * COPY_WORDS * sizeof *w); /* touch every page */
    t = kva_now_ns();
    product(m, m + n, m + 2 * n);
    *gemm_ns = (int64_t)(kva_now_ns() - t);
    t = kva_now_ns();
    copy(w, w + COPY_WORDS);
    *copy_ns = (int64_t)(kva_now_ns() - t);
    seen = (uint64_t)m[3 * n - 1] + w[2 * COPY_WORDS - 1];
    (void)seen;
out:
    free(m);
    free(w);
    return rc;
}

/* First line of a file without its newline; false when there is none. */
static bool line_of(const char *path, char *out, size_t n)
{
    FILE *f = fopen(path, "re");
    bool ok = f != NULL && fgets(out, (int)n, f) != NULL;

    if (f != NULL)
        (void)fclose(f);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}

int kva_machine_temp(void)
{
    for (int i = 0; i < 64; i++) {
        char path[96], text[64];
        int64_t milli;

        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/type", i);
        if (!line_of(path, text, sizeof text))
            return -1;
        if (strstr(text, "pkg") == NULL && strstr(text, "cpu") == NULL)
            continue;
        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/temp", i);
        if (line_of(path, text, sizeof text) && kva_parse_i64(text, &milli) &&
            milli >= 0 && milli < 200000)
            return (int)(milli / 1000);
    }
    return -1;
}

int kva_machine_clock_mhz(void)
{
    char path[96], text[64];
    int64_t khz;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
             sched_getcpu());
    if (line_of(path, text, sizeof text) && kva_parse_i64(text, &khz) && khz > 0 &&
        khz < 100000000)
        return (int)(khz / 1000);
    return -1;
}

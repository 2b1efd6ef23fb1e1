/* SPDX-License-Identifier: GPL-3.0-or-later */
/* registry.c - the table of text metrics. */
#include "metrics/metric.h"

#include <string.h>

#define METRIC(name) extern const struct kva_metric kva_text_##name;
#include "metrics/metrics.def"
#undef METRIC

static const struct kva_metric *const table[] = {
#define METRIC(name) &kva_text_##name,
#include "metrics/metrics.def"
#undef METRIC
    NULL};

const struct kva_metric *const *kva_metrics(void)
{
    return table;
}

const struct kva_metric *kva_metric_find(const char *name)
{
    for (size_t i = 0; table[i]; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

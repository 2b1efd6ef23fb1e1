/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate.c - a text cut into sequences for calibration. */
#include "models/calibrate.h"

#include <string.h>

enum kva_status kva_calibrate_ids(struct kva_model *m, const char *text, size_t n,
                                  int count, int tokens, int32_t **ids,
                                  struct kva_error *err)
{
    const struct kva_tokenizer *shared = kva_model_tokenizer(m);
    int lead = kva_tokenizer_add_bos(shared) ? 1 : 0;
    int context = kva_model_info(m)->ctx_train;
    struct kva_tokenizer *tok = NULL;
    struct kva_tokens t = {0};
    size_t piece = (size_t)(tokens - lead), need = (size_t)count * piece;
    enum kva_status rc;

    *ids = NULL;
    if (count < 1 || tokens <= lead || tokens > context)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%d sequences of %d tokens: at least one of %d to %d is needed",
                        count, tokens, lead + 1, context);
    KVA_GO(kva_tokenizer_clone(shared, &tok, err));
    KVA_GO(kva_tokenizer_encode(tok, text, n, false, &t, err));
    if (t.n < need) {
        rc = KVA_FAIL(err, KVA_EINVALID,
                      "the text has %zu tokens, %d sequences of %d need %zu", t.n, count,
                      tokens, need);
        goto out;
    }
    *ids = kva_calloc((size_t)count * (size_t)tokens, sizeof **ids);
    if (*ids == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%d sequences of %d tokens", count, tokens);
        goto out;
    }
    for (size_t i = 0; i < (size_t)count; i++) {
        int32_t *at = *ids + i * (size_t)tokens;

        if (lead > 0)
            at[0] = kva_tokenizer_bos(shared);
        memcpy(at + lead, t.id + i * piece, piece * sizeof *at);
    }
out:
    kva_tokens_release(&t);
    kva_tokenizer_free(tok);
    return rc;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* replay.h - a context repeated to the model, for scores that no prompt alone gives
 * (KVzip, methods.md 6.6).
 *
 * Whoever decides with a method that wants KVA_COLLECT_REPLAY calls, once for a context
 * and a want and before the first score, while the session still holds every entry:
 *
 *     kva_replay_ids(m, feed, &prompt, ids, n, want.chunk, &replay, err)
 *     kva_replay(m, session, &want, &replay, &scratch_bytes, err)
 *
 * The cost is stated, not hidden: about one more prefill, plus the attention of the
 * replay over the whole cache. */
#ifndef KVA_MODELS_REPLAY_H
#define KVA_MODELS_REPLAY_H

#include "models/model.h"

/* What is fed for the tokens at positions [from, to) of the context. */
struct kva_replay_chunk {
    int32_t *ids;
    int n;
    int32_t from, to;
};
struct kva_replay {
    struct kva_replay_chunk *chunk;
    int n;
};
/* Cuts ids[n], the tokens the session read (those of `p`, with visibility aware those of
 * the question behind them), into chunks of `chunk` tokens behind the chat prefix. A
 * chunk is fed as
 *
 *     encode("\n\nRepeat the previous context exactly.")                 the first
 *     encode("\n\nRepeat the part of the previous context exactly, starting with"),
 *         the last 8 tokens of the chunk before                          the others
 *     template suffix, the tokens of the chunk
 *
 * No chunk when there is nothing behind the prefix. */
enum kva_status kva_replay_ids(const struct kva_model *m, const struct kva_feed *feed,
                               const struct kva_prompt *p, const int32_t *ids, int n,
                               int chunk, struct kva_replay *out, struct kva_error *err);
void kva_replay_release(struct kva_replay *r);

/* Feeds every chunk behind the context, on a copy of the session, and sets the session's
 * sums for `want`:
 *
 *     s_j = max over the queries i of the replay and the group's query heads a of
 *           softmax over (first `start` positions | chunk | replay up to i) of q_i^a . k
 *
 * and with `plus` row i divided by the L2 norm of the attention input of its token, entry
 * j of head a multiplied by ||W_O^a v_j||_2. Entries in no chunk get -1. The session
 * itself is as before. Beside its copy the memory is that of one layer and one chunk;
 * what was held at most is added to *scratch_bytes when not NULL, the activations apart.
 * KVA_EINVALID when the session lost an entry or does not collect `want`; KVA_ETRUNCATED
 * when the replay does not fit the model's context. */
enum kva_status kva_replay(struct kva_model *m, struct kva_session *s,
                           const struct kva_collect *want, const struct kva_replay *r,
                           uint64_t *scratch_bytes, struct kva_error *err);

#endif

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cheats.h - lies planted in the engine, in test programs only (-DKVA_TEST_CHEATS). An
 * audit must catch each of them; tests/cheats/ says so. */
#ifndef KVA_CHEATS_H
#define KVA_CHEATS_H

enum kva_cheat {
    KVA_CHEAT_NONE,
    KVA_CHEAT_MASK,     /* a masked cache is called physical */
    KVA_CHEAT_HOLD,     /* a quarter more is held than the budget says */
    KVA_CHEAT_QUESTION, /* the question is read before what stays is decided */
    KVA_CHEAT_DENSE,    /* a block schedule reads the whole prompt, then cuts once */
    KVA_CHEAT_GROW      /* nothing is evicted while answering, whatever the schedule */
};
#ifdef KVA_TEST_CHEATS
struct kva_session;
struct kva_keep;
extern enum kva_cheat kva_cheat_planted;
/* NULL, or what a cell that runs alone does with the entries that are about to go. */
extern void (*kva_cheat_evicting)(struct kva_session *s, const struct kva_keep *keep);
#define KVA_CHEATS(x) (kva_cheat_planted == (x))
#define KVA_CHEAT_EVICTING(s, keep)                                                      \
    (kva_cheat_evicting != NULL ? kva_cheat_evicting((s), (keep)) : (void)0)
#else
#define KVA_CHEATS(x)               false
#define KVA_CHEAT_EVICTING(s, keep) (void)0
#endif

#endif

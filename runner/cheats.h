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
extern enum kva_cheat kva_cheat_planted;
#define KVA_CHEATS(x) (kva_cheat_planted == (x))
#else
#define KVA_CHEATS(x) false
#endif

#endif

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt19937.h - the random numbers of Python's `random` and of NumPy's `np.random.seed`.
 *
 * Bit for bit CPython 3's Random(int) and NumPy's legacy RandomState: same seeding, same
 * number of 32-bit words a call. A state is a plain value: copying it is a checkpoint. */
#ifndef KVA_TASKS_MT19937_H
#define KVA_TASKS_MT19937_H

#include "kva.h"

enum { KVA_MT_WORDS = 624 };
struct kva_mt {
    uint32_t word[KVA_MT_WORDS];
    int at; /* next word; KVA_MT_WORDS: all are used up */
};

void kva_py_seed(struct kva_mt *m, uint64_t seed); /* random.Random(seed) */
void kva_np_seed(struct kva_mt *m, uint32_t seed); /* np.random.seed(seed) */
uint32_t kva_mt_next(struct kva_mt *m);

double kva_py_random(struct kva_mt *m);              /* [0, 1), 53 bits */
uint64_t kva_py_below(struct kva_mt *m, uint64_t n); /* randrange(n), n > 0 */
int64_t kva_py_randint(struct kva_mt *m, int64_t lo, int64_t hi); /* both inclusive */
/* random.shuffle of x. */
void kva_py_shuffle(struct kva_mt *m, uint32_t *x, size_t n);
/* random.sample(range(n), k) into out; k <= n, n < 2^32. */
enum kva_status kva_py_sample(struct kva_mt *m, size_t n, size_t k, uint32_t *out,
                              struct kva_error *err);
/* ''.join(random.choices(first, first + 1, ..., k=k)) over `letters` letters; no NUL. */
void kva_py_choices(struct kva_mt *m, char first, int letters, size_t k, char *out);
/* str(uuid.UUID(int=random.getrandbits(128), version=4)), 36 characters and a NUL. */
void kva_py_uuid4(struct kva_mt *m, char out[37]);

/* np.random.randint(lo, hi): hi is exclusive, hi - lo <= 2^32. */
int64_t kva_np_randint(struct kva_mt *m, int64_t lo, int64_t hi);

#endif

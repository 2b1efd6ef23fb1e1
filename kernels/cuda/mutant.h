/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mutant.h - KVA_MUT(n): true where a test plants bug n (tests/simt/mutants.md): in the
 * emulator when the environment says KVA_MUTANT=n, for a device when compiled with
 * -DKVA_MUTANT=n, never otherwise. */
#ifndef KVA_CUDA_MUTANT_H
#define KVA_CUDA_MUTANT_H

#if defined(KVA_MUTANT)
#define KVA_MUT(n) (KVA_MUTANT == (n))
#elif defined(KVA_HOST_SIMT)
#ifdef __cplusplus
extern "C" {
#endif
int kva_simt_mutant(void); /* tests/simt/control.h */
#ifdef __cplusplus
}
#endif
#define KVA_MUT(n) (kva_simt_mutant() == (n))
#else
#define KVA_MUT(n) 0
#endif

#endif

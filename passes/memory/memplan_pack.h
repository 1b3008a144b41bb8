/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of an arena: when each is in use, and its offset. */
#ifndef PASSES_MEMORY_MEMPLAN_PACK_H
#define PASSES_MEMORY_MEMPLAN_PACK_H

#include "passes/module.h"

/* Takes a slot of SIZE bytes that is in use from now on; returns its index. */
int memplan_take(Module *m, Slots *s, Dim *size);
/* Ends the use of slot I. */
void memplan_give_back(Slots *s, int i);
/* The values of all symbols, by Sym.id, for which slots are packed. */
int64_t *memplan_sample(const Module *m, Arena *a);
/* Chooses the offsets of all slots of S. */
void memplan_pack(Module *m, Slots *s);

#endif

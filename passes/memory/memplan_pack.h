/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of an arena: when each is in use, and where it lies. */
#ifndef PASSES_MEMORY_MEMPLAN_PACK_H
#define PASSES_MEMORY_MEMPLAN_PACK_H

#include "passes/module.h"

/* Takes a slot of SIZE bytes from now on; its number. */
int memplan_take(Module *m, Slots *s, Dim *size);
/* Slot I is in use until now. */
void memplan_give_back(Slots *s, int i);
/* The values of all symbols, by Sym.id, at which slots are packed. */
int64_t *memplan_sample(const Module *m, Arena *a);
/* Places all slots of S. */
void memplan_pack(Module *m, Slots *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders: each reads the modifiers in p->mods[1..] and the operands of p->in, and fills the rest
 * of p->in. Anything unknown is an error that names the line.
 */
#ifndef TOOLS_PTXSIM_DECODE_H
#define TOOLS_PTXSIM_DECODE_H

#include "tools/ptxsim/exec.h"
#include "tools/ptxsim/parse.h"

typedef void DecodeFn(Parser *p);

/* Whether the modifier stands there; it is removed. */
bool take_mod(Parser *p, const char *mod);
/* Removes the modifier if it is one of CHOICES, which end with null; returns its index, or -1. */
int take_choice(Parser *p, const char *const *choices);
/* Removes hints, which the simulator ignores. */
void drop_mods(Parser *p, const char *const *mods);
/* Removes and returns the last modifier, a type. */
Type take_type(Parser *p);
/* Fails where modifiers are left. */
void no_mods(Parser *p);
void need_operands(Parser *p, int least, int most);

/* ---- data.c ---- */
DecodeFn decode_policy, decode_mov, decode_selp, decode_slct, decode_setp, decode_testp,
	decode_cvta, decode_isspacep;
/* and, or, xor, not of predicates; false: of something else. */
bool decode_logic(Parser *p);
/* ---- carry.c ---- */
/* False: no instruction with a carry. */
bool decode_carry(Parser *p);
/* ---- convert.c ---- */
DecodeFn decode_cvt;
/* ---- control.c ---- */
DecodeFn decode_bra, decode_brx, decode_end, decode_call;
/* ---- sync.c ---- */
DecodeFn decode_bar, decode_warp_sync, decode_fence;
/* ---- collective.c ---- */
DecodeFn decode_shfl, decode_vote, decode_activemask, decode_elect, decode_match, decode_redux;
/* ---- atomic.c ---- */
DecodeFn decode_atom;
/* ---- matrix.c ---- */
DecodeFn decode_ldmatrix, decode_movmatrix, decode_mma;
/* ---- wgmma.c ---- */
DecodeFn decode_wgmma;
/* async.c, mbarrier.c */
DecodeFn decode_cp, decode_mbarrier;
/* ---- access.c ---- */
DecodeFn decode_ld, decode_st;
/* The state space of ADDR; without a modifier: generic. */
Space take_space(Parser *p, const Operand *addr);
/* Removes hints of caches and scopes; p->in->flag: the access is strong. */
void take_hints(Parser *p);
/* The module accesses shared memory in LEN bytes. */
void note_granule(Parser *p, Space space, unsigned len);

#endif

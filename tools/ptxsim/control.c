/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls and ends. */
#include "tools/ptxsim/decode.h"

#include <stdlib.h>
#include <string.h>

static void push(Warp *w, int pc, int meet, uint32_t mask)
{
	if (w->n_stack == w->cap_stack) {
		w->cap_stack = w->cap_stack ? 2 * w->cap_stack : 64;
		w->stack = realloc(w->stack, (size_t)w->cap_stack * sizeof *w->stack);
		if (!w->stack)
			abort();
	}
	w->stack[w->n_stack++] = (Entry){.pc = pc, .meet = meet, .mask = mask};
}

static void fit(Private *p, uint32_t size)
{
	size_t want = (size_t)size * 32;

	if (size > p->size) {
		/* A thread's bytes stand together, so they move when there are more of them. */
		uint8_t *bytes = malloc(want + 64), *init = calloc(1, want + 64);
		if (!bytes || !init)
			abort();
		for (size_t i = 0; i < 32 && p->size; i++) {
			memcpy(bytes + i * size, p->bytes + i * p->size, p->size);
			memcpy(init + i * size, p->init + i * p->size, p->size);
		}
		free(p->bytes);
		free(p->init);
		*p = (Private){.bytes = bytes, .init = init, .size = size};
	}
}

static void forget(Private *p, uint32_t from, uint32_t n, uint32_t lanes)
{
	for (int i = 0; i < 32 && n; i++)
		if (lanes >> i & 1)
			memset(p->init + (size_t)i * p->size + from, 0, n);
}

static void set_banks(Warp *w)
{
	Frame *fr = &w->frame[w->depth - 1];

	w->bank[BANK_REG] = fr->regs;
	w->bank[BANK_CONST] = fr->f->consts;
	w->bank[BANK_SPECIAL] = w->special;
}

void frame_push(Warp *w, const Func *f, const Inst *call, uint32_t mask)
{
	uint32_t local_at = 0, frame_at = 0;

	if (w->depth == MAX_DEPTH)
		fault(w, -1, CUDA_ERROR_LAUNCH_FAILED, "more than %d calls within each other",
		      MAX_DEPTH);
	if (w->depth) {
		Frame *below = &w->frame[w->depth - 1];
		local_at = (below->local_at + below->f->local_bytes + 127) & ~127u;
		frame_at = (below->frame_at + below->f->frame_bytes + 15) & ~15u;
	}
	Frame *fr = &w->frame[w->depth++];
	if (fr->cap < f->reg_bytes) {
		free(fr->regs);
		fr->cap = (f->reg_bytes + 63) & ~63u;
		fr->regs = aligned_alloc(64, fr->cap);
		if (!fr->regs)
			abort();
	}
	fr->f = f;
	fr->call = call;
	fr->stack = w->n_stack;
	fr->mask = mask;
	fr->local_at = local_at;
	fr->frame_at = frame_at;
	memset(fr->regs, 0xcb, f->reg_bytes);
	fit(&w->local, (local_at + f->local_bytes + 15) & ~15u);
	fit(&w->params, (frame_at + f->frame_bytes + 15) & ~15u);
	forget(&w->local, local_at, f->local_bytes, mask);
	forget(&w->params, frame_at, f->frame_bytes, mask);
	push(w, 0, f->n_inst, mask);
	set_banks(w);
}

static void copy_param(Warp *w, uint32_t lanes, uint32_t to, uint32_t from, uint64_t n)
{
	EACH_LANE (i, lanes) {
		size_t at = (size_t)i * w->params.size;
		memcpy(w->params.bytes + at + to, w->params.bytes + at + from, n);
		memcpy(w->params.init + at + to, w->params.init + at + from, n);
	}
}

void frame_pop(Warp *w)
{
	Frame *fr = &w->frame[w->depth - 1];

	if (--w->depth == 0) {
		end_lanes(w, w->live);
		return;
	}
	const Operand *results = fr->call->n_op > 1 && fr->call->op[0].kind == O_LIST
					 ? &fr->call->op[0]
					 : NULL;
	for (int i = 0; results && i < results->n_items; i++) {
		const Var *to = results->item[i].var, *from = fr->f->results.at[i];
		copy_param(w, fr->mask & w->live,
			   w->frame[w->depth - 1].frame_at + (uint32_t)to->at,
			   fr->frame_at + (uint32_t)from->at, from->size);
	}
	set_banks(w);
}

/* (results), function, (arguments) */
void exec_call(Warp *w, const Inst *in, uint32_t mask)
{
	const Operand *arguments = in->n_op && in->op[in->n_op - 1].kind == O_LIST
					   ? &in->op[in->n_op - 1]
					   : NULL;
	uint32_t caller = w->frame[w->depth - 1].frame_at;

	if (in->n_op < 3 && in->op[0].kind == O_LIST)
		arguments = NULL;
	frame_push(w, in->callee, in, mask);
	for (int i = 0; arguments && i < arguments->n_items; i++) {
		const Var *from = arguments->item[i].var, *to = in->callee->params.at[i];
		copy_param(w, mask, w->frame[w->depth - 1].frame_at + (uint32_t)to->at,
			   caller + (uint32_t)from->at, to->size);
	}
}

/* ---- Branches ---- */

void exec_bra(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t stay = w->mask & ~mask;
	Entry *top = &w->stack[w->n_stack - 1];
	int fall = top->pc;

	if (!stay) {
		top->pc = in->target;
		return;
	}
	if (in->uniform)
		fault(w, __builtin_ctz(stay), CUDA_ERROR_LAUNCH_FAILED,
		      "the branch is .uni, and threads of the warp differ");
	top->pc = in->meet;
	if (top->meet == in->meet)
		w->n_stack--;
	bool swap = draw(w->block, 2);
	for (int k = 0; k < 2; k++) {
		int pc = (k ^ (int)swap) ? in->target : fall;
		if (pc != in->meet)
			push(w, pc, in->meet, (k ^ (int)swap) ? mask : stay);
	}
}

/* index, labels */
void exec_brx(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t left = mask, stay = w->mask & ~mask;
	Entry *top = &w->stack[w->n_stack - 1];
	int fall = top->pc;

	top->pc = in->meet;
	if (top->meet == in->meet)
		w->n_stack--;
	if (stay && fall != in->meet)
		push(w, fall, in->meet, stay);
	while (left) {
		uint64_t index = lane_at(w, in->s[0], __builtin_ctz(left));
		uint32_t same = 0;
		if (index >= (uint64_t)in->op[1].n_items)
			fault(w, __builtin_ctz(left), CUDA_ERROR_LAUNCH_FAILED,
			      "index %llu of %d branch targets", (unsigned long long)index,
			      in->op[1].n_items);
		EACH_LANE (i, left)
			same |= (uint32_t)(lane_at(w, in->s[0], i) == index) << i;
		if (in->op[1].item[index].label != in->meet)
			push(w, in->op[1].item[index].label, in->meet, same);
		left &= ~same;
	}
}

/* ---- Ends ---- */

void end_lanes(Warp *w, uint32_t mask)
{
	w->live &= ~mask;
	w->block->n_exited += __builtin_popcount(mask);
	for (int i = 0; i < w->n_stack; i++)
		w->stack[i].mask &= ~mask;
}

void exec_exit(Warp *w, const Inst *in, uint32_t mask)
{
	(void)in;
	end_lanes(w, mask);
}

void exec_ret(Warp *w, const Inst *in, uint32_t mask)
{
	if (w->depth == 1) {
		exec_exit(w, in, mask);
		return;
	}
	for (int i = w->frame[w->depth - 1].stack; i < w->n_stack; i++)
		w->stack[i].mask &= ~mask;
}

void exec_trap(Warp *w, const Inst *in, uint32_t mask)
{
	(void)in;
	fault(w, __builtin_ctz(mask), CUDA_ERROR_ILLEGAL_INSTRUCTION, "trap");
}

void exec_nop(Warp *w, const Inst *in, uint32_t mask)
{
	(void)w;
	(void)in;
	(void)mask;
}

/* ---- Decoding ---- */

void decode_bra(Parser *p)
{
	Inst *in = p->in;

	in->uniform = take_mod(p, "uni");
	no_mods(p);
	need_operands(p, 1, 1);
	if (in->op[0].kind != O_LABEL)
		parse_fail(p, "expected a label");
	in->exec = exec_bra;
	in->cls = C_control;
}

void decode_brx(Parser *p)
{
	Inst *in = p->in;

	take_mod(p, "idx");
	in->uniform = take_mod(p, "uni");
	no_mods(p);
	need_operands(p, 2, 2);
	if (in->op[1].kind != O_LABEL)
		parse_fail(p, "expected a label");
	in->exec = exec_brx;
	in->cls = C_control;
	in->s[0] = slot_of(p, &in->op[0], T_u32, false);
}

void decode_end(Parser *p)
{
	Inst *in = p->in;

	in->uniform = take_mod(p, "uni");
	no_mods(p);
	need_operands(p, 0, 0);
	in->cls = C_control;
	in->exec = !strcmp(p->mods[0], "ret")    ? exec_ret
		   : !strcmp(p->mods[0], "exit") ? exec_exit
						 : exec_trap;
}

static void check_params(Parser *p, const Func *f, const Operand *list, int n, Var *const *formal,
			 const char *what)
{
	if ((list ? list->n_items : 0) != n)
		parse_fail(p, "%s takes %d %s", f->name, n, what);
	for (int i = 0; i < n; i++)
		if (list->item[i].kind != O_VAR || list->item[i].var->space != SP_FRAME ||
		    list->item[i].var->size != formal[i]->size)
			parse_fail(p, "%s %d is not a .param variable of that size", what, i);
}

void decode_call(Parser *p)
{
	Inst *in = p->in;
	int k = in->n_op && in->op[0].kind == O_LIST;

	take_mod(p, "uni");
	no_mods(p);
	need_operands(p, 1, 3);
	if (in->n_op <= k || in->op[k].kind != O_LABEL)
		parse_fail(p, "indirect calls are not supported");
	in->exec = exec_call;
	in->cls = C_control;
	in->op[k].kind = O_FUNC;
	in->callee = module_func(p->m, in->op[k].name);
	if (!in->callee)
		parse_fail(p, "the function %s is not declared", in->op[k].name);
}

void check_call(Parser *p, const Inst *in)
{
	const Func *f = in->callee;
	int k = in->op[0].kind == O_LIST;

	if (!f->defined)
		parse_fail(p, "%s has no body", f->name);
	check_params(p, f, k ? &in->op[0] : NULL, f->results.n, f->results.at, "results");
	check_params(p, f, in->n_op > k + 1 ? &in->op[k + 1] : NULL, f->params.n, f->params.at,
		     "arguments");
}

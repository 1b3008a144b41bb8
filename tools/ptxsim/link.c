/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a module is read: checks calls and lays out shared memory. A global variable that only one
 * kernel uses belongs to that kernel; variables that several kernels use, or that device functions
 * declare, come first, at the same address for all. After each variable is a zone that no access
 * may touch.
 */
#include "tools/ptxsim/parse.h"

enum { MOST_SHARED = 48 << 10 };

void place_var(Var *v, uint32_t *bytes)
{
	v->at = (*bytes + v->align - 1) & ~(v->align - 1);
	*bytes = (uint32_t)(v->at + v->size);
}

static bool is_placed(const Var *v)
{
	return v->space == SP_SHARED && !v->dynamic;
}

static bool mentions(const Operand *op, const Var *v)
{
	bool hit = op->var == v;

	for (int i = 0; i < op->n_items && !hit; i++)
		hit = mentions(&op->item[i], v);
	return hit;
}

/* Whether F, or a function that it calls, uses V. Functions with the MARK have been visited. */
static bool uses(Func *f, const Var *v, int mark)
{
	if (f->mark == mark)
		return false;
	f->mark = mark;
	for (int i = 0; i < f->n_inst; i++) {
		const Inst *in = &f->inst[i];
		for (int k = 0; k < in->n_op; k++)
			if (mentions(&in->op[k], v))
				return true;
		if (in->callee && uses(in->callee, v, mark))
			return true;
	}
	return false;
}

static bool kernel_uses(Module *m, Func *f, const Var *v)
{
	return v->owner == f || ((!v->owner || !v->owner->kernel) && uses(f, v, ++m->mark));
}

static void find_owner(Module *m, Var *v)
{
	Func *only = NULL;

	for (int i = 0; i < m->funcs.n; i++)
		if (m->funcs.at[i]->kernel && kernel_uses(m, m->funcs.at[i], v)) {
			if (only)
				return;
			only = m->funcs.at[i];
		}
	v->owner = only ? only : v->owner;
}

static void place_shared(Module *m)
{
	for (int i = 0; i < m->vars.n; i++)
		if (is_placed(m->vars.at[i]) &&
		    (!m->vars.at[i]->owner || !m->vars.at[i]->owner->kernel))
			find_owner(m, m->vars.at[i]);
	for (int kernels = 0; kernels < 2; kernels++) {
		for (int i = 0; i < m->vars.n; i++) {
			Var *v = m->vars.at[i];
			bool own = v->owner && v->owner->kernel;
			if (!is_placed(v) || own != (bool)kernels)
				continue;
			uint32_t *bytes = own ? &v->owner->static_shared : &m->shared_bytes;
			place_var(v, bytes);
			*bytes += ZONE;
		}
		for (int i = 0; i < m->funcs.n && !kernels; i++)
			m->funcs.at[i]->static_shared = (m->shared_bytes + 127) & ~127u;
	}
}

/* The shared memory that a kernel sees, and the size that a compiler would report. */
static void find_zones(Module *m, Func *f)
{
	for (int k = 0; k < m->vars.n; k++) {
		const Var *v = m->vars.at[k];
		if (!is_placed(v) || (v->owner && v->owner->kernel && v->owner != f))
			continue;
		vec_push(m->arena, &f->zones, (uint32_t)(v->at + v->size));
		if (kernel_uses(m, f, v))
			f->declared_shared = (uint32_t)(((f->declared_shared + v->align - 1) &
							 ~(v->align - 1)) +
							v->size);
	}
}

void link_module(Parser *p)
{
	Module *m = p->m;

	for (int i = 0; i < m->funcs.n; i++) {
		Func *f = m->funcs.at[i];
		for (int k = 0; k < f->n_inst; k++) {
			p->line = f->inst[k].line;
			if (f->inst[k].callee)
				check_call(p, &f->inst[k]);
		}
	}
	place_shared(m);
	for (int i = 0; i < m->funcs.n; i++) {
		Func *f = m->funcs.at[i];
		if (!f->kernel)
			continue;
		find_zones(m, f);
		p->line = f->line;
		if (f->declared_shared > MOST_SHARED)
			parse_fail(p, "%u bytes of shared memory in variables; at most %d",
				   f->declared_shared, MOST_SHARED);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hoist: for GPUs, loads an element only once if many points of a row read it, such as a channel's
 * scale in a norm over groups. If the number of points that read it is not a multiple of the vector
 * width (images of 7 by 7), each point would load it. A statement before those of the row loads
 * such elements into a temporary of the row, in shared memory:
 *
 *     y[g*4 + c,p] = x[g*4 + c,p] * s[g*4 + c]        s_2[g,c] = s[g*4 + c]
 *                                                     y[g*4 + c,p] = x[g*4 + c,p] * s_2[g,c]
 *
 * If a row has only one such element, the temporary is a register. If a block has many rows, the
 * block first copies the elements of all its rows to shared memory, and the new statement reads
 * them there (passes/schedule/gpu/group_bulk.c).
 */
#include "passes/forms/form.h"
#include "passes/forms/contraction.h"
#include "passes/forms/band.h"
#include "passes/module.h"
#include "runtime/vector.h"

enum {
	MOST_ELEMENTS = 256,    /* of a row */
	WIDEST = GPU_VECTOR / 2 /* 16-bit elements of one vectorised access */
};

typedef struct HoistedLoad {
	Kernel *k;
	Stmt *s;
	bool banded[MAX_ITERS]; /* by S's iterators: whether they are in the band */
	Expr *load;             /* the load to hoist; null: none */
} HoistedLoad;

static bool has_index(const Expr *load, const Iter *it)
{
	for (int i = 0; i < load->load.nidx; i++)
		if (load->load.idx[i]->kind == EX_ITER && load->load.idx[i]->iter == it)
			return true;
	return false;
}

/* Whether LOAD has the same value at all points of a row that differ only in the last
 * iterators. */
static bool is_hoisted(const HoistedLoad *x, const Expr *load)
{
	const Stmt *s = x->s;
	int64_t elements = 1, n, inner = 1;

	if (load->load.buf->kind != BUF_IN || load->load.buf->data || !load_plain(load) ||
	    dtype_info[load->load.buf->dtype].bits < 8)
		return false;
	for (int i = s->niters - 1; i >= 0; i--) {
		if (x->banded[i])
			continue;
		if (!dim_is_const(s->iter[i]->extent, &n))
			return false;
		if (has_index(load, s->iter[i]))
			elements *= n;
		else if (elements == 1)
			inner *= n;
		else
			return false;
	}
	return elements <= MOST_ELEMENTS && (elements == 1 || inner % WIDEST) && inner > WIDEST;
}

/* Adds, before statement AT, a statement that loads the element; AT then reads the temporary. */
static void fetch(HoistedLoad *x, int at)
{
	Kernel *k = x->k;
	const Buf *from = x->load->load.buf;
	Iter *of[MAX_ITERS], *it[MAX_ITERS];
	Expr *with[MAX_ITERS], *read[MAX_ITERS];
	Dim *dims[MAX_ITERS];
	Buf *temp;
	Stmt *made;
	int n = 0;

	for (int i = 0; i < x->s->niters; i++) {
		if (!x->banded[i] && !has_index(x->load, x->s->iter[i]))
			continue;
		of[n] = x->s->iter[i];
		dims[n] = of[n]->extent;
		it[n] = kernel_iter(k, of[n]->name, dims[n]);
		with[n] = ex_iter(k->pool, it[n]);
		read[n] = ex_iter(k->pool, of[n]);
		n++;
	}
	temp = kernel_temp(k, from->name, from->dtype, n, dims);
	made = kernel_map_id(k, it, temp, ex_subst_iters(k->pool, x->load, of, with, n));
	made->loc = x->s->loc;
	kernel_move_last_stmt(k, at);
	stmt_replace(k, x->s, x->load, ex_load(k->pool, temp, read, n));
}

/* Hoists one load of statement AT; false if it has no such load. */
static bool fetch_one(Kernel *k, const Band *band, int at)
{
	HoistedLoad x = {.k = k, .s = k->stmts.at[at]};
	const Stmt *s = x.s;

	if (!stmt_is_map(s) || s->guard || s->niters == band->n || s->nwidx != s->out[0]->rank ||
	    s->niters > MAX_RANK ||
	    !ex_runs_along(k->ctx, flat_index(k, s->out[0], s->widx), s->iter[s->niters - 1]))
		return false;
	for (int i = 0; i < s->niters; i++)
		x.banded[i] = band_index(band, s, s->iter[i]) >= 0;
	EX_EACH_LOAD_ALWAYS (e, s->val[0])
		if (is_hoisted(&x, e)) {
			x.load = e;
			fetch(&x, at);
			return true;
		}
	return false;
}

/* False if K has no such loads. */
static bool hoist_loads(Kernel *k)
{
	bool any = false;
	Band band;

	if (kernel_kind(k) != FORM_ROW)
		return false;
	for (int at = 0; at < k->stmts.n; at++) {
		band_of(k, k->arena, &band);
		while (band.n && fetch_one(k, &band, at)) {
			any = true;
			band_of(k, k->arena, &band);
			at++;
		}
	}
	if (any)
		kernel_mark_used(k);
	return any;
}

bool pass_hoist(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (module_schedules(m, n)) {
			hoist_loads(node_kernel(n));
			form_changed(m, n);
		}
	return true;
}

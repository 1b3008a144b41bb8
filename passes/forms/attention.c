/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/attention.h"

Iter *attention_in_values(const AttentionForm *a, const Iter *it)
{
	const int b = band_index(&a->band, a->scores.c.s, it);

	return b < 0 ? NULL : a->band.of[a->values.first][b];
}

/* Both products have the same batches and rows, and the columns of the scores are the terms of the
 * second sum. Puts the row iterators of both products in one order. */
static bool products_match(AttentionForm *a)
{
	Contraction *s = &a->scores.c, *v = &a->values.c;

	if (s->nn != 1 || v->nk != 1 || s->ng != v->ng || s->nm != v->nm ||
	    a->band.n != s->ng + s->nm || s->n[0]->extent != v->k[0]->extent)
		return false;
	for (int i = 0; i < s->ng; i++)
		if (!iter_among(attention_in_values(a, s->g[i]), v->g, v->ng))
			return false;
	for (int i = 0; i < s->nm; i++)
		if (!iter_among(attention_in_values(a, s->m[i]), v->m, v->nm))
			return false;
	for (int i = 0; i < s->nm; i++)
		v->m[i] = attention_in_values(a, s->m[i]);
	return true;
}

bool attention_in_band(const AttentionForm *a, const Stmt *s, const Expr *idx)
{
	return idx->kind == EX_CONST ||
	       (idx->kind == EX_ITER && band_index(&a->band, s, idx->iter) >= 0);
}

/* The dim of temporary T that runs over the elements of a row of scores, where S writes T and all
 * other dims are indexed by the band. -1: T has another form. */
static int row_dim(const AttentionForm *a, const Stmt *s, const Buf *t)
{
	int at = -1;

	for (int i = 0; i < t->rank; i++) {
		const int d = buf_memory_dim(t, i);

		if (t->layout && (t->layout->ax[i].div || t->layout->ax[i].mod))
			return -1;
		if (attention_in_band(a, s, s->widx[d])) {
			if (at >= 0 && s->widx[d]->kind != EX_CONST)
				return -1;
			continue;
		}
		if (at >= 0 || s->widx[d]->kind != EX_ITER ||
		    s->widx[d]->iter->extent != a->scores.n)
			return -1;
		at = d;
	}
	return at;
}

int attention_dim_of_rows(const AttentionForm *a, const Stmt *s)
{
	const Contraction *c = &a->scores.c;

	for (int i = 0; i < c->nm; i++)
		for (int d = 0; d < s->nwidx; d++)
			if (s->widx[d]->kind == EX_ITER &&
			    band_index(&a->band, s, s->widx[d]->iter) ==
				    band_index(&a->band, c->s, c->m[i]))
				return d;
	return -1;
}

Stmt *attention_writer(const Kernel *k, const Buf *t)
{
	Stmt *w = kernel_writer(k, t);

	return w && w->nout == 1 ? w : NULL;
}

static bool read_by(Kernel *k, int first, int last, const Buf *t)
{
	for (int i = first; i <= last; i++)
		if (stmt_reads(k->stmts.at[i], t))
			return true;
	return false;
}

/* S writes one element for each row. */
static bool one_a_row(const AttentionForm *a, const Stmt *s)
{
	for (int d = 0; d < s->nwidx; d++)
		if (!attention_in_band(a, s, s->widx[d]))
			return false;
	return true;
}

/* Every temporary of the first product and of the statements after it has one writer. If a later
 * statement reads it, it has one element for each score or, between the products, one for each
 * row. */
static bool temps_fit(AttentionForm *a)
{
	Kernel *k = a->k;

	a->nbufs = k->bufs.n;
	a->rows = NEW_ARRAY(k->arena, a->nbufs + 1, bool);
	for (int i = 0; i < a->nbufs; i++) {
		Buf *t = k->bufs.at[i];
		const Stmt *w = t->kind == BUF_TEMP && !t->data ? attention_writer(k, t) : NULL;
		bool later;

		if (t->kind != BUF_TEMP || t->data)
			continue;
		if (!w)
			return false;
		if (w->id >= a->values.first)
			continue;
		if (attention_dim_of_rows(a, w) < 0)
			return false;
		later = read_by(k, a->values.first, k->stmts.n - 1, t);
		a->rows[i] = later || (w->id < a->first && read_by(k, a->first, a->last, t));
		if (a->rows[i] && row_dim(a, w, t) < 0 && (w->id < a->first || !one_a_row(a, w)))
			return false;
		if (later && t != a->weights && !one_a_row(a, w))
			return false;
	}
	return true;
}

/* The second product reads the weights in place: one load, at its own row and term. */
static bool weights_fit(AttentionForm *a)
{
	const Contraction *v = &a->values.c;
	const Expr *e = v->a;
	const Stmt *w;

	if (e->kind != EX_LOAD || e->load.buf->kind != BUF_TEMP || e->load.buf->data ||
	    v->guard_a || e->load.buf->dtype != ctype_dtype(v->ct))
		return false;
	a->weights = e->load.buf;
	w = attention_writer(a->k, a->weights);
	if (!w || w->id < a->first || w->id > a->last || !stmt_is_map(w) || w->guard)
		return false;
	for (int d = 0; d < e->load.nidx; d++)
		if (!attention_in_band(a, v->s, e->load.idx[d]) &&
		    (e->load.idx[d]->kind != EX_ITER || e->load.idx[d]->iter != v->k[0]))
			return false;
	return true;
}

/* The first product, with as many of the maps after it as possible. BEFORE is the first statement
 * that does not belong to it. */
static bool begin_scores(AttentionForm *a, int before)
{
	for (int n = before - 1; n > 0; n--)
		if (product_begin_some(&a->scores, a->k, 0, n))
			return true;
	return false;
}

bool attention_begin(AttentionForm *a, Kernel *k)
{
	int second;
	FormKind mid;

	second = kernel_second_product(k);
	*a = (AttentionForm){.k = k};
	if (second < 0 || !begin_scores(a, second) ||
	    !product_begin_some(&a->values, k, second, k->stmts.n - second))
		return false;
	a->first = a->scores.nstmts;
	a->last = second - 1;
	mid = stmts_kind(k, a->first, a->last);
	if (mid != FORM_ROW && mid != FORM_MAP)
		return false;
	band_of(k, k->arena, &a->band);
	if (!products_match(a))
		return false;
	product_pack_b(&a->scores);
	product_pack_b(&a->values);
	product_pack_a(&a->values);
	if (a->scores.run < a->scores.c.nk)
		product_pack_a(&a->scores);
	product_flatten(&a->scores);
	product_flatten(&a->values);
	return a->scores.nouter == a->scores.c.ng && a->values.nouter == a->values.c.ng &&
	       weights_fit(a) && temps_fit(a);
}

bool attention_takes(Kernel *k)
{
	AttentionForm a;

	return attention_begin(&a, k);
}

int attention_row_temps(const AttentionForm *a)
{
	int n = 0;

	for (int i = 0; i < a->nbufs; i++) {
		const Buf *t = a->k->bufs.at[i];
		const Stmt *w = t->kind == BUF_TEMP && !t->data ? attention_writer(a->k, t) : NULL;

		n += w && w->id < a->values.first && (a->rows[i] || w->id >= a->first) &&
		     !one_a_row(a, w);
	}
	return n ? n : 1;
}

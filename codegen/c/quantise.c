/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that quantise: for x86-64 with AVX2, BYTES floats at a time are computed as compilers
 * vectorise them, and a function converts them to bytes. Its instructions saturate, which clamps
 * the numbers. Compilers clamp floats first, and then move single bytes: a residual sum of four
 * rows of 16 channels took 60 cycles instead of 48, a product without residual 34 instead of 25.
 */
#include "codegen/c/gen_c_impl.h"
#include "codegen/c/text.h"
#include "codegen/targets.h"

enum { BYTES = 16, VECTOR_BYTES = 32 };

/* Quantising, q = min(max(i32(rint(x)), lowest), highest), to the bounds of the stored type; or, to
 * those of i8, plus 128, which is stored as u8. */
typedef struct Quantising {
	Expr *x;
	Expr *at; /* the index of q, over the loop's variable and what is around the loop */
	const char *fn;
} Quantising;

static const char *const kind_name[] = {
	[QUANTISED_U8] = "u8", [QUANTISED_I8] = "i8", [QUANTISED_I8_AS_U8] = "i8_as_u8"};

/* The last node of N's body, if it stores; null: it does not. */
static const LNode *last_store(const LNode *n)
{
	const LNode *s = n->body;

	for (; s && s->next; s = s->next)
		if (s->kind != LN_LET && s->kind != LN_STORE)
			return NULL;
	return s && s->kind == LN_STORE ? s : NULL;
}

/* The index of store S, the last node of N's body, without the names that the body defines. */
static Expr *index_of(const Fn *f, const LNode *n, const LNode *s)
{
	ExprPool *p = f->sched->kernel->pool;
	Iter *var[MAX_ITERS];
	Expr *val[MAX_ITERS];
	int count = 0;

	for (const LNode *l = n->body; l != s; l = l->next) {
		if (l->kind != LN_LET)
			continue;
		if (count == MAX_ITERS)
			return NULL;
		val[count] = ex_subst_iters(p, l->range.lo, var, val, count);
		var[count++] = l->range.var;
	}
	return ex_subst_iters(p, s->store.idx, var, val, count);
}

/* How E is stored as an element of T; *X becomes the number that is quantised. False: it is not
 * quantised to all numbers of the type. */
static bool kind_of(DType t, const Expr *e, QuantisedKind *kind, Expr **x)
{
	const bool plus = ex_is_op(e, IN_add) && e->op.n == 2 && e->op.arg[1]->kind == EX_CONST;
	int64_t lo, hi, least;

	if ((t != DT_U8 && t != DT_I8) || !ex_limited(plus ? e->op.arg[0] : e, x, &lo, &hi))
		return false;
	*kind = t == DT_I8 ? QUANTISED_I8 : plus ? QUANTISED_I8_AS_U8 : QUANTISED_U8;
	least = *kind == QUANTISED_U8 ? 0 : INT8_MIN;
	return lo == least && hi == least + UINT8_MAX && plus == (*kind == QUANTISED_I8_AS_U8) &&
	       (!plus || e->op.arg[1]->i == -INT8_MIN);
}

static bool find(Fn *f, const LNode *n, Quantising *q)
{
	const LNode *s = last_store(n);
	QuantisedKind kind;
	bool rounds;

	if (!s || s->store.guard || !kind_of(s->store.buf[0]->dtype, s->store.val[0], &kind, &q->x))
		return false;
	q->at = index_of(f, n, s);
	if (!q->at || !ex_runs_along(f->sched->kernel->ctx, q->at, n->range.var))
		return false;
	rounds = ex_is_op(q->x, IN_rint);
	q->x = rounds ? q->x->op.arg[0] : q->x;
	q->fn = arena_printf(f->g->arena, "quantise_%s%s", kind_name[kind], rounds ? "" : "_whole");
	f->g->quantises[kind][rounds] = true;
	return true;
}

/* Prints the loop over BYTES numbers from START on, and their conversion. */
static void print_bytes(Fn *f, const LNode *n, const Quantising *q, Iter *start)
{
	Ctx *c = f->sched->kernel->ctx;
	ExprPool *p = f->sched->kernel->pool;
	const LNode *s = last_store(n);
	Buf *floats = NEW(f->g->arena, Buf);
	LNode loop = *n, store = *s, **end = &loop.body;
	Expr *from = ex_iter(p, start), *at;
	STRBUF_LOCAL(t);

	*floats = (Buf){.name = "floats", .kind = BUF_TEMP, .dtype = DT_F32, .rank = 1};
	floats->dims = NEW_ARRAY(f->g->arena, 1, Dim *);
	floats->dims[0] = dim_const(c, BYTES);
	fn_declare(f, floats, NULL);
	for (const LNode *l = n->body; l != s; l = l->next) {
		*end = NEW(f->g->arena, LNode);
		**end = *l;
		end = &(*end)->next;
	}
	*end = &store;
	store.store.buf[0] = floats;
	store.store.val[0] = q->x;
	store.store.idx = ex_sub(p, ex_iter(p, n->range.var), from);
	loop.range.lo = from;
	loop.range.hi = ex_add(p, from, ex_int(p, CT_I64, BYTES));
	loop.share.vector = BYTES;
	fn_loop(f, &loop);
	at = ex_subst_iters(p, q->at, (Iter *const *)&n->range.var, &from, 1);
	fn_texts(f, &at, 1, &t);
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(%s + (%s), %s);\n", q->fn, fn_buf(f, s->store.buf[0]),
		      strbuf_str(&t), fn_name(f, floats, NULL));
}

bool c_quantise(Fn *f, const LNode *n)
{
	ExprPool *p = f->sched->kernel->pool;
	Iter *start;
	Expr *ends[] = {n->range.lo, n->range.hi}, *trips = ex_sub(p, n->range.hi, n->range.lo);
	const bool fixed = trips->kind == EX_CONST;
	const char *name;
	StrBuf t[2] = {{0}};
	Quantising q;

	if (!target_is_x86(f->g->target) || f->g->target->vector_bytes != VECTOR_BYTES ||
	    n->share.vector || n->loop.step != 1 || (fixed && trips->i < BYTES) || !find(f, n, &q))
		return false;
	start = NEW(f->g->arena, Iter);
	*start = (Iter){.name = "start", .extent = n->range.var->extent};
	name = fn_name(f, start, start->name);
	fn_note_natural(f, &(LNode){.range.var = start, .range.lo = n->range.lo});
	fn_texts(f, ends, 2, t);
	fn_tabs(f);
	strbuf_printf(&f->body, "int64_t %s = %s;\n\n", name, strbuf_str(&t[0]));
	fn_tabs(f);
	strbuf_printf(&f->body, "for (; %s + %d <= %s; %s += %d) {\n", name, BYTES,
		      strbuf_str(&t[1]), name, BYTES);
	f->indent++;
	print_bytes(f, n, &q, start);
	fn_close(f);
	if (!fixed || trips->i % BYTES) {
		LNode rest = *n;

		rest.range.lo = ex_iter(p, start);
		rest.share.vector = 1;
		fn_loop(f, &rest);
	}
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	return true;
}

static void put_function(const GenC *g, StrBuf *b, QuantisedKind kind, bool rounds)
{
	const bool is_signed = kind != QUANTISED_U8;

	strbuf_puts(b, c_text(g->arena, "quantise",
			      C_WORDS({"NAME", kind_name[kind], 0},
				      {"WHOLE", rounds ? "" : "_whole", 0},
				      {"TYPE", kind == QUANTISED_I8 ? "int8_t" : "uint8_t", 0},
				      {"MOST", NULL, is_signed ? INT8_MAX : UINT8_MAX},
				      {"CONVERT", rounds ? "cvtps2dq" : "cvttps2dq", 0},
				      {"NUMBERS", is_signed ? "quantised_numbers" : "", 0},
				      {"PACK", is_signed ? "packsswb" : "packuswb", 0},
				      {"FLIP", kind == QUANTISED_I8_AS_U8 ? " ^ -128" : "", 0})));
}

void c_quantise_functions(const GenC *g, StrBuf *b)
{
	bool any = false;

	for (int kind = 0; kind < QUANTISED_COUNT; kind++)
		for (int rounds = 0; rounds < 2; rounds++) {
			if (!g->quantises[kind][rounds])
				continue;
			if (!any)
				strbuf_puts(b, c_text(g->arena, "quantise: types", NULL));
			any = true;
			put_function(g, b, (QuantisedKind)kind, rounds);
		}
}

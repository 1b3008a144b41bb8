/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions: folding and normal forms, by their text; reading back what is printed; affine views;
 * rewriting; and random index expressions, whose value simplification must keep.
 */
#include "ir/expr/expr_c.h"
#include "ir/kernel/kernel.h"

#include <math.h>
#include <string.h>

static int failed;

typedef struct Test {
	Ctx *c;
	Arena *arena;
	ExprPool *p;
	Iter i, j, k;
	Buf x, y, idx;
	Buf *bufs[3];
	ExprName names[5];
	ExprScope scope;
} Test;

static void fail(int line, const char *text, const char *got, const char *want)
{
	printf("test_expr.c:%d: '%s' gives '%s', expected '%s'\n", line, text, got, want);
	failed++;
}

static Buf new_buf(Test *t, const char *name, DType d, int rank)
{
	Buf b = {.name = name, .dtype = d, .rank = rank};

	b.dims = NEW_ARRAY(t->arena, rank, Dim *);
	for (int i = 0; i < rank; i++)
		b.dims[i] = dim_const(t->c, 8);
	return b;
}

static void init(Test *t, Diag *d)
{
	t->c = ctx_new(d);
	t->arena = arena_new();
	t->p = expr_pool_new(t->c, t->arena);
	t->i = (Iter){"i", 0, dim_const(t->c, 8)};
	t->j = (Iter){"j", 1, sym_get(t->c, "N")->dim};
	t->k = (Iter){"k", 2, dim_const(t->c, 3)};
	t->x = new_buf(t, "x", DT_F32, 1);
	t->y = new_buf(t, "y", DT_F64, 2);
	t->idx = new_buf(t, "idx", DT_I64, 1);
	t->bufs[0] = &t->x;
	t->bufs[1] = &t->y;
	t->bufs[2] = &t->idx;
	t->names[0] = (ExprName){"i", ex_iter(t->p, &t->i)};
	t->names[1] = (ExprName){"j", ex_iter(t->p, &t->j)};
	t->names[2] = (ExprName){"k", ex_iter(t->p, &t->k)};
	t->names[3] = (ExprName){"x", ex_param(t->p, CT_F32, 0)};
	t->names[4] = (ExprName){"y", ex_param(t->p, CT_I32, 1)};
	t->scope = (ExprScope){t->names, 5, t->bufs, 3, true, false};
}

static Expr *read_expr(Test *t, const char *text, CType ct, const char **err)
{
	const char *at = text;
	Expr *e = ex_parse_at(t->p, &at, ct, &t->scope, err);

	if (e && *at) {
		*err = "trailing text";
		return NULL;
	}
	return e;
}

/* Checks that TEXT prints as WANT (null: as itself), and that this is read back as the same
 * pointer. */
static void check(Test *t, int line, const char *text, CType ct, const char *want)
{
	const char *err = NULL;
	Expr *e = read_expr(t, text, ct, &err);
	StrBuf b = {0};

	want = want ? want : text;
	if (!e) {
		fail(line, text, err, want);
		return;
	}
	ex_print(&b, e);
	if (strcmp(strbuf_str(&b), want))
		fail(line, text, strbuf_str(&b), want);
	if (read_expr(t, strbuf_str(&b), e->ct, &err) != e)
		fail(line, text, "another expression", strbuf_str(&b));
	strbuf_free(&b);
}

static void check_error(Test *t, int line, const char *text)
{
	const char *err = NULL;

	if (read_expr(t, text, CT_F32, &err) || !err)
		fail(line, text, "no error", "an error");
}

#define I64(text, want) check(t, __LINE__, text, CT_I64, want)
#define F32(text, want) check(t, __LINE__, text, CT_F32, want)

static void test_index_forms(Test *t)
{
	I64("i + 1", NULL);
	I64("1 + i", "i + 1");
	I64("2*(i + j) - 2*i", "j*2");
	I64("i - i", "0");
	I64("3*(i + j - 2)*N", "i*dim(3*N) + j*dim(3*N) + dim(-6*N)");
	I64("i*i", NULL);
	I64("9223372036854775807 + i + 1", "i + 9223372036854775807 + 1");
	I64("floordiv(i*N + j, N)", "i");
	I64("mod(i*N + j, N)", "j");
	I64("mod(i, 8)", "i");
	I64("floordiv(i, 8)", "0");
	I64("mod(i*4 + k, 4)", "k");
	I64("floordiv(i*8 + k + 5, 4)", "i*2 + 1");
	I64("floordiv(i*8 + k + 6, 4)", "i*2 + floordiv(k + 2, 4) + 1");
	I64("floordiv(i, 3)*3 + mod(i, 3)", "mod(i, 3) + floordiv(i, 3)*3");
	I64("mod(idx[i], 8)", NULL);
	I64("index(i, 8)", "i");
	I64("index(j, 8)", NULL);
	I64("min(i, 7)", "i");
	I64("max(min(idx[i], 7), 0)", NULL);
	I64("mod(max(min(idx[i], 7), 0), 8)", "max(min(idx[i], 7), 0)");
	I64("floordiv(N*4, 4)", "dim(N)");
	I64("floordiv(7, 0)", "0");
	I64("mod(-7, 3)", "2");
	I64("rem(-7, 3)", "-1");
	I64("div(-7, 2)", "-3");
	I64("floordiv(-7, 2)", "-4");
	I64("div(-9223372036854775808, -1)", "-9223372036854775808");
	I64("shl(1, 64)", "0");
	I64("shr(-1, 70)", "-1");
	check(t, __LINE__, "inside(i, 8)", CT_BOOL, "true");
	check(t, __LINE__, "inside(i - 1, 8)", CT_BOOL, "ge(i - 1, 0)");
	check(t, __LINE__, "inside(i + k - 1, 8)", CT_BOOL, "inside(i + k - 1, 8)");
	check(t, __LINE__, "inside(i, 8) & inside(j, N)", CT_BOOL, "true");
	check(t, __LINE__, "lt(i, 9)", CT_BOOL, "true");
	check(t, __LINE__, "ge(i, 8)", CT_BOOL, "false");
}

static void test_folding(Test *t)
{
	F32("add(x, 0)", NULL);
	F32("add(x, -0.0)", "x");
	F32("sub(x, 0)", "x");
	F32("mul(x, 1)", "x");
	F32("mul(x, 0)", NULL);
	F32("div(1, 3)", "0.33333334");
	F32("div(1, 0)", "inf");
	F32("div(0, 0)", "nan");
	F32("sqrt(-1)", "nan");
	F32("max(nan, 1)", "nan");
	F32("rint(2.5)", "2");
	F32("round.f16(1.0009765625001)", "1.0009766");
	F32("round.bf16(3.0e38)", "3.0040553e+38");
	F32("roundsat.f8e4m3fn(1000)", "448");
	F32("round.f8e4m3fn(1000)", "nan");
	F32("exp(0)", "1");
	F32("mad(2, 3, 4)", "10");
	F32("select(lt(1, 2), x, 3)", "x");
	F32("select(lt(x, 2), 3, 3)", "3");
	F32("f32(f64(x))", "x");
	F32("neg(neg(x))", "x");
	F32("bits.f32(bits.i32(x))", "x");
	check(t, __LINE__, "i32(1e20)", CT_I32, "2147483647");
	check(t, __LINE__, "i32(nan)", CT_F32, "0");
	check(t, __LINE__, "add(i32(2147483647), 1)", CT_I32, "-2147483648");
	check(t, __LINE__, "round.i8(200)", CT_I32, "-56");
	check(t, __LINE__, "round.u4(-1)", CT_I32, "15");
	check(t, __LINE__, "ipow(i32(3), 4)", CT_I32, "81");
	check(t, __LINE__, "max(lt(x, 1), lt(x, 2))", CT_BOOL, "or(lt(x, 1), lt(x, 2))");
	check(t, __LINE__, "eq(i32(y[i,j]), 3)", CT_I32, NULL);
}

static void test_text(Test *t)
{
	F32("select(lt(x[i], 0), mul(0.01, x[i]), x[i])", NULL);
	F32("let s = exp(x[i + 1]); div(s, add(s, 1))",
	    "div(exp(x[i + 1]), add(exp(x[i + 1]), 1))");
	F32("let s = exp(mul(x[i], x[i])); div(s, add(s, 1))",
	    "let _1 = exp(mul(x[i], x[i])); div(_1, add(_1, 1))");
	F32("add(f32(select(lt(i, 3), i32(1), 2)), x[0])", NULL);
	F32("add(select(lt(i, 3), f32(1), 2), 5)", NULL);
	F32("f32(y[i,j + 1])", NULL);
	F32("select(lt(f32(y), 1), x[index(idx[0], 8)], inf)", NULL);
	check(t, __LINE__, "u64(0xffffffffffffffff)", CT_U64, "18446744073709551615");
	check_error(t, __LINE__, "foo(x)");
	check_error(t, __LINE__, "add(x");
	check_error(t, __LINE__, "add(x, x, x)");
	check_error(t, __LINE__, "add(x, y)");
	check_error(t, __LINE__, "z[i]");
	check_error(t, __LINE__, "y[i,j,k]");
	check_error(t, __LINE__, "floordiv(x, 2)");
	check_error(t, __LINE__, "bits.i64(x)");
	check_error(t, __LINE__, "x[x]");
	check_error(t, __LINE__, "");
}

/* ---- Simplification keeps values ---- */

static uint64_t next_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* A random index expression, and its value at a point, computed with it. */
typedef struct Sample {
	Expr *e;
	int64_t v[4];
} Sample;

static const int64_t points[4][3] = {
	{0, 0, 0}, {7, 4, 2}, {3, 1, 1}, {5, 2, 0}}; /* of i, j, k, with N = 5 */

static int64_t floor_div(int64_t a, int64_t b)
{
	return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t apply(Inst op, int64_t a, int64_t b)
{
	switch (op) {
	case IN_add: return a + b;
	case IN_sub: return a - b;
	case IN_mul: return a * b;
	case IN_floordiv: return floor_div(a, b);
	case IN_mod: return b == 0 ? a : a - b * floor_div(a, b);
	case IN_min: return a < b ? a : b;
	default: return a > b ? a : b;
	}
}

static Sample random_index(Test *t, uint64_t *s, int depth)
{
	static const Inst ops[] = {IN_add, IN_sub, IN_mul, IN_add,      IN_floordiv,
				   IN_mod, IN_min, IN_max, IN_floordiv, IN_mod};
	uint64_t r = next_random(s);
	Sample a, b, out;
	Inst op;

	if (depth == 0 || r % 5 == 0) {
		int64_t c = (int64_t)(r >> 8 & 15) - 3;
		int which = (int)((r >> 16) % 5);

		out.e = which < 3    ? t->names[which].e
			: which == 3 ? ex_int(t->p, CT_I64, c)
				     : ex_dim(t->p, sym_get(t->c, "N")->dim);
		for (int k = 0; k < 4; k++)
			out.v[k] = which < 3 ? points[k][which] : which == 3 ? c : 5;
		return out;
	}
	op = ops[(r >> 8) % (sizeof ops / sizeof *ops)];
	a = random_index(t, s, depth - 1);
	b = random_index(t, s, op == IN_floordiv || op == IN_mod ? 0 : depth - 1);
	out.e = ex_op2(t->p, op, a.e, b.e);
	for (int k = 0; k < 4; k++)
		out.v[k] = apply(op, a.v[k], b.v[k]);
	return out;
}

/* E with N = 5 and the iterators V. */
static Expr *at_point(const Test *t, Expr *e, const int64_t *v)
{
	int64_t *sym = NEW_ARRAY(t->arena, sym_count(t->c), int64_t), d;

	sym[sym_get(t->c, "N")->id] = 5;
	EX_MAP (x, t->p, &e) {
		if (x->kind == EX_DIM && dim_eval(x->dim, sym, &d))
			x = ex_int(t->p, CT_I64, d);
		else if (x->kind == EX_ITER)
			x = ex_int(t->p, CT_I64, v[x->iter->id]);
	}
	return e;
}

static void test_random_indices(Test *t)
{
	uint64_t s = 5;

	for (int n = 0; n < 3000; n++) {
		ExprPool *all = t->p;

		Sample a, b;
		Expr *less;

		t->p = expr_pool_new(t->c, t->arena);
		for (int k = 0; k < 3; k++)
			t->names[k].e = ex_iter(t->p, t->names[k].e->iter);
		a = random_index(t, &s, 4);
		b = random_index(t, &s, 2);
		less = ex_op2(t->p, IN_lt, a.e, b.e);

		for (int k = 0; k < 4; k++) {
			Expr *e = at_point(t, a.e, points[k]);
			Expr *l = at_point(t, less, points[k]);
			StrBuf text = {0};

			if (e->kind != EX_CONST || e->i != a.v[k] || l->kind != EX_CONST ||
			    l->i != (a.v[k] < b.v[k])) {
				ex_print(&text, a.e);
				fail(__LINE__, strbuf_str(&text), "another value", "its own");
				strbuf_free(&text);
				return;
			}
		}
		t->p = all;
	}
	for (int k = 0; k < 3; k++)
		t->names[k].e = ex_iter(t->p, t->names[k].e->iter);
}

/* ---- The rest ---- */

static void test_affine(Test *t)
{
	const char *err;
	Affine a;
	Expr *e = read_expr(t, "N*(i + 2*j) - k + 3*N", CT_I64, &err);

	if (!e || !ex_affine(t->c, e, &a) || a.n != 3 ||
	    !dim_equals(affine_coef(t->c, &a, &t->k), -1))
		fail(__LINE__, "affine", "no", "N*i + 2*N*j - k + 3*N");
	else if (ex_from_affine(t->p, &a) != e)
		fail(__LINE__, "affine", "another", "the same expression");
	e = read_expr(t, "floordiv(i, 3) + j", CT_I64, &err);
	if (ex_affine(t->c, e, &a))
		fail(__LINE__, "affine", "yes", "no");
}

static void test_rewrite(Test *t)
{
	Arena *a = arena_new();
	ExprPool *other = expr_pool_new(t->c, a);
	const char *err;
	Expr *e = read_expr(t, "add(exp(x[i]), x[i + 1])", CT_F32, &err);
	Iter *from[] = {&t->i};
	Expr *to[] = {ex_int(t->p, CT_I64, 2)};

	EX_MAP (x, other, &e)
		if (x->kind == EX_LOAD)
			x = ex_num(other, x->ct, 0);
	if (e->kind != EX_CONST || e->f != 1)
		fail(__LINE__, "rewrite", "another value", "1");
	e = read_expr(t, "x[i + 1]", CT_F32, &err);
	if (ex_subst_iters(t->p, e, from, to, 1) != read_expr(t, "x[3]", CT_F32, &err))
		fail(__LINE__, "subst", "another value", "x[3]");
	arena_free(a);
}

static void put_iter(void *arg, StrBuf *b, const Iter *it)
{
	(void)arg;
	strbuf_puts(b, it->name);
}

static const char *sym_name(void *arg, const Sym *s)
{
	(void)arg;
	return s->name;
}

static void put_dim(void *arg, StrBuf *b, Dim *d)
{
	dim_print_c(b, d, sym_name, arg);
}

static void put_load(void *arg, StrBuf *b, const Expr *e, const char *const *idx)
{
	(void)arg;
	strbuf_printf(b, "%s[%s]", e->load.buf->name, idx[0]);
}

static void check_c(Test *t, int line, const char *text, const char *want)
{
	const char *err = NULL;
	Expr *e = read_expr(t, text, CT_F32, &err);
	ExprC c = {.arena = t->arena, .iter = put_iter, .dim = put_dim, .load = put_load};
	StrBuf b = {0}, v = {0};

	if (!e) {
		fail(line, text, err, want);
		return;
	}
	ex_c(&c, &b, e, &v);
	strbuf_puts(&b, strbuf_str(&v));
	if (strcmp(strbuf_str(&b), want))
		fail(line, text, strbuf_str(&b), want);
	strbuf_free(&b);
	strbuf_free(&v);
}

static void test_c(Test *t)
{
	check_c(t, __LINE__, "x[i*dim(N + 1) + j - 1]", "x[i * (N + 1) + j - 1]");
	check_c(t, __LINE__, "x[j - 3*i + k]", "x[j - i * 3 + k]");
	check_c(t, __LINE__, "x[j - i]", "x[j - i]");
	check_c(t, __LINE__, "select(lt(x, 0), x[i], 0)", "(x < 0.0f) ? x[i] : 0.0f");
	check_c(t, __LINE__, "mul(add(x, 1), add(x, 1))", "const float t0 = x + 1.0f;\nt0 * t0");
	/* What both arms load is loaded once; other loads stay in their arm. */
	check_c(t, __LINE__, "select(lt(x, 0), mul(x[i], exp(x[i])), x[i])",
		"const float t0 = x[i];\n(x < 0.0f) ? (t0 * dl_exp_f32(t0)) : t0");
	check_c(t, __LINE__, "select(lt(x, 0), mul(add(x[i], 1), add(x[i], 1)), 2)",
		"float t1;\nif (x < 0.0f) {\n\tconst float t0 = x[i] + 1.0f;\n\tt1 = t0 * t0;\n} else {\n\tt1 = 2.0f;\n}\nt1");
	check_c(t, __LINE__, "min(x, x[i])", "dl_min_f32(x, x[i])");
	check_c(t, __LINE__, "i32(min(x, 2))", "dl_cvt_f32_i32(dl_min_f32(2.0f, x))");
}

static void test_functions(Test *t)
{
	for (int i = 0; i < INST_COUNT; i++) {
		if (!inst_is_func((Inst)i))
			continue;
		for (CType ct = CT_F32; ct <= CT_F64; ct++)
			if (!ex_func_body(t->p, (Inst)i, ct) ||
			    ex_func_body(t->p, (Inst)i, ct)->ct != ct)
				fail(__LINE__, inst_info[i].name, "no body", "one of its type");
	}
}

int main(void)
{
	Diag d = {0};
	Test t;

	init(&t, &d);
	test_index_forms(&t);
	test_folding(&t);
	test_text(&t);
	test_random_indices(&t);
	test_affine(&t);
	test_rewrite(&t);
	test_c(&t);
	test_functions(&t);
	arena_free(t.arena);
	ctx_free(t.c);
	return failed != 0;
}

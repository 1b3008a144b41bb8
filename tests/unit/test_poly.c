/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of schedules by isl: schedules of the strategies are proved, and every way of breaking
 * one is detected. A checker that cannot fail proves nothing.
 */
#include "codegen/targets.h"
#include "passes/forms/band.h"
#include "passes/poly/poly.h"
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/row_impl.h"
#include "passes/schedule/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

static int failed;

typedef struct PolyCase {
	Arena *a;
	Ctx *c;
	Kernel *k, *clone;
	Schedule s;
} PolyCase;

static Diag diag = {.limit = 100};

static void read_case(PolyCase *t, const char *text)
{
	const char *p = text;
	int line = 1;

	t->a = arena_new();
	t->c = ctx_new(&diag);
	t->k = kernel_parse(t->c, t->a, &p, &line);
	if (!t->k) {
		printf("test_poly.c: cannot read:\n%s\n", text);
		exit(1);
	}
	t->clone = kernel_clone(t->k, t->a);
	t->s = (Schedule){.kernel = t->clone};
}

static const char *const verdicts[] = {"proved", "unproved", "wrong"};

/* Checks the verdict on T's schedule, and that the message contains SAYS. */
static void expect(PolyCase *t, const char *what, PolyVerdict v, const char *says)
{
	StrBuf why = {0};
	PolyVerdict got = poly_verdict(t->k, &t->s, 0, &why);

	if (got != v || (says && !strstr(strbuf_str(&why), says))) {
		StrBuf text = {0};

		schedule_print(&text, &t->s);
		printf("test_poly.c: %s: %s (%s), not %s (%s)\n%s\n", what, verdicts[got],
		       strbuf_str(&why), verdicts[v], says ? says : "", strbuf_str(&text));
		strbuf_free(&text);
		failed++;
	}
	strbuf_free(&why);
	ctx_free(t->c);
	arena_free(t->a);
}

/* ---- Schedules ---- */

static const Target target = {.name = "test",
			      .vector_bytes = 32,
			      .registers = 16,
			      .l1 = 32768,
			      .l2 = 1 << 20,
			      .cores = 4,
			      .wake = 16384};

/* Schedules T's kernel by STRATEGY, as that one chooses. */
static void emit_as(PolyCase *t, Strategy strategy)
{
	Decision d = {.strategy = strategy};

	if (strategy_table[strategy].choose(&target, kernel_clone(t->k, t->a), &d)) {
		strategy_table[strategy].emit(&target, t->clone, &d, &t->s);
	} else {
		printf("test_poly.c: no %s\n", strategy_table[strategy].name);
		failed++;
	}
}

static void contraction(PolyCase *t)
{
	emit_as(t, STRATEGY_PRODUCT);
}

static void row(PolyCase *t)
{
	emit_as(t, kernel_kind(t->k) == FORM_MAP ? STRATEGY_MAP : STRATEGY_ROW);
}

static void attention(PolyCase *t)
{
	emit_as(t, STRATEGY_ATTENTION);
}

static void order(PolyCase *t)
{
	emit_as(t, STRATEGY_ORDER);
}

/* Puts all statements into one stage whose parallel loop runs over the first iterator of each,
 * whatever they read. */
static void forced(PolyCase *t)
{
	Kernel *k = t->clone;
	LBuild b = {.sched = &t->s, .k = k, .p = k->pool, .arena = k->arena, .stmt = -1};
	Band band = {.n = 1, .of = arena_array(k->arena, (size_t)k->stmts.n, sizeof *band.of)};
	const RowPlan plan = {.strategy = "row",
			      .last = k->stmts.n - 1,
			      .band = &band,
			      .stage = NEW(k->arena, RowStage),
			      .how = NEW_ARRAY(k->arena, k->stmts.n, StmtDecision),
			      .grain = 1};

	for (int i = 0; i < k->stmts.n; i++) {
		k->stmts.at[i]->id = i;
		band.of[i][0] = k->stmts.at[i]->iter[0];
	}
	band.iter[0] = vec_last(&k->stmts)->iter[0];
	row_choose(target_table, &b, &plan);
	t->s.stages.n = 0;
	row_emit_stage(&b, &plan);
}

/* ---- Faults ---- */

/* Node number N of KIND, in the order of the text. */
static LNode *find(LNode *l, LNodeKind kind, int *n)
{
	for (; l; l = l->next) {
		LNode *in;

		if (l->kind == kind && (*n)-- == 0)
			return l;
		in = find(l->body, kind, n);
		if (in)
			return in;
	}
	return NULL;
}

static LNode *node(PolyCase *t, LNodeKind kind, int n)
{
	for (int i = 0; i < t->s.stages.n; i++) {
		LNode *l = find(t->s.stages.at[i]->body, kind, &n);

		if (l)
			return l;
	}
	printf("test_poly.c: no such node\n");
	exit(1);
}

static LNode *part(LNode *l, LPart p)
{
	for (; l; l = l->next) {
		LNode *in;

		if (l->point.part == p)
			return l;
		in = part(l->body, p);
		if (in)
			return in;
	}
	return NULL;
}

/* The innermost loop around the first node with part P. */
static LNode *loop_around(LNode *l, LPart p)
{
	for (; l; l = l->next)
		if (l->kind == LN_LOOP && part(l->body, p)) {
			LNode *in = loop_around(l->body, p);

			return in ? in : l;
		}
	return NULL;
}

/* ---- Kernels ---- */

#define SOFTMAX                                                             \
	"kernel @softmax(%x: f32[B,S,C]) -> (%y: f32[B,S,C]) {\n"           \
	"  m: f32[B,S]\n  e: f32[B,S,C]\n  s: f32[B,S]\n"                   \
	"  m[i,j] = max x[i,j,k] for i < B, j < S over k < C\n"             \
	"  e[i,j,k] = exp(sub(x[i,j,k], m[i,j])) for i < B, j < S, k < C\n" \
	"  s[i,j] = sum e[i,j,k] for i < B, j < S over k < C\n"             \
	"  y[i,j,k] = div(e[i,j,k], s[i,j]) for i < B, j < S, k < C\n}"
#define TWICE                                                                         \
	"kernel @twice(%x: f32[B,40000], %z: f32[B,40000]) -> (%y: f32[B,40000]) {\n" \
	"  m: f32[B]\n  n: f32[B]\n"                                                  \
	"  m[i] = max x[i,k] for i < B over k < 40000\n"                              \
	"  n[i] = max z[i,k] for i < B over k < 40000\n"                              \
	"  y[i,k] = add(mul(x[i,k], m[i]), mul(z[i,k], n[i])) for i < B, k < 40000\n}"
#define MATMUL                                                                          \
	"kernel @matmul(%a: f32[B,S,96], %b: f32[96,80]) -> (%y: f32[B,S,80]) {\n"      \
	"  c: f32[B,S,80]\n"                                                            \
	"  c[g,m,n] = sum mul(a[g,m,k], b[k,n]) for g < B, m < S, n < 80 over k < 96\n" \
	"  y[g,m,n] = max(c[g,m,n], 0) for g < B, m < S, n < 80\n}"
#define ATTENTION                                                                               \
	"kernel @attention(%q: f32[S,32], %x: f32[32,T], %v: f32[T,16]) -> (%y: f32[S,16]) {\n" \
	"  s: f32[S,T]\n  t: f32[S,T]\n  m: f32[S]\n  e: f32[S,T]\n"                            \
	"  s[i,j] = sum mul(q[i,k], x[k,j]) for i < S, j < T over k < 32\n"                     \
	"  t[i,j] = select(le(j, i), s[i,j], -1) for i < S, j < T\n"                            \
	"  m[i] = max t[i,j] for i < S over j < T\n"                                            \
	"  e[i,j] = exp(sub(t[i,j], m[i])) for i < S, j < T\n"                                  \
	"  y[i,n] = sum mul(e[i,j], v[j,n]) for i < S, n < 16 over j < T\n}"
#define ADDED                                                                                             \
	"kernel @added(%q: f32[S,32], %x: f32[32,T], %v: f32[T,16], %b: f32[S,T]) -> (%y: f32[S,16]) {\n" \
	"  s: f32[S,T]\n  t: f32[S,T]\n  m: f32[S]\n  e: f32[S,T]\n"                                      \
	"  s[i,j] = sum mul(q[i,k], x[k,j]) for i < S, j < T over k < 32\n"                               \
	"  t[i,j] = add(mul(s[i,j], 0.125), b[i,j]) for i < S, j < T\n"                                   \
	"  m[i] = max t[i,j] for i < S over j < T\n"                                                      \
	"  e[i,j] = exp(sub(t[i,j], m[i])) for i < S, j < T\n"                                            \
	"  y[i,n] = sum mul(e[i,j], v[j,n]) for i < S, n < 16 over j < T\n}"
#define CONV                                                                                     \
	"kernel @conv(%x: f32[N,3,20,20], %w: f32[16,3,3,3]) -> (%y: f32[N,16,20,20]) {\n"       \
	"  c: f32[N,16,20,20]\n"                                                                 \
	"  c[n,o,h,w] = sum mul(x[n,c,h+r-1,w+s-1], w[o,c,r,s]) for n < N, o < 16, h < 20, w < " \
	"20\n"                                                                                   \
	"    over c < 3, r < 3, s < 3 where inside(h+r-1, 20) & inside(w+s-1, 20)\n"             \
	"  y[n,o,h,w] = max(c[n,o,h,w], 0) for n < N, o < 16, h < 20, w < 20\n}"
#define COLUMNS                                                   \
	"kernel @columns(%x: f32[R,3000]) -> (%y: f32[3000]) {\n" \
	"  y[j] = sum x[i,j] for j < 3000 over i < R\n}"
#define WHOLE                                                   \
	"kernel @whole(%x: f32[N,C,H,W]) -> (%y: f32[N,C]) {\n" \
	"  y[n,c] = sum x[n,c,h,w] for n < N, c < C over h < H, w < W\n}"
#define SHIFTED                                                 \
	"kernel @shifted(%x: f32[N,40]) -> (%y: f32[N,40]) {\n" \
	"  t: f32[N,40]\n"                                      \
	"  t[i,j] = neg(x[i,j]) for i < N, j < 40\n"            \
	"  y[i,j] = t[N - 1 - i,j] for i < N, j < 40\n}"
#define MASKED                                                             \
	"kernel @masked(%x: f32[M,N], %z: f32[M,N]) -> (%y: f32[M,N]) {\n" \
	"  y[i,j] = select(lt(mod(j, 4), 2), x[i,j], z[i,j]) for i < M, j < N\n}"
#define BOUNDED                                                                \
	"kernel @bounded(%x: f32[M,40], %z: f32[M,40]) -> (%y: f32[M,40]) {\n" \
	"  y[i,j] = select(lt(j, 38), x[i,j], z[i,j]) for i < M, j < 40\n}"
#define SCAN                                                   \
	"kernel @scan(%x: f32[N,700]) -> (%y: f32[N,700]) {\n" \
	"  y[i,j] = scan sum x[i,j] for i < N over j < 700\n}"
#define SCATTER                                                           \
	"kernel @scatter(%v: f32[600], %i: i64[600]) -> (%y: f32[9]) {\n" \
	"  y[k] = 0 for k < 9\n"                                          \
	"  y[i[j]] = update sum v[j] for j < 600\n}"
#define LAST                                                           \
	"kernel @last(%v: f32[600], %i: i64[600]) -> (%y: f32[9]) {\n" \
	"  y[k] = 0 for k < 9\n"                                       \
	"  y[i[j]] = ordered update v[j] for j < 600\n}"
#define WINDOW                                                                                    \
	"kernel @window(%x: f32[N,C,30,30]) -> (%y: f32[N,C,30,30]) {\n"                          \
	"  y[n,c,h,w] = max x[n,c,h+r-1,w+s-1] for n < N, c < C, h < 30, w < 30 over r < 3, s < " \
	"3\n"                                                                                     \
	"    where inside(h+r-1, 30) & inside(w+s-1, 30)\n}"
#define CONCAT                                                                 \
	"kernel @concat(%a: f32[N,4], %b: f32[M,4]) -> (%y: f32[M + N,4]) {\n" \
	"  y[i,j] = a[i,j] for i < N, j < 4\n"                                 \
	"  y[k + N,l] = b[k,l] for k < M, l < 4\n}"
#define WINDOWS(size, pad, step, h, w)                                                             \
	"kernel @windows(%x: f32[N,H,W,48], %f: f32[48," #size "," #size "]) -> (%y: f32[N," h     \
	"," w ",48]) {\n"                                                                          \
	"  y[n,h,w,c] = sum mul(x[n," #step "*h+r-" #pad "," #step "*w+s-" #pad ",c], f[c,r,s])\n" \
	"    for n < N, h < " h ", w < " w ", c < 48 over r < " #size ", s < " #size "\n"          \
	"    where inside(" #step "*h+r-" #pad ", dim(H)) & inside(" #step "*w+s-" #pad            \
	", dim(W))\n}"
#define WIDE WINDOWS(5, 2, 1, "H", "W")
#define STRIDED WINDOWS(3, 1, 2, "floor(H + 1, 2)", "floor(W + 1, 2)")
/* More sizes than the checker compares pairwise. */
#define SIZES                                                                                      \
	"kernel @sizes(%x: f32[max(M, N)], %s: f32[A + B,C + D,E + F,G + H,I + J,N,max(M, N)])\n"  \
	"    -> (%y: f32[N,max(M, N)], %t: f32[A + B,C + D,E + F,G + H,I + J,N,max(M, N)]) {\n"    \
	"  y[i,j] = neg(x[j]) for i < N, j < max(M, N)\n"                                          \
	"  t[a,b,c,d,e,k,l] = add(s[a,b,c,d,e,k,l], y[k,l]) for k < N, l < max(M, N), a < A + B, " \
	"b < C + D, c < E + F, d < G + H, e < I + J\n}"

#define ZEROS                                   \
	"kernel @zeros() -> (%y: f32[M,N]) {\n" \
	"  y[i,j] = 0 for i < M, j < N\n}"

#define ONE_PLACE                                        \
	"kernel @last(%v: f32[M,N]) -> (%y: f32[1]) {\n" \
	"  y[0] = ordered update v[i,j] for i < M, j < N\n}"

static void right(void)
{
	static const struct {
		const char *name, *text;
		void (*sched)(PolyCase *t);
	} cases[] = {
		{"softmax", SOFTMAX, row},
		{"softmax in order", SOFTMAX, order},
		{"matmul", MATMUL, contraction},
		{"matmul in order", MATMUL, order},
		{"conv", CONV, contraction},
		{"conv in order", CONV, order},
		{"columns", COLUMNS, row},
		{"whole", WHOLE, row},
		{"shifted", SHIFTED, order},
		{"scan", SCAN, order},
		{"scatter", SCATTER, order},
		{"window", WINDOW, row},
		{"concat", CONCAT, order},
		{"wide windows", WIDE, row},
		{"strided windows", STRIDED, row},
		{"many sizes", SIZES, row},
		{"a mask", MASKED, row},
		{"a mask that bounds loops", BOUNDED, row},
		{"attention", ATTENTION, attention},
		{"a mask that is added", ADDED, attention},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		PolyCase t;

		read_case(&t, cases[i].text);
		cases[i].sched(&t);
		expect(&t, cases[i].name, POLY_PROVED, NULL);
	}
}

/* Updates with one monoid may be concurrent if each is atomic; no other accesses may. */
static void atomics(void)
{
	PolyCase t;
	LNode *l;
	Stage *st;

	for (int wrong = 0; wrong < 2; wrong++) {
		read_case(&t, wrong ? LAST : SCATTER);
		order(&t);
		l = part(t.s.stages.at[1]->body, wrong ? PART_WRITE : PART_TERM);
		l->kind = LN_ATOMIC;
		loop_around(t.s.stages.at[1]->body, l->point.part)->loop.kind = LOOP_VECTOR;
		expect(&t, "updates in one step", wrong ? POLY_WRONG : POLY_PROVED,
		       wrong ? "a node of this kind cannot carry out this part" : NULL);
	}
	read_case(&t, SCATTER);
	order(&t);
	part(t.s.stages.at[1]->body, PART_TERM)->kind = LN_ATOMIC;
	st = t.s.stages.at[0];
	t.s.stages.at[0] = t.s.stages.at[1];
	t.s.stages.at[1] = st;
	expect(&t, "a step before what it updates", POLY_WRONG, "output dependence through y");
}

static void wrong_order(void)
{
	PolyCase t;
	Stage *st;
	LNode *l, *first;

	read_case(&t, SOFTMAX);
	order(&t);
	st = t.s.stages.at[0];
	t.s.stages.at[0] = t.s.stages.at[1];
	t.s.stages.at[1] = st;
	expect(&t, "swapped stages", POLY_WRONG, "runs backwards");

	read_case(&t, SCATTER);
	order(&t);
	st = t.s.stages.at[0];
	t.s.stages.at[0] = t.s.stages.at[1];
	t.s.stages.at[1] = st;
	expect(&t, "an update before what it updates", POLY_WRONG, "output dependence through y");

	read_case(&t, SHIFTED);
	forced(&t);
	expect(&t, "a temporary read in another row", POLY_WRONG, "flow through t");

	/* a reduction's initial value after its terms */
	read_case(&t, COLUMNS);
	row(&t);
	l = node(&t, LN_LOCAL, 0);
	first = l->next;
	l->next = first->next;
	first->next = l->next->next;
	l->next->next = first;
	expect(&t, "the first value after the terms", POLY_WRONG, "flow of the state");
}

static void wrong_loops(void)
{
	PolyCase t;

	read_case(&t, COLUMNS);
	row(&t);
	for (LNode *l = t.s.stages.at[0]->body; l; l = l->next)
		if (l->kind == LN_LOOP && l->loop.kind == LOOP_SERIAL)
			l->loop.kind = LOOP_VECTOR;
	expect(&t, "terms at once", POLY_WRONG, "the combining of terms");

	read_case(&t, SCAN);
	order(&t);
	loop_around(t.s.stages.at[0]->body, PART_TERM)->loop.kind = LOOP_VECTOR;
	expect(&t, "a prefix at once", POLY_WRONG, "carried by a parallel loop");

	read_case(&t, SCATTER);
	order(&t);
	loop_around(t.s.stages.at[1]->body, PART_TERM)->loop.kind = LOOP_VECTOR;
	expect(&t, "a scatter at once", POLY_WRONG, "the combining of terms through y");
}

/* The loop over windows that are computed at once. */
static LNode *windows_side_by_side(PolyCase *t)
{
	for (LNode *l = t->s.stages.at[0]->body; l; l = l->next)
		if (l->kind == LN_LOOP && l->loop.step > 1)
			return l;
	printf("test_poly.c: no windows side by side\n");
	exit(1);
}

static void wrong_points(void)
{
	PolyCase t;
	LNode *l;
	Stage *st;

	read_case(&t, COLUMNS);
	row(&t);
	st = t.s.stages.at[0];
	st->extent = dim_sub(t.c, st->extent, dim_const(t.c, 1));
	expect(&t, "no last block", POLY_WRONG, "is not carried out");

	read_case(&t, MATMUL);
	contraction(&t);
	l = node(&t, LN_LOOP, 0);
	while (l->kind != LN_LOOP || !part(l->body, PART_TERM))
		l = l->next;
	l->loop.step--;
	expect(&t, "tiles that overlap", POLY_WRONG, "is executed twice");

	read_case(&t, MATMUL);
	contraction(&t);
	node(&t, LN_TILE, 0)->tile->m_valid = ex_int(t.clone->pool, CT_I64, 5);
	expect(&t, "a tile short of a row", POLY_WRONG, "a term of statement 0");

	read_case(&t, WINDOW);
	row(&t);
	part(t.s.stages.at[0]->body, PART_TERM)->store.guard = NULL;
	l = loop_around(t.s.stages.at[0]->body, PART_TERM);
	l->range.hi = ex_sub(t.clone->pool, l->range.hi, ex_int(t.clone->pool, CT_I64, 1));
	expect(&t, "a window short of a column", POLY_WRONG, "is not carried out");

	read_case(&t, WIDE);
	row(&t);
	windows_side_by_side(&t)->loop.step--;
	expect(&t, "windows that overlap", POLY_WRONG, "is executed, but is not a point");

	read_case(&t, STRIDED);
	row(&t);
	windows_side_by_side(&t)->loop.step++;
	expect(&t, "a window between others", POLY_WRONG, "is not carried out");

	read_case(&t, STRIDED);
	row(&t);
	l = windows_side_by_side(&t)->next;
	l->range.lo = ex_add(t.clone->pool, l->range.lo, ex_int(t.clone->pool, CT_I64, 1));
	expect(&t, "a window left out", POLY_WRONG, "is not carried out");

	read_case(&t, CONCAT);
	order(&t);
	t.s.stages.n = 1;
	expect(&t, "a statement left out", POLY_WRONG, "is not carried out");

	read_case(&t, CONCAT);
	order(&t);
	vec_push(t.a, &t.s.stages, t.s.stages.at[0]);
	expect(&t, "a stage twice", POLY_WRONG, "is executed twice");
}

static void wrong_locals(void)
{
	PolyCase t;
	LNode *l;
	Expr *zero;

	/* all exponentials of a row in one element */
	read_case(&t, SOFTMAX);
	row(&t);
	for (int i = 0;; i++) {
		l = node(&t, LN_STORE, i);
		if (l->point.stmt == 1 && l->point.part == PART_WRITE)
			break;
	}
	l->store.idx = ex_int(t.clone->pool, CT_I64, 0);
	expect(&t, "a row in one cell", POLY_WRONG, "the local of a value");

	/* each point reads the exponential of the next point */
	read_case(&t, SOFTMAX);
	row(&t);
	for (int i = 0;; i++) {
		l = node(&t, LN_STORE, i);
		if (l->point.stmt == 3)
			break;
	}
	zero = ex_int(t.clone->pool, CT_I64, 0);
	l->store.val[0] = ex_op2(
		t.clone->pool, IN_div,
		ex_load(t.clone->pool, l->store.val[0]->op.arg[0]->load.buf, &zero, 1),
		l->store.val[0]->op.arg[1]);
	expect(&t, "an element of another point", POLY_WRONG, "reads another element of");
}

/* The points are right, but the values there are not the statement's. */
static void wrong_values(void)
{
	Expr *one;
	LNode *l;
	PolyCase t;

	read_case(&t, MASKED);
	row(&t);
	l = part(t.s.stages.at[0]->body, PART_WRITE);
	one = ex_op2(t.clone->pool, IN_lt, ex_int(t.clone->pool, CT_I64, 0),
		     ex_int(t.clone->pool, CT_I64, 2));
	l->store.val[0] = ex_op3(t.clone->pool, IN_select, one, l->store.val[0]->op.arg[1],
				 l->store.val[0]->op.arg[2]);
	expect(&t, "a condition without its iterator", POLY_WRONG, "the value of statement 0");

	/* the loop where the condition holds stores what stands where it does not */
	read_case(&t, BOUNDED);
	row(&t);
	l = part(t.s.stages.at[0]->body, PART_WRITE);
	l->store.val[0] = ex_load(t.clone->pool, t.clone->bufs.at[1], &l->store.val[0]->load.idx[0],
				  1);
	expect(&t, "the other value of a choice", POLY_WRONG, "the value of statement 0");

	read_case(&t, MASKED);
	row(&t);
	l = part(t.s.stages.at[0]->body, PART_WRITE);
	one = ex_int(t.clone->pool, CT_I64, 1);
	l->store.idx = ex_add(t.clone->pool, l->store.idx, one);
	expect(&t, "another place", POLY_WRONG, "the place of statement 0");

	read_case(&t, SHIFTED);
	order(&t);
	l = part(t.s.stages.at[1]->body, PART_WRITE);
	l->store.val[0] = ex_num(t.clone->pool, CT_F32, 1);
	expect(&t, "a number instead of a value", POLY_WRONG, "the value of statement 1");

	read_case(&t, SHIFTED);
	order(&t);
	l = part(t.s.stages.at[1]->body, PART_WRITE);
	l->store.val[0] = ex_load(t.clone->pool, l->store.val[0]->load.buf, &l->store.idx, 1);
	expect(&t, "an element of another row", POLY_WRONG, "the value of statement 1");

	read_case(&t, COLUMNS);
	row(&t);
	for (int i = 0;; i++) {
		l = node(&t, LN_STORE, i);
		if (l->point.part == PART_WRITE)
			break;
	}
	l->store.val[0] = ex_load(t.clone->pool, t.clone->bufs.at[0], &l->store.idx, 1);
	expect(&t, "a term instead of the sum", POLY_WRONG, "not a state of statement 0");

	/* the sum of a block of terms is not added to the state */
	read_case(&t, COLUMNS);
	row(&t);
	for (int i = 0;; i++) {
		l = node(&t, LN_UPDATE, i);
		if (l->point.part == PART_NONE)
			break;
	}
	l->store.val[0] = ex_num(t.clone->pool, CT_F32, 1);
	expect(&t, "a block of terms left out", POLY_WRONG, "not a state of statement 0");

	/* hidden keys are taken for those before the row's own, too; or where nothing is hidden */
	read_case(&t, ATTENTION);
	attention(&t);
	l = node(&t, LN_TILE, 0);
	one = l->tile->mask.when;
	l->tile->mask.when = ex_op2(t.clone->pool, IN_eq, one->op.arg[0], one->op.arg[1]);
	expect(&t, "scores left out that are read", POLY_WRONG, "the condition of statement 0");

	read_case(&t, ATTENTION);
	attention(&t);
	one = node(&t, LN_TILE, 0)->tile->mask.when;
	node(&t, LN_TILE, 1)->tile->mask.when = ex_op1(t.clone->pool, IN_not, one);
	expect(&t, "results left out", POLY_WRONG, "of statement 4, whose sums are all read");

	/* values are taken for finite: some are not looked at, or other elements are */
	read_case(&t, ATTENTION);
	attention(&t);
	l = node(&t, LN_REDUCE, 0);
	l->range.hi = ex_int(t.clone->pool, CT_I64, 16);
	expect(&t, "some values may be NaN", POLY_WRONG, "of statement 4 that may be NaN");

	read_case(&t, ATTENTION);
	attention(&t);
	node(&t, LN_TILE, 1)->tile->mask.trim = node(&t, LN_TILE, 0)->tile->acc;
	expect(&t, "another local than the sum of zeros", POLY_WRONG,
	       "of statement 4 that may be NaN");

	/* scores are taken for bounded: some keys are not looked at, or no key is */
	read_case(&t, ADDED);
	attention(&t);
	l = node(&t, LN_REDUCE, 0);
	l->range.hi = ex_int(t.clone->pool, CT_I64, 16);
	expect(&t, "some scores may be large", POLY_WRONG, "of statement 0 that may be large");

	read_case(&t, ADDED);
	attention(&t);
	node(&t, LN_TILE, 0)->tile->mask.squares = NULL;
	expect(&t, "scores of any size left out", POLY_WRONG,
	       "of statement 0, whose sums are all read");

	read_case(&t, ADDED);
	attention(&t);
	node(&t, LN_TILE, 0)->tile->mask.squares = node(&t, LN_TILE, 1)->tile->mask.trim;
	expect(&t, "the sum of zeros instead of the squares", POLY_WRONG,
	       "of statement 0 that may be large");
}

/* A row that is longer than the registers of a block can hold: the rest is in the block's
 * scratch, whose memory another row uses after it. */
static void wrong_scratch(void)
{
	static const struct {
		const char *what, *says;
		/* the number of the local among those that threads keep, and its byte in scratch */
		int local;
		int64_t at;
	} fault[] = {
		{"each in its own place", NULL, 0, 0},
		{"a local over one that is read after it", "another local is where", 1, 0},
		{"a local over a half of one that is read after it", "another local is where", 1,
		 40960},
		{"past the end", "outside of scratch", 1, 1 << 20},
	};
	const Gpu gpu = {.sm = 80,
			 .sms = 108,
			 .shared = 163 << 10,
			 .block_shared = 163 << 10,
			 .threads = 2048,
			 .registers = 64 << 10};
	Target t80 = target;

	t80.gpu = &gpu;
	for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
		PolyCase t;
		LNode *l;

		read_case(&t, TWICE);
		sched_gpu(&t80, t.clone, &t.s);
		for (int n = 0, kept = 0;; n++) {
			l = node(&t, LN_LOCAL, n);
			if (l->local.scratch && kept++ == fault[i].local)
				break;
		}
		l->local.at = ex_int(t.clone->pool, CT_I64, fault[i].at);
		expect(&t, fault[i].what, fault[i].says ? POLY_WRONG : POLY_PROVED, fault[i].says);
	}
}

/* Peeled accesses: those of a row begin up to 7 elements before it. How many is given by the
 * row's number, or, if not BY_ROW, by the access's own number, which is not affine. The last END
 * points are left out. */
static void peeled(PolyCase *t, bool by_row, int64_t end)
{
	LBuild b = l_build(t->clone, &t->s);
	Stmt *s = t->clone->stmts.at[0];
	ExprPool *p = b.p;
	Expr *at[] = {ex_iter(p, s->iter[0]), ex_iter(p, s->iter[1])};
	Expr *n = ex_dim(p, s->iter[1]->extent), *guard, *x;
	Iter *u = l_iter(&b, "u", dim_add(t->c, s->iter[1]->extent, dim_const(t->c, 7)));
	LNode *loop;

	l_of(&b, s);
	l_stage(&b, "map", s->iter[0]->extent);
	l_let(&b, s->iter[0], ex_iter(p, b.stage->var));
	loop = l_loop(&b, LOOP_SERIAL, u, l_int(&b, 0), ex_dim(p, u->extent), 1);
	x = ex_mul(p, by_row ? at[0] : ex_iter(p, u), n);
	x = ex_sub(p, ex_iter(p, u), ex_op2(p, IN_mod, x, l_int(&b, 8)));
	guard = ex_and(p, ex_op2(p, IN_ge, x, l_int(&b, 0)),
		       ex_op2(p, IN_lt, x, ex_sub(p, n, l_int(&b, end))));
	l_let(&b, s->iter[1], x);
	l_does(&b, l_store(&b, s->out[0], flat_index(t->clone, s->out[0], at), s->val[0], guard),
	       PART_WRITE, at, 2);
	l_close(&b, loop);
}

/* As peeled, with rows and accesses in one loop, whose variable determines how many elements are
 * peeled. */
static void peeled_flat(PolyCase *t)
{
	LBuild b = l_build(t->clone, &t->s);
	Stmt *s = t->clone->stmts.at[0];
	ExprPool *p = b.p;
	Expr *at[] = {ex_iter(p, s->iter[0]), ex_iter(p, s->iter[1])};
	Dim *wide = dim_add(t->c, s->iter[1]->extent, dim_const(t->c, 7));
	Expr *n = ex_dim(p, s->iter[1]->extent), *w = ex_dim(p, wide), *q, *x;

	l_of(&b, s);
	l_stage(&b, "map", dim_mul(t->c, s->iter[0]->extent, wide));
	q = ex_iter(p, b.stage->var);
	l_let(&b, s->iter[0], ex_op2(p, IN_floordiv, q, w));
	x = ex_op2(p, IN_mod, ex_mul(p, q, n), l_int(&b, 8));
	x = ex_sub(p, ex_op2(p, IN_mod, q, w), x);
	l_let(&b, s->iter[1], x);
	l_does(&b,
	       l_store(&b, s->out[0], flat_index(t->clone, s->out[0], at), s->val[0],
		       ex_and(p, ex_op2(p, IN_ge, x, l_int(&b, 0)), ex_op2(p, IN_lt, x, n))),
	       PART_WRITE, at, 2);
}

/* Columns whose accesses are peeled: each access has a row's point from a later row, by a number
 * that depends on the column and is not affine. */
static void peeled_columns(PolyCase *t)
{
	LBuild b = l_build(t->clone, &t->s);
	Stmt *s = t->clone->stmts.at[0];
	ExprPool *p = b.p;
	Expr *zero = l_int(&b, 0), *row, *at[2];
	Dim *rows = s->iter[0]->extent;
	Iter *u = l_iter(&b, "u", dim_add(t->c, rows, dim_const(t->c, 7)));
	LNode *outer, *inner;

	l_of(&b, s);
	l_stage(&b, "map", dim_const(t->c, 1));
	outer = l_loop(&b, LOOP_SERIAL, u, zero, ex_dim(p, u->extent), 1);
	inner = l_loop(&b, LOOP_SERIAL, s->iter[1], zero, ex_dim(p, s->iter[1]->extent), 1);
	at[1] = ex_iter(p, s->iter[1]);
	row = ex_op2(p, IN_mod, ex_mul(p, at[1], ex_dim(p, rows)), l_int(&b, 8));
	at[0] = row = ex_sub(p, ex_iter(p, u), row);
	l_let(&b, s->iter[0], row);
	l_does(&b,
	       l_store(&b, s->out[0], zero, s->val[0],
		       ex_and(p, ex_op2(p, IN_ge, row, zero),
			      ex_op2(p, IN_lt, row, ex_dim(p, rows)))),
	       PART_WRITE, at, 2);
	l_close(&b, inner);
	l_close(&b, outer);
}

static void rests(void)
{
	PolyCase t;

	read_case(&t, ZEROS);
	peeled_flat(&t);
	expect(&t, "each point of one loop peeled by a number of its own", POLY_UNPROVED, NULL);

	read_case(&t, ONE_PLACE);
	peeled_columns(&t);
	expect(&t, "an order between points whose numbers differ", POLY_UNPROVED, NULL);

	read_case(&t, ZEROS);
	peeled(&t, true, 0);
	expect(&t, "each row peeled by a number of its own", POLY_PROVED, NULL);

	read_case(&t, ZEROS);
	peeled(&t, true, 1);
	expect(&t, "peeled rows without their last points", POLY_WRONG, "is not carried out");

	read_case(&t, ZEROS);
	peeled(&t, false, 0);
	expect(&t, "each point peeled by a number of its own", POLY_UNPROVED, NULL);
}

static void limits(void)
{
	StrBuf why = {0};
	PolyCase t;

	read_case(&t, CONV);
	contraction(&t);
	if (poly_verdict(t.k, &t.s, 100, &why) != POLY_UNPROVED) {
		printf("test_poly.c: a spent budget is not a proof: %s\n", strbuf_str(&why));
		failed++;
	}
	strbuf_free(&why);
	ctx_free(t.c);
	arena_free(t.a);
}

int main(void)
{
	diag.out = stdout;
	right();
	atomics();
	wrong_order();
	wrong_loops();
	wrong_points();
	wrong_locals();
	wrong_values();
	wrong_scratch();
	rests();
	limits();
	return failed != 0;
}

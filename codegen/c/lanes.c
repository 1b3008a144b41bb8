/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that combine the partial states of a reduction's lanes: each half with the other, until
 * one state is left. clang compiles a loop over so few lanes to scalar instructions, a hundred for
 * 32 lanes, so for clang each step is written as an operation on vectors. gcc vectorises the loop.
 */
#include "codegen/c/gen_c_impl.h"
#include "codegen/c/text.h"

const char *c_combine_lanes(GenC *g, Monoid red, CType ct, int lanes)
{
	const Lanes new = {red, ct, lanes};

	if (red != MONOID_sum && red != MONOID_prod && red != MONOID_max && red != MONOID_min)
		return NULL;
	for (int i = 0;; i++) {
		if (i == g->lanes.n)
			vec_push(g->arena, &g->lanes, new);
		if (g->lanes.at[i].red == red && g->lanes.at[i].ct == ct &&
		    g->lanes.at[i].lanes == lanes)
			break;
	}
	return arena_printf(g->arena, "combine_%s_%s_%d", monoid_info[red].name, ctype_name[ct],
			    lanes);
}

/* Prints the combination of vectors aN and bN, to rN. NaN in either one is the result: of a
 * comparison with NaN the second operand is taken, as by the instructions for min and max of
 * x86. */
static void put_step(StrBuf *b, const Lanes *l, int n)
{
	const char *order = l->red == MONOID_max ? ">" : "<";

	if (l->red == MONOID_sum || l->red == MONOID_prod) {
		strbuf_printf(b, "\tconst v%d r%d = a%d %s b%d;\n", n, n, n,
			      l->red == MONOID_sum ? "+" : "*", n);
		return;
	}
	strbuf_printf(b, "\tconst v%d %c%d = (v%d)DL_CHOOSE(a%d %s b%d, a%d, b%d);\n", n,
		      ctype_is_float(l->ct) ? 'm' : 'r', n, n, n, order, n, n, n);
	if (ctype_is_float(l->ct))
		strbuf_printf(b, "\tconst v%d r%d = (v%d)DL_CHOOSE(a%d != a%d, a%d, m%d);\n", n, n,
			      n, n, n, n, n);
}

/* The combination of states A and B. */
static const char *combined(const GenC *g, const Lanes *l, const char *a, const char *b)
{
	if (l->red == MONOID_sum || l->red == MONOID_prod)
		return arena_printf(g->arena, "%s %s %s", a, l->red == MONOID_sum ? "+" : "*", b);
	return arena_printf(g->arena, "dl_%s_%s(%s, %s)", monoid_info[l->red].name,
			    ctype_name[l->ct], a, b);
}

static void put_function(GenC *g, StrBuf *b, const Lanes *l)
{
	const char *type = c_type(l->ct), *from = "part";
	const int bytes = ctype_bytes(l->ct);
	STRBUF_LOCAL(steps);

	for (int n = l->lanes / 2; n > 1; n /= 2) {
		strbuf_printf(&steps,
			      "\ttypedef %s v%d __attribute__((vector_size(%d)));\n"
			      "\tv%d a%d, b%d;\n"
			      "\t__builtin_memcpy(&a%d, %s, sizeof a%d);\n"
			      "\t__builtin_memcpy(&b%d, %s + %d, sizeof b%d);\n",
			      type, n, n * bytes, n, n, n, n, from, n, n, from, n, n);
		put_step(&steps, l, n);
		from = arena_printf(g->arena, "(const %s *)&r%d", type, n);
	}
	strbuf_puts(b, c_text(g->arena, "lanes",
			      C_WORDS({"TYPE", type, 0},
				      {"NAME", c_combine_lanes(g, l->red, l->ct, l->lanes), 0},
				      {"STEPS", strbuf_str(&steps), 0},
				      {"LAST",
				       l->lanes > 2 ? combined(g, l, "r2[0]", "r2[1]")
						    : combined(g, l, "part[0]", "part[1]"),
				       0},
				      {"HALF", NULL, l->lanes / 2},
				      {"COMBINED",
				       combined(g, l, "part[lane]", "part[lane + half]"), 0})));
}

void c_lanes_functions(GenC *g, StrBuf *b)
{
	for (int i = 0; i < g->lanes.n; i++)
		put_function(g, b, &g->lanes.at[i]);
}

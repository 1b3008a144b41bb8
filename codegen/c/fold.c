/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that combine the partial states of a reduction's lanes: one half with the other, again and again. Compilers
 * take a loop for it apart into scalars, of which 32 lanes need a hundred instructions, so each step is written as one
 * operation of vectors.
 */
#include "codegen/c/gen_c_impl.h"

/* Prints the operation of vectors aN and bN, to rN. NaN in either operand is the result. */
static void put_step(StrBuf *b, Monoid red, int n)
{
	if (red == MONOID_sum || red == MONOID_prod)
		strbuf_printf(b, "\tconst v%d r%d = a%d %s b%d;\n", n, n, n,
			      red == MONOID_sum ? "+" : "*", n);
	else
		strbuf_printf(
			b,
			"\tconst __typeof__(a%d > b%d) is_a%d = (a%d %s b%d) | (a%d != a%d);\n"
			"\tconst v%d r%d = (v%d)((is_a%d & (__typeof__(is_a%d))a%d) | (~is_a%d & (__typeof__(is_a%d))b%d));\n",
			n, n, n, n, red == MONOID_max ? ">" : "<", n, n, n, n, n, n, n, n, n, n, n,
			n);
}

const char *c_fold(GenC *g, Monoid red, CType ct, int lanes)
{
	const Fold new = {red, ct, lanes};

	if (red != MONOID_sum && red != MONOID_prod && red != MONOID_max && red != MONOID_min)
		return NULL;
	for (int i = 0;; i++) {
		if (i == g->folds.n)
			vec_push(g->arena, &g->folds, new);
		if (g->folds.at[i].red == red && g->folds.at[i].ct == ct && g->folds.at[i].lanes == lanes)
			break;
	}
	return arena_printf(g->arena, "fold_%s_%s_%d", monoid_info[red].name, ctype_name[ct], lanes);
}

static void put_fold(GenC *g, StrBuf *b, const Fold *f)
{
	const char *type = c_type(f->ct), *from = "part";
	const int bytes = dtype_info[ctype_dtype(f->ct)].bits / 8;

	strbuf_printf(b, "static inline %s %s(const %s *part)\n{\n", type,
		      c_fold(g, f->red, f->ct, f->lanes), type);
	for (int n = f->lanes / 2; n > 1; n /= 2) {
		strbuf_printf(b,
			      "\ttypedef %s v%d __attribute__((vector_size(%d)));\n"
			      "\tv%d a%d, b%d;\n"
			      "\t__builtin_memcpy(&a%d, %s, sizeof a%d);\n"
			      "\t__builtin_memcpy(&b%d, %s + %d, sizeof b%d);\n",
			      type, n, n * bytes, n, n, n, n, from, n, n, from, n, n);
		put_step(b, f->red, n);
		from = arena_printf(g->arena, "(const %s *)&r%d", type, n);
	}
	from = f->lanes > 2 ? "r2" : "part";
	if (f->red == MONOID_sum || f->red == MONOID_prod)
		strbuf_printf(b, "\treturn %s[0] %s %s[1];\n}\n\n", from,
			      f->red == MONOID_sum ? "+" : "*", from);
	else
		strbuf_printf(b, "\treturn dl_%s_%s(%s[0], %s[1]);\n}\n\n",
			      monoid_info[f->red].name, ctype_name[f->ct], from, from);
}

void c_fold_functions(GenC *g, StrBuf *b)
{
	for (int i = 0; i < g->folds.n; i++)
		put_fold(g, b, &g->folds.at[i]);
}

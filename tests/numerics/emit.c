/* SPDX-License-Identifier: Apache-2.0 */
/* Prints every function of ir/expr/funcs.def as C over ir/expr/scalar.h, and a table of them, for ulp.c to
 * measure. */
#include "ir/expr/expr_c.h"

#include <stdio.h>

int main(void)
{
	Diag diag = {.out = stderr};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	FuncUses all = {0};
	StrBuf b = {0};

	for (int i = 0; i < INST_COUNT; i++)
		all.used[i][0] = all.used[i][1] = inst_is_func((Inst)i);
	ex_c_funcs(&b, expr_pool_new(c, a), &all);
	printf("#include \"ir/expr/scalar.h\"\n\n%s", strbuf_str(&b));
	for (int n = 1; n <= 2; n++) {
		printf("#define FUNCS_%d(X)", n);
		for (int i = 0; i < INST_COUNT; i++)
			if (inst_is_func((Inst)i) && inst_info[i].nargs == n)
				printf(" X(%s)", inst_info[i].name);
		printf("\n");
	}
	strbuf_free(&b);
	arena_free(a);
	ctx_free(c);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints every function of ir/expr/funcs.def as C over ir/expr/scalar.h, and a table of them, for
 * ulp.c to measure. */
#include "ir/expr/expr_c.h"

#include <stdio.h>

int main(void)
{
	Diag diag = {.out = stderr};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	FuncUses all = {0};
	StrBuf b = {0};

	for (int i = 0; i < INST_COUNT; i++) {
		all.used[i][FUNC_F32] = all.used[i][FUNC_F64] = inst_is_func((Inst)i);
		all.used[i][FUNC_NEAR] = func_near_limit((Inst)i) > 0;
	}
	ex_c_funcs(&b, expr_pool_new(c, a), &all);
	printf("#include \"ir/expr/scalar.h\"\n\n%s", strbuf_str(&b));
	/* the f32 functions of one operand; those with a form FUNC_NEAR also say whether it
	 * agrees */
	for (int i = 0; i < INST_COUNT; i++) {
		const char *name = inst_info[i].name;

		if (func_near_limit((Inst)i) > 0)
			printf("#define F32_%s(x) agreed(dl_%s_f32(x), __builtin_fabsf(x) <= %g ? dl_%s_near(x) : dl_%s_f32(x))\n",
			       name, name, (double)func_near_limit((Inst)i), name, name);
		else if (inst_is_func((Inst)i) && inst_info[i].nargs == 1)
			printf("#define F32_%s(x) dl_%s_f32(x)\n", name, name);
	}
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

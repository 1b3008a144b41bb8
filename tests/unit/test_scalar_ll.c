/* SPDX-License-Identifier: Apache-2.0 */
/* ir/expr/scalar.ll defines every instruction for every type that it accepts, every conversion and
 * every element type. The definitions are tested by running them: path ptx of the model suites. */
#include "codegen/nvptx/nvptx_impl.h"

#include <stdio.h>

static int faults, tried;

static void wants(LlLib *l, const char *name)
{
	tried++;
	if (ll_lib_has(l, name))
		return;
	faults++;
	printf("ir/expr/scalar.ll has no @%s\n", name);
}

static bool takes(InstRule rule, CType t)
{
	switch (rule) {
	case RULE_ARITH: return t != CT_BOOL;
	case RULE_FLOAT: return ctype_is_float(t);
	case RULE_INT: return t != CT_BOOL && !ctype_is_float(t);
	case RULE_CMP: return true;
	case RULE_TEST: return t != CT_BOOL;
	case RULE_BITS: return !ctype_is_float(t);
	default: return false;
	}
}

/* Kernels compare bools only by eq and ne; there is no order of bools. */
static bool orders_bools(Inst i, CType t)
{
	return t == CT_BOOL && inst_info[i].rule == RULE_CMP && i != IN_eq && i != IN_ne;
}

int main(void)
{
	Arena *a = arena_new();
	LlLib *l = ll_lib_new(a, 0);

	for (int i = 0; i < INST_COUNT; i++)
		for (CType t = CT_BOOL; t < CT_COUNT; t++)
			if (takes(inst_info[i].rule, t) && !orders_bools((Inst)i, t))
				wants(l,
				      arena_printf(a, "%s_%s", inst_info[i].name, ctype_name[t]));
	for (CType s = CT_BOOL; s < CT_COUNT; s++)
		for (CType t = CT_BOOL; t < CT_COUNT; t++)
			if (s != t)
				wants(l,
				      arena_printf(a, "cvt_%s_%s", ctype_name[s], ctype_name[t]));
	for (DType d = DT_F32; d < DT_COUNT; d++) {
		static const char *const what[] = {"decode", "encode", "round", "roundsat"};

		for (int i = 0; i < 4 && d != DT_STR; i++)
			wants(l, arena_printf(a, "%s_%s", what[i], dtype_info[d].name));
	}
	wants(l, "index");
	printf("%d functions\n", tried);
	arena_free(a);
	return faults ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline, on one screen. */
#include "passes/module.h"

const Pass pass_table[] = {
	{"infer", pass_infer, "types, shapes and contents of shape tensors; composites are expanded: all else needs types"},
	{"lower", pass_lower, "each node to statements: after this no op is named again"},
	{"fuse", pass_fuse, "kernel boundaries: anchors, operand chains, epilogues, rows"},
	{"layout", pass_layout, "constant operands of contractions to panels, by kernels that run at build time"},
	{"sched", pass_sched, "loop trees, once a target: needs final statements and layouts"},
	{"memplan", pass_memplan, "places of values: needs the temporaries that schedules keep"},
	{0},
};

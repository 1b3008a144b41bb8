/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a graph to kernels with schedules and memory: this table, in this order. */
#include "passes/module.h"

const Pass pass_table[] = {
	{"infer", pass_infer,
	 "types and sizes of every value; composite ops become their parts, so that no later pass names them"},
	{"canon", pass_canon,
	 "folds, cancels, merges: while nodes are still ops with laws to know them by"},
	{"lower", pass_lower, "every node becomes statements: from here on no op is named"},
	{"place", pass_place,
	 "sizes to the host, for GPUs: once it is known who reads what, before kernels of both sides could fuse"},
	{"algebra", pass_algebra,
	 "products of bytes less zero points become those of bytes, for GPUs: while zero points stand apart from what follows"},
	{"views", pass_views,
	 "rows and the maps behind a View get one shape, for GPUs: on statements, before a View in the way keeps them apart"},
	{"fuse", pass_fuse,
	 "kernel boundaries: on statements, before layouts fix who shares which buffer"},
	{"constants", pass_constants,
	 "halves that folding made f32 are halves again, for GPUs: on kernels, before layouts are of a type's size"},
	{"layout", pass_layout,
	 "which axis of each tensor is innermost, by its readers and writers; panels for the constants of contractions"},
	{"sched", pass_sched,
	 "a loop tree for every kernel and target: needs layouts, gives the temporaries' sizes"},
	{"memplan", pass_memplan,
	 "slots for values and temporaries: last, when nothing moves any more"},
	{0},
};

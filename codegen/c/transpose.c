/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that transpose: the elements of a row are contiguous when they are read, and those of a
 * column when they are written. The C function processes squares of as many rows as a vector has
 * elements, and transposes them in registers: pairs of rows are interleaved by elements, then by
 * pairs of these, and so on, each within lanes of 16 bytes, which all CPUs can do in one
 * instruction; last, lanes are exchanged.
 */
#include "codegen/c/transpose.h"

#include "codegen/c/text.h"

enum {
	LANE_BYTES = 16,
	/* Bytes of a vector: with longer ones, squares would have more rows than most tensors. */
	MOST_BYTES = 32,
	MOST_ROWS = 16 /* so many vectors fit into registers */
};

/* A square of ROWS vectors of elements of SIZE bytes; a lane has LANE elements. */
typedef struct Square {
	StrBuf *b;
	int rows, size, lane;
} Square;

/* The index, in vector A followed by vector B, of the element that becomes element I when both
 * are interleaved: parts of STEP elements alternate, from the first half of each lane, or from
 * the second if HIGH. */
static int interleaved(const Square *q, int i, int step, bool high)
{
	const int lane = i / q->lane * q->lane, part = i % q->lane / step;

	return (part % 2 ? q->rows : 0) + lane + (high ? q->lane / 2 : 0) + part / 2 * step +
	       i % step;
}

/* The index of the element that becomes element I when lanes of A and B are exchanged: the low
 * lanes of both, or the high ones if HIGH. */
static int exchanged(const Square *q, int i, bool high)
{
	return (i >= q->lane ? q->rows : 0) + (high ? q->lane : 0) + i % q->lane;
}

/* Declares row TO of stage STAGE, a shuffle of rows A and B of the stage before it. STEP 0:
 * lanes are exchanged. */
static void put_shuffle(const Square *q, int stage, int to, int a, int b, int step, bool high)
{
	strbuf_printf(q->b, "\tconst row r%d_%d = __builtin_shufflevector(r%d_%d, r%d_%d", stage,
		      to, stage - 1, a, stage - 1, b);
	for (int i = 0; i < q->rows; i++)
		strbuf_printf(q->b, ", %d",
			      step ? interleaved(q, i, step, high) : exchanged(q, i, high));
	strbuf_puts(q->b, ");\n");
}

/* Loads the rows, shuffles them, and stores them. */
static void put_stages(const Square *q)
{
	int stage = 0;

	for (int i = 0; i < q->rows; i++)
		strbuf_printf(q->b, "\tconst row r0_%d = *(const row *)(from + %d * from_step);\n",
			      i, i);
	for (int step = 1; step < q->lane; step *= 2) {
		stage++;
		for (int i = 0; i < q->rows; i++) {
			const int group = i / (2 * step) * 2 * step, a = group + i % (2 * step) / 2;

			put_shuffle(q, stage, i, a, a + step, step, i % 2);
		}
	}
	if (q->lane < q->rows) {
		stage++;
		for (int i = 0; i < q->rows; i++)
			put_shuffle(q, stage, i, i % q->lane, i % q->lane + q->lane, 0,
				    i >= q->lane);
	}
	for (int i = 0; i < q->rows; i++)
		strbuf_printf(q->b, "\t*(row *)(to + %d * to_step) = r%d_%d;\n", i, stage, i);
}

/* Prints the function for elements of SIZE bytes. */
static void put_function(const GenC *g, StrBuf *b, int size)
{
	const int most = g->target->vector_bytes < MOST_BYTES ? g->target->vector_bytes
							      : MOST_BYTES,
		  rows = most / size > MOST_ROWS ? MOST_ROWS : most / size;
	STRBUF_LOCAL(shuffles);
	const Square q = {&shuffles, rows, size, LANE_BYTES / size};

	put_stages(&q);
	strbuf_puts(b, c_text(g->arena, "transpose",
			      C_WORDS({"SIZE", NULL, size}, {"BITS", NULL, size * 8},
				      {"ROWS", NULL, rows}, {"BYTES", NULL, rows * size},
				      {"LINE", NULL, CACHE_LINE / size},
				      {"SHUFFLES", strbuf_str(&shuffles), 0})));
}

const char *c_transpose(GenC *g, int size)
{
	g->transposes[size] = true;
	return arena_printf(g->arena, "transpose_%d", size);
}

void c_transpose_functions(GenC *g, StrBuf *b, int file)
{
	for (int size = 1; size <= MOST_TRANSPOSED; size *= 2)
		if (g->transposes[size] && gen_c_calls(g, c_transpose(g, size), file))
			put_function(g, b, size);
}

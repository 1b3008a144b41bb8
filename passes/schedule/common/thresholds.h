/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thresholds by which CPU schedules are chosen, each with its reason. Figures of a machine (its
 * caches, registers, cores and the time to wake a thread) are in the table of targets instead.
 */
#ifndef PASSES_SCHEDULE_COMMON_THRESHOLDS_H
#define PASSES_SCHEDULE_COMMON_THRESHOLDS_H

enum {
	/* ---- Products ---- */

	/* Rows of a tile by the number of vector registers: with two vectors of columns, the sums,
	 * a row of B and an element of A take 15 of 16 registers, or 19 of 32. */
	TILE_ROWS = 6,
	TILE_ROWS_MANY = 8,
	/* The same, of fewer than 32 registers, where B is quantised: its words, a row of floats
	 * and zero points take six registers more. And where bytes are multiplied in pairs:
	 * their products, and what masks and adds them, take registers, too. */
	TILE_ROWS_SCALED = 4,
	/* A tile of so many rows may do with one less: its sums still hide the latency of the
	 * multiply-add. */
	LEAST_TILE_ROWS = 6,
	/* Independent sums of a tile of few rows: those that two units for multiply-adds of four
	 * cycles work on. Over a panel of halves, one row with two sums took 1.7 times as long, and
	 * two rows with four 1.4 times; over one of floats 1.2 and 1.5 times. Where B is quantised,
	 * its numbers take the time to make floats of them. */
	TILE_SUMS = 8,
	TILE_SUMS_SCALED = 4,
	/* Terms, at most, of a tile that is inlined. A call, its arguments and sums in memory cost
	 * some 50 cycles: on AVX2, 16 terms took 1.39 times as long, 64 terms 1.08. Longer sums
	 * gain less than it takes to compile them. */
	INLINED_TERMS = 256,
	/* Rows of a tile with one vector of columns. AVX2 computed a product of 8 columns at 93%
	 * of its roof with 8, at 87% with 10, and at 77% in tiles of 6x16 of which half is left
	 * out. */
	NARROW_ROWS = 8,
	/* Rows and columns of a block, at most, where B is in panels already. So few rows are
	 * one block. Of more rows, or an unknown number, blocks are smaller, so that their
	 * results stay in L1 and L2, and a panel is read in longer parts: with 512 KiB of L2,
	 * one row took 0.8 to 0.9 of the time. */
	PRODUCT_ROWS = 128,
	PRODUCT_ROWS_MANY = 64,
	PRODUCT_COLUMNS = 128,
	/* Blocks of such a product, at least, where that leaves LEAST_TILES tiles of rows in
	 * each: of 16 blocks, two to four threads do shares that differ by little. */
	PRODUCT_BLOCKS = 16,
	/* Tiles of rows, at least, that share a panel of B in L1: it is read from L2 once for all. */
	LEAST_TILES = 2,
	/* Least rows of an image for which the number of rows is treated as known although the
	 * batch is symbolic: an image of 7x7 points has more. Of fewer, the run's sizes decide. */
	KNOWN_ROWS = 32,
	/* An element that another core has just written takes so many times as long to read as
	 * one of weights, which no core writes: 13 ns a cache line were measured, against 2 ns
	 * from L3. */
	REMOTE_COST = 5,
	/* So many rows are blocks enough for all cores: a block then has all columns, if B fits
	 * into L2, so that its results and its rows of A are contiguous in memory. */
	SPLIT_ROWS = 12 * PRODUCT_ROWS_MANY,
	/* Columns of a block of B that is packed: more do not save a pass over A that counts. */
	MOST_COLUMNS = 512,
	/* Rows of a block that share a packed block of B, if the number of rows is unknown. */
	PACKED_ROWS = 512,
	/* Terms of a sum between two roundings of KC: the loop over terms is unrolled by it. */
	DEPTH_STEP = 8,
	/* Multiply-adds of a core in a nanosecond: two vectors of 8 f32 in a clock of 1 GHz, as
	 * slow as a loaded core gets. */
	TERMS_PER_NS = 16,
	/* A product of fewer rows is bound by reading B, so it takes as long as one of so many. */
	READING_ROWS = 4,

	/* ---- Slices of a batch ---- */

	/* Bytes of the arena of a slice, for each thread. A core's share of the last cache is 4
	 * to 32 MiB. On one with 32 MiB, ResNet-50 took 60.3, 62.2, 65.0 and 66.3 ms an image in
	 * slices with arenas of 11, 20, 39 and 75 MiB, MobileNetV2 6.4, 6.6, 7.1 and 7.8 ms with
	 * 6, 12, 24 and 48, and MobileNetV3, whose weights are larger, 5.1, 4.9, 5.2 and 5.7
	 * with 4.4, 9, 18 and 35. */
	SLICE_BYTES = 10 << 20,

	/* ---- Attention ---- */

	/* Rows whose scores a thread has in memory at once, at most. The rows of a mask that are
	 * read beside them lie in as many pages, whose lines a CPU fetches ahead if they are
	 * few. On one with 1 MiB of L2, attention over 1,024 keys with a mask took 43.9 ms with
	 * 64 and 32 rows and 38.9 with 16, without a mask 35.6, 35.3 and 35.2. */
	ATTENTION_ROWS = 16,

	/* ---- Winograd's convolutions ---- */

	/* Operations that take as long as the transform of an element of the image or of the
	 * products: it is loaded about seven times, from L1, and stored twice. Measured on
	 * channels of 64 and 128. */
	WINOGRAD_TRANSFORM = 28,
	/* Percent of the time of a convolution by its taps that one by Winograd may take. */
	WINOGRAD_GAIN = 90,
	/* With fewer channels, the sums that hide the rounding of the transforms are short: the
	 * error could be above that of a convolution by its taps (docs/numerics.md). */
	WINOGRAD_CHANNELS = 16,
	/* Rows and columns of images of unknown size. */
	WINOGRAD_IMAGE = 64,

	/* ---- Rows and maps ---- */

	/* Points, at most, of an innermost loop of a transpose that is shorter than a vector, and
	 * unrolled. 224x224 pixels with channels innermost took 13 us for 3 channels so, and 59
	 * with vectors of pixels; of 5 channels, 172 and 110. */
	INTERLEAVED = 4,
	/* Remainders and bounds, at most, of an index that are looked through for a range where
	 * it is contiguous: those of four pads of pads. Each pad has the index of the one before
	 * it several times, so that many of them would take minutes. */
	MOST_WRAPPED = 12,
	/* Points of a row for which the sum across lanes at its end is cheap. */
	LONG_REDUCTION = 64,
	/* Points of the vector iterator in one iteration: states of a block stay in L1. */
	ROW_BLOCK = 512,
	/* With many temporaries it is shorter, for the same reason, but some vectors long. */
	LEAST_BLOCK = 64,
	/* A single map has no states. Longer blocks have less overhead. */
	MAP_BLOCK = 4096,
	/* Bytes of a row of a transpose's tile: a cache line, all of which is used before the
	 * next tile needs its place. A block of columns is some lines long. A matrix of
	 * 1024x1024 f32, whose rows compete for the same places in L1, took 0.28 ms so, 0.38
	 * with rows of two lines, 0.44 with half a line, and 3.5 without tiles. */
	TRANSPOSE_BYTES = 64,
	TRANSPOSE_BLOCK = 256,
	/* A stencil's tile is a rectangle, whose other side has up to TILE_POINTS. */
	STENCIL_BLOCK = 64,
	TILE_POINTS = 32,
	/* Adjacent points of a stencil that share their loads. With two vectors each, more of them
	 * would not keep their states in 16 registers. */
	STENCIL_POINTS = 4,
	/* Taps of a stencil along one iterator, and taps that are unrolled, at most: of a larger
	 * one, loops go over the outer iterators of the taps. GPUs unroll all or none. */
	MOST_TAPS = 64,
	/* Instructions for a point, at most, of the maps after a product or a stencil that are
	 * unrolled over some of its points: a bias, a residual and an activation have up to 8.
	 * Functions are not: they gained nothing on AVX-512, and took 1.1 times as long on AVX2,
	 * which has too few registers for their constants. */
	MOST_SHORT_MAPS = 16,
	/* Terms of an innermost sum, at most, that are unrolled inside the vector loop: a state is
	 * loaded and stored once for all of them. 9x9 from 64 channels of 128x128 to 3 took 12.9
	 * ms so, and 23.5 with a term at a time. */
	MOST_UNROLLED = 16,
	/* Elements of a packed row, at most, whose copies are unrolled. */
	MOST_UNROLLED_COPIES = 8,
	/* Terms of a float sum that are added one after another: a longer sum is computed from the
	 * sums of such blocks, so that its error grows with their number. */
	SUM_BLOCK = 512,
	/* Points of a row in a nanosecond: an estimate for vectors of points with one function
	 * call. Shorter kernels, shared, take longer: copies of 8,192 elements took a
	 * microsecond alone and three on two threads. */
	POINTS_PER_NS = 4,
	/* Statements of some multiply-adds that take as long together, in vectors. Measured on
	 * the transforms of Winograd's convolutions. */
	SIMPLE_STMTS = 16,

	/* ---- Fusion and layouts on CPUs ---- */

	/* The highest cost of a map whose bytes a stencil computes again for each tap, rather
	 * than to load them: what it costs to dequantise them. */
	MOST_RECOMPUTED = 4,
	/* Elements, at most, that a map dequantises from constant bytes into a table of its own: 64
	 * KiB of f32, which stay in L2. */
	MOST_DEQUANTISED = 1 << 14,
	/* A reduction that is no stencil is computed about as fast with vectors of states as with
	 * lanes along the sum, so its vote for a layout counts by this factor less. */
	EITHER_WAY = 16,
	/* Elements between the pixels of a vector, at most, for which it is loaded without a
	 * gather: two loads and a shuffle. */
	NEAR = 2,

	/* ---- All loops ---- */

	/* Iterations of a vector loop, at most, for which a masked remainder costs less than a
	 * peeled one. */
	SHORT_VECTOR = 128,
	/* A vector that is masked for so many elements or fewer takes as long as the elements do
	 * one by one, and loads beyond them. */
	LEAST_MASKED = 4,
	/* Bytes of a local on a thread's stack, which may be small. Larger locals are in scratch. So is
	 * a local of more than SMALL_LOCAL_BYTES with which those of its stage would take more than
	 * STAGE_STACK_BYTES. These are a part of the stack that docs/c-api.md says a run takes. */
	STACK_BYTES = 8192,
	STAGE_STACK_BYTES = 32768,
	SMALL_LOCAL_BYTES = 256
};

#endif

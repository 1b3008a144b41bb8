/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the target machines that passes use; codegen/targets.c lists the targets. */
#ifndef PASSES_TARGET_H
#define PASSES_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* Properties of a GPU, for schedules and their cost models. Rates are those of one chip at its
 * boost clock. */
typedef struct Gpu {
	int sm;    /* compute capability times ten: 80 */
	bool only; /* code for it does not run on later GPUs (sm_90a) */
	int ptx;   /* the lowest PTX version that supports it, times ten */
	int llvm;  /* the first LLVM that generates code for it */
	int sms;
	/* bytes of shared memory that a block may have on it; about what all blocks of an SM
	 * have together */
	int shared;
	/* the least SHARED of all GPUs that run this code, later ones included: a block may have
	 * it on each of them */
	int block_shared;
	int registers; /* 32-bit registers of an SM */
	/* Extra registers per thread, relative to sm_80, that ptxas needs for code with as many
	 * live values. The values are the least for which ptxas 13.0 spills nothing in the model
	 * suites. */
	int spare;
	int threads; /* resident threads of an SM */
	int lanes;   /* f32 multiply-adds of an SM in one clock */
	int l2;      /* MiB of L2 cache */
	int memory;  /* memory bandwidth, GB/s */
	bool rounds; /* its products of f32 may round the factors to tf32 (Options.tf32) */
	/* TFLOP/s of f32 fma, and of dense f16 matrix instructions with f32 sums */
	int f32, f16;
} Gpu;

/* How the target multiplies u8 by i8 (codegen/c/tile_dot.c): as other integers; by instructions
 * that add products in pairs, of bytes, saturating, or of 16 bits (pmaddubsw, pmaddwd); by one
 * that adds four products to an i32 lane. */
typedef enum Dot { DOT_NONE, DOT_PAIRS, DOT_BYTES } Dot;

enum { CACHE_LINE = 64 /* bytes, on all CPUs */ };

/* A kind of machine that code is generated for: a row of codegen/targets.c. */
typedef struct Target {
	const char *name; /* "x86-64-v4", "sm_80" */
	/* the first words of the C compiler's -dumpmachine: "x86_64"; null: any */
	const char *machine;
	const char *march; /* -march of the C compiler; null: its default */
	const char *mcpu;  /* the same as -mcpu of zig names it */
	/* DL_CPU_ bits of the features that a machine must have; 0: any machine */
	uint64_t features;
	int vector_bytes; /* bytes of a vector register: 16, 32 or 64 */
	int registers;    /* number of vector registers */
	bool fma;         /* mad is fused */
	Dot dot;          /* CPUs: how they multiply bytes */
	bool f16;         /* CPUs: an instruction converts a vector of f16 to f32 */
	bool bf16; /* CPUs: an instruction adds the products of a pair of bf16 to each f32 lane */
	bool matrix; /* CPUs: instructions multiply tiles of bytes and of bf16 in matrix registers */
	int64_t l1, l2; /* bytes of data cache to block for */
	int cores;      /* cores that schedules keep busy, at least */
	int wake;       /* nanoseconds of work that pay for waking a thread */
	const Gpu *gpu; /* null: a CPU */
	/* CPUs: f32 GFLOP/s of one core, and GB/s from memory that it has, on a usual server; for
	 * predictions that people read (--explain) */
	int gflops, memory;
} Target;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compiler prints for y[i] = x[255 - i], written by hand: its kernel goes through 64 KiB
 * of dynamic shared memory, which a block has only when its function asks for them. A variant of it
 * asks for more than most GPUs give; it is launched where they do, or where the environment has
 * REVERSE_LARGE.
 */
#define DLRT_GENERATED 1
#include "runtime/dlrt.h"

#include <stdlib.h>

enum { N = 256, STRIDE = 256, SHARED = N * STRIDE, LARGE = 200 << 10 };

static void reverse_cpu(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const float *x = k->buf[0];
	float *y = k->buf[1];

	(void)scratch;
	for (int64_t i = begin; i < end; i++)
		y[i] = x[N - 1 - i];
}

/* Thread i puts its element at i * 256 of the block's shared memory. */
#define ENTRY(name)                                                                    \
	".visible .entry " name "(.param .u64 x, .param .u64 y)\n{\n"                  \
	"\t.reg .b32 %i<5>;\n\t.reg .b64 %a<5>;\n\t.reg .f32 %v<3>;\n"                 \
	"\tld.param.u64 %a1, [x];\n\tld.param.u64 %a2, [y];\n"                         \
	"\tmov.u32 %i1, %tid.x;\n"                                                     \
	"\tmul.wide.u32 %a3, %i1, 4;\n"                                                \
	"\tadd.s64 %a1, %a1, %a3;\n\tadd.s64 %a2, %a2, %a3;\n"                         \
	"\tld.global.f32 %v1, [%a1];\n"                                                \
	"\tmov.u32 %i2, room;\n\tshl.b32 %i3, %i1, 8;\n\tadd.s32 %i3, %i2, %i3;\n"     \
	"\tst.shared.f32 [%i3], %v1;\n\tbar.sync 0;\n"                                 \
	"\tsub.s32 %i4, 255, %i1;\n\tshl.b32 %i4, %i4, 8;\n\tadd.s32 %i4, %i2, %i4;\n" \
	"\tld.shared.f32 %v2, [%i4];\n\tst.global.f32 [%a2], %v2;\n\tret;\n}\n"
#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n.extern .shared .align 16 .b8 room[];\n"
static const char ptx[] = HEAD ENTRY("reverse") "\0" HEAD ENTRY("large");

static void plan(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch)
{
	(void)sym;
	(void)offset;
	*total = *scratch = 0;
}

static int exec(dl_exec *x)
{
	dl_launch(x, 0, reverse_cpu, (void *[]){x->in[0], x->out[0]}, NULL, N, 64);
	return x->status;
}

static int exec_gpu(dl_exec *x)
{
	const int large = dl_gpu_shared(x) >= LARGE || getenv("REVERSE_LARGE");

	dl_gpu_launch(x, 0, large,
		      (uint64_t[]){(uint64_t)(uintptr_t)x->in[0], (uint64_t)(uintptr_t)x->out[0]},
		      2, 1, -1);
	return x->status;
}

static const dl_dim dims[] = {{sizeof(dl_dim), -1, N, "256"}};
static const dl_io input[] = {{sizeof(dl_io), DL_F32, DL_TENSOR, 1, "x", dims, -1, 0, NULL, NULL}},
		   output[] = {{sizeof(dl_io), DL_F32, DL_TENSOR, 1, "y", dims, -1, 0, NULL, NULL}};
static const dl_desc desc = {.size = sizeof(dl_desc),
			     .name = "reverse",
			     .version = "0",
			     .hash = "0",
			     .targets = "generic sm_75",
			     .in = input,
			     .n_in = 1,
			     .out = output,
			     .n_out = 1};
static const char *const kernels[] = {"/Reverse"};
static const dl_gpu_fn fn[] = {{"reverse", N, 0, SHARED, 0}, {"large", N, 0, LARGE, 0}};
static const dl_gpu_image image[] = {{.sm = 75, .ptx = ptx, .fn = fn, .n_fn = 2}};
static const dl_gpu gpu = {.size = sizeof(dl_gpu), .n_images = 1, .image = image};
static const dl_program on_gpu = {.size = sizeof(dl_program),
				  .abi = DL_ABI_VERSION,
				  .desc = &desc,
				  .kernels = kernels,
				  .n_kernels = 1,
				  .plan = plan,
				  .exec = exec_gpu,
				  .gpu = &gpu};
static const dl_program prog = {.size = sizeof(dl_program),
				.abi = DL_ABI_VERSION,
				.desc = &desc,
				.kernels = kernels,
				.n_kernels = 1,
				.plan = plan,
				.exec = exec,
				.on_gpu = &on_gpu};

DL_DEFINE_API(reverse, prog);

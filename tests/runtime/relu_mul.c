/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compiler prints for y = Relu(x * w), x: f32[N,4], with the weights embedded. Written by
 * hand, as the example of an artifact: tables, kernels, bind, plan, exec, API. A second output z =
 * y + y goes through a buffer in the arena, so that memory planning has something to do.
 */
#define DLRT_GENERATED 1
#include "runtime/dlrt.h"

typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));

static const _Alignas(64) float weights[4] = {1.0f, -1.0f, 0.5f, 2.0f};

/* from "/Mul", "/Relu" */
static void mul_relu(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const float *x = k->buf[0];
	f32x4 w = *(const f32x4 *)k->buf[1];
	float *y = k->buf[2];

	(void)scratch;
	for (int64_t n = begin; n < end; n++) {
		f32x4 v = *(const f32x4 *)(x + n * 4) * w;

		for (int c = 0; c < 4; c++)
			v[c] = v[c] < 0.0f ? 0.0f : v[c];
		*(f32x4 *)(y + n * 4) = v;
	}
}

/* from "/Copy": through per-thread scratch, to show it */
static void copy(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const float *t = k->buf[0];
	float *y = k->buf[1], *row = scratch;

	for (int64_t n = begin; n < end; n++) {
		for (int c = 0; c < 4; c++)
			row[c] = t[n * 4 + c];
		for (int c = 0; c < 4; c++)
			y[n * 4 + c] = row[c];
	}
}

/* from "/Add" */
static void add(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const float *t = k->buf[0];
	float *z = k->buf[1];

	(void)scratch;
	for (int64_t i = begin; i < end; i++) {
#if defined(SLICES)
		if (t[i] >= 1000.0f)
			dl_fault(k, 0, (int64_t)t[i], 1000);
#endif
		z[i] = t[i] + t[i];
	}
}

static void plan(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch)
{
	const int64_t N = sym[0];

	offset[0] = 0; /* %1: f32[N,4] "/Relu" */
	*total = dl_align(dl_mul(dl_mul(N, 4), 4));
	*scratch = 16;
}

static int exec(dl_exec *x)
{
	const int64_t N = x->sym[0];

	dl_launch(x, 0, mul_relu, (void *[]){x->in[0], x->weights, x->buf[0]}, NULL, N, 64);
	dl_launch(x, 1, copy, (void *[]){x->buf[0], x->out[0]}, NULL, N, 64);
	dl_launch(x, 2, add, (void *[]){x->buf[0], x->out[1]}, NULL, N * 4, 256);
	return x->status;
}

static const dl_sym syms[] = {
	{.size = sizeof(dl_sym), .kind = DL_SYM_INPUT, .name = "N", .upper = DL_UNLIMITED}};

static const dl_dim dims_N_4[] = {
	{sizeof(dl_dim), 0, -1, "N"},
	{sizeof(dl_dim), -1, 4, "4"},
};

static const dl_io inputs[] = {
	{sizeof(dl_io), DL_F32, DL_TENSOR, 2, "x", dims_N_4, -1, 0, NULL, NULL},
};

static const dl_io outputs[] = {
	{sizeof(dl_io), DL_F32, DL_TENSOR, 2, "y", dims_N_4, 0, 0, NULL, NULL},
	{sizeof(dl_io), DL_F32, DL_TENSOR, 2, "z", dims_N_4, -1, 0, NULL, NULL},
};

static const dl_desc desc = {
	.size = sizeof(dl_desc),
#if defined(FLUSH)
	.flags = DL_DESC_FLUSH,
#endif
	.name = "relu_mul",
	.version = "0",
	.hash = "0",
	.targets = "generic",
	.in = inputs,
	.n_in = 1,
	.out = outputs,
	.n_out = 2,
	.sym = syms,
	.n_sym = 1,
	.weights_size = sizeof(weights),
};

#if defined(SLICES)
static const char *const faults[] = {"node \"/Add\": a value is too large"};
#endif

static const char *const kernels[] = {"/Mul, /Relu", "/Copy", "/Add"};

static const dl_program prog = {
	.size = sizeof(dl_program),
	.abi = DL_ABI_VERSION,
	.desc = &desc,
	.n_buf = 1,
	.kernels = kernels,
	.n_kernels = 3,
	.weights_kind = DL_WEIGHTS_EMBEDDED,
	.weights = weights,
	.plan = plan,
	.exec = exec,
#if defined(ONLY_LAUNCHES) /* an old dlrt.h has no such member */
	.only_launches = 1,
#endif
#if defined(SLICES)
	.slice_sym = 0,
	.slice = 3,
	.faults = faults,
	.n_faults = 1,
#endif
};

DL_DEFINE_API(relu_mul, prog);

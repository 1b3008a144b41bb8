/* SPDX-License-Identifier: Apache-2.0 */
/* Executes operations when their time comes. */
#include "tools/ptxsim/driver.h"
#include "tools/ptxsim/warp.h"

#include <stdlib.h>
#include <string.h>

static CUresult run_kernel(Work *w)
{
	static uint32_t grid_id;
	Launch l = {.f = w->f->f,
		    .dynamic_shared = w->shared,
		    .params = w->params,
		    .seed = driver.seed,
		    .limit = driver.limit,
		    .trace = driver.trace,
		    .n_sm = (uint32_t)driver.device->count,
		    .grid_id = ++grid_id};

	if (++driver.kernels == driver.break_at)
		return driver.break_with;
	memcpy(l.grid, w->grid, sizeof l.grid);
	memcpy(l.block, w->block, sizeof l.block);
	launch_run(&l);
	if (l.fault.code)
		say("error: %s", l.fault.text);
	return (CUresult)l.fault.code;
}

/* The address of ADDR's N bytes; *A: their allocation, null: host memory. */
static uint8_t *resolve(CUdeviceptr addr, uint64_t n, Alloc **a)
{
	*a = memory_at(addr, n);
	if (*a)
		return (*a)->host + (addr - (*a)->addr);
	const Alloc *near = memory_below(addr);
	/* An address of the device that no allocation holds. */
	bool device = (near && near->kind != A_PINNED &&
		       addr - near->addr < near->size + (1 << 16)) ||
		      addr >> 40 == 0x0a;
	return device ? NULL : (uint8_t *)(uintptr_t)addr;
}

static CUresult run_copy(Work *w)
{
	for (uint64_t row = 0; row < w->rows; row++) {
		Alloc *to, *from = NULL;
		CUdeviceptr src = w->src + row * w->src_pitch;
		uint8_t *d = resolve(w->dst + row * w->dst_pitch, w->bytes, &to);
		uint8_t *s = w->staged ? w->staged + row * w->src_pitch
				       : resolve(src, w->bytes, &from);
		if (!d || !s) {
			say("error: a copy of %llu bytes from 0x%llx to 0x%llx leaves its "
			    "allocation",
			    (unsigned long long)w->bytes, src, w->dst + row * w->dst_pitch);
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
		memory_copy(to, d, from, s, w->bytes);
	}
	return CUDA_SUCCESS;
}

static CUresult run_set(Work *w)
{
	for (uint64_t row = 0; row < w->rows; row++) {
		Alloc *to;
		uint8_t *d = resolve(w->dst + row * w->dst_pitch, w->bytes, &to);
		if (!d || !to) {
			say("error: a memset of %llu bytes at 0x%llx leaves its allocation",
			    (unsigned long long)w->bytes, w->dst);
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
		for (uint64_t i = 0; i < w->bytes; i += w->element)
			memcpy(d + i, &w->value, w->element);
		memory_mark(to, (uint64_t)(d - to->host), w->bytes);
	}
	return CUDA_SUCCESS;
}

CUresult work_run(Work *w)
{
	driver.time += 1000 + w->bytes;
	switch (w->type) {
	case OP_KERNEL: return run_kernel(w);
	case OP_COPY: return run_copy(w);
	case OP_SET: return run_set(w);
	case OP_FREE: memory_free(w->alloc); return CUDA_SUCCESS;
	case OP_HOST: w->fn(w->data); return CUDA_SUCCESS;
	case OP_RECORD:
		if (is_head(w->event, K_EVENT))
			w->event->when = driver.time;
		return CUDA_SUCCESS;
	default: return CUDA_SUCCESS;
	}
}

CUresult work_kernel(Work *w, CUfunction f, const unsigned grid[3], const unsigned block[3],
		     unsigned shared, void **params, void **extra)
{
	const Func *k;
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];

	if (!is_head(f, K_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	k = f->f;
	if (!grid[0] || !grid[1] || !grid[2] || !threads || grid[1] > 65535 || grid[2] > 65535 ||
	    grid[0] > 0x7fffffff || block[2] > 64 || threads > 1024 ||
	    (k->max_threads && threads > (uint64_t)k->max_threads)) {
		say("error: kernel %s: a grid of (%u,%u,%u) blocks of (%u,%u,%u) threads; at most "
		    "%d threads",
		    k->name, grid[0], grid[1], grid[2], block[0], block[1], block[2],
		    k->max_threads ? k->max_threads : 1024);
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < 3 && k->reqntid[0]; i++)
		if (block[i] != (unsigned)k->reqntid[i]) {
			say("error: kernel %s: block dimension %d is %u, .reqntid says %d", k->name,
			    i, block[i], k->reqntid[i]);
			return CUDA_ERROR_INVALID_VALUE;
		}
	if (shared > (unsigned)f->dynamic_shared) {
		say("error: kernel %s: %u bytes of dynamic shared memory, %d are allowed", k->name,
		    shared, f->dynamic_shared);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*w = (Work){.type = OP_KERNEL, .f = f, .shared = shared};
	memcpy(w->grid, grid, sizeof w->grid);
	memcpy(w->block, block, sizeof w->block);
	w->params = calloc(1, k->param_bytes + 16);
	if (!w->params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (params) {
		for (int i = 0; i < k->params.n; i++)
			memcpy(w->params + k->params.at[i]->at, params[i], k->params.at[i]->size);
	} else if (extra) {
		/* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
		const void *buffer = NULL;
		size_t size = 0;
		for (int i = 0; extra[i]; i += 2) {
			if ((uintptr_t)extra[i] == 1)
				buffer = extra[i + 1];
			else if ((uintptr_t)extra[i] == 2)
				size = *(size_t *)extra[i + 1];
		}
		if (!buffer || size < k->param_bytes) {
			work_free(w);
			return CUDA_ERROR_INVALID_VALUE;
		}
		memcpy(w->params, buffer, k->param_bytes);
	} else if (k->params.n) {
		work_free(w);
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult work_copy3d(Work *w, const CUDA_MEMCPY3D *p)
{
	bool from_host = p->srcMemoryType == CU_MEMORYTYPE_HOST,
	     to_host = p->dstMemoryType == CU_MEMORYTYPE_HOST;

	if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY ||
	    p->srcLOD || p->dstLOD || p->Depth > 1 || p->srcZ || p->dstZ)
		return CUDA_ERROR_NOT_SUPPORTED;
	*w = (Work){.type = OP_COPY,
		    .bytes = p->WidthInBytes,
		    .rows = p->Height * p->Depth,
		    .src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
		    .dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes};
	w->src = from_host ? (CUdeviceptr)(uintptr_t)p->srcHost : p->srcDevice;
	w->dst = to_host ? (CUdeviceptr)(uintptr_t)p->dstHost : p->dstDevice;
	w->src += p->srcXInBytes + p->srcY * w->src_pitch;
	w->dst += p->dstXInBytes + p->dstY * w->dst_pitch;
	return CUDA_SUCCESS;
}

CUresult work_set(Work *w, CUdeviceptr dst, uint64_t value, unsigned element, uint64_t count)
{
	if (!memory_at(dst, element * count) || dst % element)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (Work){.type = OP_SET,
		    .dst = dst,
		    .value = (uint32_t)value,
		    .element = element,
		    .bytes = element * count,
		    .rows = 1};
	return CUDA_SUCCESS;
}

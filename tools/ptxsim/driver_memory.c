/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for memory: allocation, copies, sets, attributes of pointers. */
#include "tools/ptxsim/driver.h"

#include <stdlib.h>
#include <string.h>

static CUresult alloc(CUdeviceptr *p, size_t n, AllocKind kind)
{
	Alloc *a = p && n ? memory_new(n, kind) : NULL;

	if (a) {
		*p = a->addr;
		a->flags = (unsigned)current_context()->device;
	}
	return a ? CUDA_SUCCESS : p && n ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

static CUresult find(CUdeviceptr p, AllocKind kind, Alloc **a)
{
	*a = memory_below(p);
	return *a && (*a)->addr == p && (*a)->kind == kind ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
	CUresult r = enter_unsafe("cuMemAlloc_v2");

	return leave(r ? r : alloc(p, n, A_DEVICE));
}

/* Freeing memory that is not asynchronous waits for all work. A fault does not keep memory. */
static CUresult release(CUresult r, CUdeviceptr p, AllocKind kind)
{
	Alloc *a;

	if (r && r != driver.sticky)
		return r;
	if (!p)
		return r;
	CUresult found = find(p, kind, &a);
	if (found)
		return r ? r : found;
	queue_force_all();
	memory_free(a);
	return driver.sticky;
}

API CUresult cuMemFree_v2(CUdeviceptr p)
{
	return leave(release(enter_unsafe("cuMemFree_v2"), p, A_DEVICE));
}

API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream stream)
{
	CUresult r = enter("cuMemAllocAsync", true);
	CUstream s;

	r = r ? r : stream_for(stream, NOT_CAPTURABLE, &s);
	if (!r && !driver.pools)
		r = CUDA_ERROR_NOT_SUPPORTED;
	return leave(r ? r : alloc(p, n, A_DEVICE));
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
	CUresult r = enter("cuMemFreeAsync", true);
	CUstream s;
	Alloc *a = NULL;

	r = r ? r : stream_for(stream, NOT_CAPTURABLE, &s);
	if (!r && p)
		r = find(p, A_DEVICE, &a);
	if (!r && p && !queue_push(s, (Work){.type = OP_FREE, .alloc = a}))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return leave(r);
}

API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
	CUresult r = enter_unsafe("cuMemHostAlloc");
	CUdeviceptr addr = 0;

	if (!r)
		r = alloc(&addr, n, A_PINNED);
	if (!r) {
		*p = (void *)(uintptr_t)addr;
		memory_below(addr)->flags = flags;
	}
	return leave(r);
}

API CUresult cuMemAllocHost_v2(void **p, size_t n)
{
	return cuMemHostAlloc(p, n, 0);
}

API CUresult cuMemFreeHost(void *p)
{
	return leave(release(enter_unsafe("cuMemFreeHost"), (CUdeviceptr)(uintptr_t)p, A_PINNED));
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
	CUresult r = enter("cuMemHostGetDevicePointer_v2", true);
	const Alloc *a = memory_at((CUdeviceptr)(uintptr_t)p, 1);

	if (!r && (flags || !a || a->kind != A_PINNED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*out = (CUdeviceptr)(uintptr_t)p;
	return leave(r);
}

API CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
	CUresult r = enter("cuMemHostGetFlags", true);
	const Alloc *a = memory_at((CUdeviceptr)(uintptr_t)p, 1);

	if (!r && (!a || a->kind != A_PINNED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*flags = a->flags;
	return leave(r);
}

API CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	CUresult r = enter("cuMemGetInfo_v2", true);

	if (!r) {
		*total = memory_total();
		*available = memory_total() - memory_used();
	}
	return leave(r);
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
	CUresult r = enter("cuMemGetAddressRange_v2", true);
	const Alloc *a = memory_at(p, 1);

	if (!r && !a)
		r = CUDA_ERROR_NOT_FOUND;
	if (!r) {
		if (base)
			*base = a->addr;
		if (size)
			*size = a->size;
	}
	return leave(r);
}

static CUresult pointer_attribute(void *out, int which, CUdeviceptr p)
{
	const Alloc *a = memory_at(p, 1);

	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	switch (which) {
	case 1: *(CUcontext *)out = current_context(); return CUDA_SUCCESS;
	case 2:
		*(unsigned *)out = a->kind == A_PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case 3: *(CUdeviceptr *)out = p; return CUDA_SUCCESS;
	case 4:
		*(void **)out = (void *)(uintptr_t)p;
		return a->kind == A_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case 8: *(int *)out = 0; return CUDA_SUCCESS;
	case 9: *(int *)out = a->kind == A_DEVICE ? (int)a->flags : 0; return CUDA_SUCCESS;
	case 11: *(CUdeviceptr *)out = a->addr; return CUDA_SUCCESS;
	case 12: *(size_t *)out = a->size; return CUDA_SUCCESS;
	case 13: *(int *)out = 1; return CUDA_SUCCESS;
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
}

API CUresult cuPointerGetAttribute(void *out, int which, CUdeviceptr p)
{
	CUresult r = enter("cuPointerGetAttribute", true);

	return leave(r ? r : pointer_attribute(out, which, p));
}

API CUresult cuPointerGetAttributes(unsigned n, int *which, void **out, CUdeviceptr p)
{
	CUresult r = enter("cuPointerGetAttributes", true);

	for (unsigned i = 0; !r && i < n; i++)
		if (pointer_attribute(out[i], which[i], p))
			memset(out[i], 0, sizeof(int));
	return leave(r);
}

/* ---- Copies ---- */

static bool is_pinned(CUdeviceptr p, uint64_t n)
{
	const Alloc *a = memory_at(p, n);

	return a && a->kind == A_PINNED;
}

static bool is_device(CUdeviceptr p, uint64_t n)
{
	const Alloc *a = memory_at(p, n);

	return a && a->kind != A_PINNED;
}

/* As the driver does, a copy from pageable memory takes it along at once, and one to it waits. */
static CUresult copy(CUdeviceptr dst, CUdeviceptr src, uint64_t n, CUstream stream, bool wait)
{
	const bool from_here = !is_device(src, n) && !is_pinned(src, n);
	CUstream s;
	Work w = {.type = OP_COPY, .dst = dst, .src = src, .bytes = n, .rows = 1};
	CUresult r;

	wait |= !is_device(dst, n) && !is_pinned(dst, n);
	r = stream_for(stream, wait || from_here ? NOT_CAPTURABLE : CAPTURABLE, &s);
	if (r || !n)
		return r;
	if (!wait && from_here) {
		w.staged = malloc(n);
		if (!w.staged)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(w.staged, (const void *)(uintptr_t)src, n);
	}
	uint64_t op = queue_push(s, w);
	return !op ? CUDA_ERROR_OUT_OF_MEMORY : wait ? queue_force(op) : CUDA_SUCCESS;
}

static CUresult copy_checked(const char *name, CUdeviceptr dst, bool dst_device, CUdeviceptr src,
			     bool src_device, uint64_t n, CUstream stream, bool wait)
{
	CUresult r = wait ? enter_unsafe(name) : enter(name, true);

	if (!r && n && ((dst_device && !memory_at(dst, n)) || (src_device && !memory_at(src, n))))
		r = CUDA_ERROR_INVALID_VALUE;
	return leave(r ? r : copy(dst, src, n, stream, wait));
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
	return copy_checked("cuMemcpyHtoD_v2", dst, true, (CUdeviceptr)(uintptr_t)src, false, n,
			    NULL, true);
}

API CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
	return copy_checked("cuMemcpyDtoH_v2", (CUdeviceptr)(uintptr_t)dst, false, src, true, n,
			    NULL, true);
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_checked("cuMemcpyDtoD_v2", dst, true, src, true, n, NULL, false);
}

API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_checked("cuMemcpy", dst, false, src, false, n, NULL, true);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	return copy_checked("cuMemcpyHtoDAsync_v2", dst, true, (CUdeviceptr)(uintptr_t)src, false,
			    n, stream, false);
}

API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_checked("cuMemcpyDtoHAsync_v2", (CUdeviceptr)(uintptr_t)dst, false, src, true,
			    n, stream, false);
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_checked("cuMemcpyDtoDAsync_v2", dst, true, src, true, n, stream, false);
}

API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_checked("cuMemcpyAsync", dst, false, src, false, n, stream, false);
}

/* ---- Sets ---- */

static CUresult set(const char *name, CUdeviceptr dst, uint64_t value, unsigned element, uint64_t n,
		    CUstream stream)
{
	CUresult r = enter(name, true);
	CUstream s;
	Work w = {0};

	r = r ? r : stream_for(stream, CAPTURABLE, &s);
	if (r || !n)
		return leave(r);
	r = work_set(&w, dst, value, element, n);
	if (r)
		return leave(r);
	return leave(queue_push(s, w) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

API CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
	return set("cuMemsetD8_v2", dst, value, 1, n, NULL);
}

API CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n)
{
	return set("cuMemsetD16_v2", dst, value, 2, n, NULL);
}

API CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t n)
{
	return set("cuMemsetD32_v2", dst, value, 4, n, NULL);
}

API CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	return set("cuMemsetD8Async", dst, value, 1, n, stream);
}

API CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	return set("cuMemsetD16Async", dst, value, 2, n, stream);
}

API CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream)
{
	return set("cuMemsetD32Async", dst, value, 4, n, stream);
}

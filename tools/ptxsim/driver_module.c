/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for modules, functions and launches. */
#include "tools/ptxsim/driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Modules ---- */

/* The text after .version in the PTX text S; null: S has none. */
static const char *version(const char *s)
{
	for (;;) {
		s += strspn(s, " \t\r\n");
		if (s[0] == '/' && s[1] == '/')
			s += strcspn(s, "\n");
		else
			return strncmp(s, ".version", 8) ? NULL : s + 8;
	}
}

/* The PTX version that the driver of cuDriverGetVersion supports, times ten. */
enum { PTX_VERSION = 90 };

/* TEXT as a module, or why not, with M->error then. */
static CUresult parse(Module *m, const char *text)
{
	char *minor;
	const long major = strtol(version(text), &minor, 10);

	if (major * 10 + (*minor == '.' ? strtol(minor + 1, NULL, 10) : 0) > PTX_VERSION) {
		snprintf(m->error, sizeof m->error,
			 "Unsupported .version %.*s; current version is '%d.%d'",
			 (int)strcspn(version(text) + 1, " \n"), version(text) + 1,
			 PTX_VERSION / 10, PTX_VERSION % 10);
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	}
	if (!module_parse(m, text))
		return CUDA_ERROR_INVALID_PTX;
	if (m->sm <= driver.device->sm)
		return CUDA_SUCCESS;
	snprintf(m->error, sizeof m->error, "the module is for sm_%d, the device is sm_%d", m->sm,
		 driver.device->sm);
	return CUDA_ERROR_INVALID_PTX;
}

static uint64_t symbol_address(const Module *m, const struct Patch *p)
{
	const Var *v = module_var(m, p->symbol);

	return v ? v->at + (uint64_t)p->add : 0;
}

/* Variables of global and constant memory get addresses, then their contents, which may be
 * addresses. */
static CUresult place_vars(CUmodule mod)
{
	Module *m = mod->m;

	mod->vars = calloc((size_t)m->vars.n + 1, sizeof *mod->vars);
	if (!mod->vars)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < m->vars.n; i++) {
		Var *v = m->vars.at[i];
		if (v->space != SP_GLOBAL && v->space != SP_CONST)
			continue;
		mod->vars[i] = memory_new(v->size + !v->size,
					  v->space == SP_CONST ? A_CONST : A_MODULE);
		if (!mod->vars[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
		v->at = mod->vars[i]->addr;
	}
	for (int i = 0; i < m->vars.n; i++) {
		Var *v = m->vars.at[i];
		if (!mod->vars[i])
			continue;
		/* Variables without initial value are zero. */
		memset(mod->vars[i]->host, 0, v->size);
		if (v->init)
			memcpy(mod->vars[i]->host, v->init, v->size);
		for (int k = 0; k < v->n_patches; k++) {
			uint64_t at = symbol_address(m, &v->patches[k]);
			memcpy(mod->vars[i]->host + v->patches[k].at, &at,
			       (size_t)type_size(v->type));
		}
		memory_mark(mod->vars[i], 0, v->size);
	}
	return CUDA_SUCCESS;
}

static void free_module(CUmodule mod)
{
	for (int i = 0; mod->vars && i < mod->m->vars.n; i++)
		if (mod->vars[i])
			memory_free(mod->vars[i]);
	free(mod->vars);
	while (mod->functions) {
		CUfunction f = mod->functions;
		mod->functions = f->next;
		free_head(f);
	}
	module_free(mod->m);
	free_head(mod);
}

static void log_error(unsigned n, const int *option, void **value, const char *text)
{
	char *buffer = NULL;
	size_t size = 0;

	for (unsigned i = 0; i < n; i++) {
		if (option[i] == 5)
			buffer = value[i];
		else if (option[i] == 6)
			size = (size_t)(uintptr_t)value[i];
		else if (option[i] == 3 && value[i])
			*(char *)value[i] = 0;
	}
	if (buffer && size)
		snprintf(buffer, size, "%s", text);
}

static CUresult load(CUmodule *out, const char *text, unsigned n, const int *option, void **value)
{
	if (!version(text)) {
		if (strncmp(text, "\x7f" "ELF", 4)) /* for another GPU: its loader has PTX, too */
			say("error: the module is not PTX text");
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	CUmodule mod = new_head(K_MODULE, sizeof *mod);
	if (!mod)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mod->m = module_new();
	CUresult r = parse(mod->m, text);
	if (!r) {
		r = place_vars(mod);
	} else {
		say("error: PTX %s", mod->m->error);
		log_error(n, option, value, mod->m->error);
	}
	if (r)
		free_module(mod);
	else
		*out = mod;
	return r;
}

/* The text of the file in PTXSIM_REPLACE, which the caller frees; null: none is named, or it does
 * not exist. */
static char *replacement(void)
{
	const char *path = getenv("PTXSIM_REPLACE");
	FILE *in = path && *path ? fopen(path, "rb") : NULL;
	char *text = NULL;
	size_t size = 0;

	if (in && getdelim(&text, &size, 0, in) < 0) {
		free(text);
		text = NULL;
	}
	if (in)
		fclose(in);
	else if (path && *path)
		say("error: cannot read %s", path);
	return text;
}

static CUresult load_image(CUmodule *out, const void *image, unsigned n, const int *option,
			   void **value)
{
	char *other = replacement();
	CUresult r = load(out, other ? other : image, n, option, value);

	free(other);
	return r;
}

API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *option,
				void **value)
{
	CUresult r = enter_unsafe("cuModuleLoadDataEx");

	if (!r && (!module || !image))
		r = CUDA_ERROR_INVALID_VALUE;
	return leave(r ? r : load_image(module, image, n, option, value));
}

API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	CUresult r = enter_unsafe("cuModuleLoadData");

	if (!r && (!module || !image))
		r = CUDA_ERROR_INVALID_VALUE;
	return leave(r ? r : load_image(module, image, 0, NULL, NULL));
}

API CUresult cuModuleUnload(CUmodule module)
{
	CUresult r = enter_unsafe("cuModuleUnload");

	if (r && r != driver.sticky)
		return leave(r);
	if (!is_head(module, K_MODULE))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	r = queue_force_all();
	free_module(module);
	return leave(r);
}

API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	CUresult r = enter("cuModuleGetFunction", true);

	if (!r && (!is_head(module, K_MODULE) || !name))
		r = CUDA_ERROR_INVALID_HANDLE;
	Func *f = r ? NULL : module_func(module->m, name);
	if (!r && (!f || !f->kernel))
		r = CUDA_ERROR_NOT_FOUND;
	if (r)
		return leave(r);
	for (CUfunction k = module->functions; k; k = k->next)
		if (k->f == f) {
			*out = k;
			return leave(CUDA_SUCCESS);
		}
	CUfunction k = new_head(K_FUNCTION, sizeof *k);
	if (!k)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	k->f = f;
	k->module = module;
	k->dynamic_shared = (48 << 10) - (int)f->declared_shared;
	k->next = module->functions;
	module->functions = k;
	*out = k;
	return leave(CUDA_SUCCESS);
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *size, CUmodule module, const char *name)
{
	CUresult r = enter("cuModuleGetGlobal_v2", true);

	if (!r && (!is_head(module, K_MODULE) || !name))
		r = CUDA_ERROR_INVALID_HANDLE;
	const Var *v = r ? NULL : module_var(module->m, name);
	if (!r && (!v || (v->space != SP_GLOBAL && v->space != SP_CONST)))
		r = CUDA_ERROR_NOT_FOUND;
	if (!r && at)
		*at = v->at;
	if (!r && size)
		*size = v->size;
	return leave(r);
}

/* ---- Functions ---- */

static int registers(const Func *f)
{
	/* Virtual registers say little; ptxas knows. This is a number within the limits. */
	int n = f->regs / 2;

	return n < 16 ? 16 : n > 128 ? 128 : n;
}

API CUresult cuFuncGetAttribute(int *value, int which, CUfunction f)
{
	CUresult r = enter("cuFuncGetAttribute", true);

	if (!r && !is_head(f, K_FUNCTION))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r)
		return leave(r);
	switch (which) {
	case 0: *value = f->f->max_threads ? f->f->max_threads : 1024; break;
	case 1: *value = (int)f->f->declared_shared; break;
	case 2: *value = 0; break;
	case 3: *value = (int)f->f->local_bytes; break;
	case 4: *value = registers(f->f); break;
	case 5:
	case 6: *value = f->f->module->sm; break;
	case 8: *value = f->dynamic_shared; break;
	default:
		*value = 0;
		r = which < 0 || which > 15 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
		break;
	}
	return leave(r);
}

API CUresult cuFuncSetAttribute(CUfunction f, int which, int value)
{
	CUresult r = enter("cuFuncSetAttribute", true);

	if (!r && !is_head(f, K_FUNCTION))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && which != 8 && which != 9 && which != 14)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && which == 8) {
		if (value < 0 || value + (int)f->f->declared_shared > driver.device->smem_block
									      << 10)
			r = CUDA_ERROR_INVALID_VALUE;
		else
			f->dynamic_shared = value;
	}
	return leave(r);
}

API CUresult cuFuncSetCacheConfig(CUfunction f, int config)
{
	CUresult r = enter("cuFuncSetCacheConfig", true);

	(void)config;
	return leave(!r && !is_head(f, K_FUNCTION) ? CUDA_ERROR_INVALID_HANDLE : r);
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f,
								  int size, size_t shared,
								  unsigned flags)
{
	CUresult r = enter("cuOccupancyMaxActiveBlocksPerMultiprocessor", true);

	(void)flags;
	if (!r && !is_head(f, K_FUNCTION))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && size < 1)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return leave(r);
	const Device *d = driver.device;
	int warps = (size + 31) / 32, by_shared, by_regs = 65536 / (registers(f->f) * warps * 32),
	    n = d->warps / warps;
	size_t bytes = shared + f->f->declared_shared + (d->sm >= 80 ? 1024 : 0);
	by_shared = bytes ? (int)(((size_t)d->smem_multi << 10) / bytes) : n;
	n = n < d->blocks ? n : d->blocks;
	n = n < by_shared ? n : by_shared;
	*blocks = size > 1024 ? 0 : n < by_regs ? n : by_regs;
	return leave(CUDA_SUCCESS);
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int size,
							 size_t shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, size, shared, 0);
}

/* ---- Launches ---- */

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3],
		       unsigned shared, CUstream stream, void **params, void **extra)
{
	CUstream s;
	Work w;
	CUresult r = stream_for(stream, CAPTURABLE, &s);

	r = r ? r : work_kernel(&w, f, grid, block, shared, params, extra);
	return r ? r : queue_push(s, w) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			    unsigned by, unsigned bz, unsigned shared, CUstream stream,
			    void **params, void **extra)
{
	CUresult r = enter("cuLaunchKernel", true);
	unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};

	return leave(r ? r : launch(f, grid, block, shared, stream, params, extra));
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	enum { COOPERATIVE = 2, CLUSTER = 4 };
	CUresult r = enter("cuLaunchKernelEx", true);
	unsigned grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ},
		 block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};

	for (unsigned i = 0; !r && i < c->numAttrs; i++) {
		unsigned dim[3];
		memcpy(dim, c->attrs[i].value, sizeof dim);
		/* Blocks that wait for each other are not simulated. */
		if ((c->attrs[i].id == COOPERATIVE && dim[0]) ||
		    (c->attrs[i].id == CLUSTER && dim[0] * dim[1] * dim[2] != 1))
			r = CUDA_ERROR_NOT_SUPPORTED;
	}
	return leave(r ? r : launch(f, grid, block, c->sharedMemBytes, c->hStream, params, extra));
}

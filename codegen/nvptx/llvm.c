/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LLVM: compiles the IR of each kernel to PTX, one module for each kernel. It runs in child
 * processes, as LLVM aborts if it cannot select an instruction. A child takes every JOBS-th kernel
 * and writes the PTX to a separate file. If a child ends early, the diagnostic names the kernel
 * that it was compiling. The PTX of a kernel depends only on its IR.
 */
#include "codegen/nvptx/nvptx_impl.h"

#include <stdlib.h>
#include <string.h>

#ifndef DLCC_LLVM

const char *gen_nvptx_lacks(void)
{
	return "this dlcc was built without LLVM, which code for GPUs needs";
}

const char *gen_nvptx_processor(const Gpu *gpu)
{
	(void)gpu;
	return NULL;
}

const char *gen_nvptx_llvm(void)
{
	return NULL;
}

bool gen_nvptx_compile(GenPtx *g, int jobs, Diag *d)
{
	(void)jobs;
	return diag_error(d, (DiagLoc){.file = g->target->name}, "%s", gen_nvptx_lacks());
}

#else

#include "base/sys.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIPLE "nvptx64-nvidia-cuda"

static const char passes[] =
	"always-inline,globaldce,function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
	"loop-simplify,lcssa,loop-mssa(licm),early-cse<memssa>,gvn,instcombine<no-verify-fixpoint>,simplifycfg,adce)";

/* The library is looked for by its path, or else by its name. */
static const char *library_name(void)
{
	return strrchr(DLCC_LLVM, '/') + 1;
}

const char *gen_nvptx_lacks(void)
{
	static char text[256];
	void *lib;

	if (!access(DLCC_LLVM, R_OK))
		return NULL;
	lib = dlopen(library_name(), RTLD_LAZY | RTLD_LOCAL);
	if (lib) {
		dlclose(lib);
		return NULL;
	}
	snprintf(text, sizeof text,
		 "code for GPUs needs LLVM's library %.80s, which is not on this machine; install "
		 "it (apt-get install libllvm%d), or compile only for CPUs",
		 library_name(), LLVM_VERSION_MAJOR);
	return text;
}

const char *gen_nvptx_processor(const Gpu *gpu)
{
	return gpu->llvm > LLVM_VERSION_MAJOR ? "sm_90" : NULL;
}

const char *gen_nvptx_llvm(void)
{
	return LLVM_VERSION_STRING;
}

/* ---- In a child ---- */

static struct {
#define LLVM(name) __typeof__(LLVM##name) *name;
#include "codegen/nvptx/llvm.def"
#undef LLVM
} llvm;

/* Opens the LLVM library that dlcc was built with: by its path, or else by its name. */
static void open_llvm(void)
{
	static const char *const names[] = {
#define LLVM(name) "LLVM" #name,
#include "codegen/nvptx/llvm.def"
#undef LLVM
	};
	void *lib = dlopen(DLCC_LLVM, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		lib = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *fn = lib ? dlsym(lib, names[i]) : NULL;

		if (!fn) {
			fprintf(stderr, "error: %s\n", dlerror());
			_exit(1);
		}
		memcpy((char *)&llvm + i * sizeof fn, &fn, sizeof fn);
	}
}

static LLVMTargetMachineRef machine(const Target *t)
{
	const Gpu *gpu = t->gpu;
	const char *older = gen_nvptx_processor(gpu);
	char features[16];
	LLVMTargetRef target;
	char *error = NULL;

	open_llvm();
	llvm.InitializeNVPTXTargetInfo();
	llvm.InitializeNVPTXTarget();
	llvm.InitializeNVPTXTargetMC();
	llvm.InitializeNVPTXAsmPrinter();
	if (llvm.GetTargetFromTriple(TRIPLE, &target, &error)) {
		fprintf(stderr, "error: %s\n", error);
		_exit(1);
	}
	snprintf(features, sizeof features, "+ptx%d", older ? 80 : gpu->ptx);
	return llvm.CreateTargetMachine(target, TRIPLE, older ? older : t->name, features,
					LLVMCodeGenLevelDefault, LLVMRelocDefault,
					LLVMCodeModelDefault);
}

/* Prints an error to stderr; returns null. */
static char *failed(const char *what, char *message)
{
	fprintf(stderr, "error: %s: %s\n", what, message ? message : "?");
	return NULL;
}

/* The PTX of FN without the module's head, which ends with the line of .address_size. */
static char *translate(LLVMTargetMachineRef tm, const PtxFunc *fn)
{
	LLVMContextRef ctx = llvm.ContextCreate();
	LLVMMemoryBufferRef in = llvm.CreateMemoryBufferWithMemoryRangeCopy(fn->ir, strlen(fn->ir),
									    "kernel"),
			    out;
	LLVMPassBuilderOptionsRef o = llvm.CreatePassBuilderOptions();
	LLVMModuleRef m = NULL;
	LLVMErrorRef e;
	char *message = NULL, *text, *at;

	if (llvm.ParseIRInContext(ctx, in, &m, &message))
		return failed("the IR", message);
	llvm.SetTarget(m, TRIPLE);
	llvm.SetModuleDataLayout(m, llvm.CreateTargetDataLayout(tm));
	if (llvm.VerifyModule(m, LLVMReturnStatusAction, &message))
		return failed("the verifier", message);
	if ((e = llvm.RunPasses(m, passes, tm, o)))
		return failed("the passes", llvm.GetErrorMessage(e));
	if (llvm.TargetMachineEmitToMemoryBuffer(tm, m, LLVMAssemblyFile, &message, &out))
		return failed("the emitter", message);
	text = strndup(llvm.GetBufferStart(out), llvm.GetBufferSize(out));
	at = text ? strstr(text, ".address_size") : NULL;
	llvm.DisposeMemoryBuffer(out);
	llvm.DisposePassBuilderOptions(o);
	llvm.DisposeModule(m);
	llvm.ContextDispose(ctx);
	return at ? strchr(at, '\n') + 1 : failed("the emitter", NULL);
}

/* Compiles every STEP-th kernel from FIRST onwards. Writes to file OUT, for each kernel, its
 * number, the length and the text. */
static void child(const GenPtx *g, int first, int step, int out, int log)
{
	LLVMTargetMachineRef tm;

	dup2(log, 2);
	tm = machine(g->target);
	for (int i = first; i < g->funcs.n; i += step) {
		const PtxFunc *fn = g->funcs.at[i];
		char *made = translate(tm, fn),
		     *ptx = made ? ptx_limited(made, g->target->gpu, fn) : NULL;
		int64_t head[2] = {i, ptx ? (int64_t)strlen(ptx) : 0};

		if (!ptx || !write_all(out, head, sizeof head) ||
		    !write_all(out, ptx, (size_t)head[1]))
			_exit(1);
	}
	_exit(0);
}

/* ---- In the parent ---- */

typedef struct LlvmWorker {
	pid_t pid;
	int out, log;
} LlvmWorker;

static char *contents(Arena *a, int fd, size_t *n)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *s = arena_alloc(a, (size_t)size + 1);

	*n = size > 0 && pread(fd, s, (size_t)size, 0) == size ? (size_t)size : 0;
	return s;
}

/* Reports that LLVM could not compile kernel AT, with the first lines of LLVM's messages. */
static bool refused(GenPtx *g, const LlvmWorker *w, int at, Diag *d)
{
	size_t n;
	char *log = contents(g->arena, w->log, &n);
	const PtxFunc *fn = g->funcs.at[at];
	const Loc l = fn->locs ? locs_first(fn->locs) : (Loc){"?", "?"};

	diag_error(d, (DiagLoc){.node = l.node, .op = l.op},
		   "LLVM cannot make %s code of kernel %s", g->target->name, fn->name);
	for (int lines = 0; *log && lines < 4; lines++) {
		int len = (int)strcspn(log, "\n");

		diag_note(d, "%.*s", len < 300 ? len : 300, log);
		log += len + (log[len] == '\n');
	}
	return false;
}

/* Waits for worker K of JOBS and takes its PTX. */
static bool collect(GenPtx *g, LlvmWorker *w, int k, int jobs, Diag *d)
{
	size_t n, at = 0;
	char *text;
	int next = k, status = wait_for(w->pid);

	text = contents(g->arena, w->out, &n);
	while (at + 16 <= n) {
		int64_t head[2];

		memcpy(head, text + at, sizeof head);
		if (at + 16 + (size_t)head[1] > n)
			break;
		g->funcs.at[head[0]]->ptx = arena_strndup(g->arena, text + at + 16,
							  (size_t)head[1]);
		at += 16 + (size_t)head[1];
		next = (int)head[0] + jobs;
	}
	if (status == 0 && next >= g->funcs.n)
		return true;
	return refused(g, w, next < g->funcs.n ? next : g->funcs.n - 1, d);
}

/* Every kernel's parameters fit into a launch, and its shared memory into a block. */
static bool kernels_fit(const GenPtx *g, Diag *d)
{
	enum { MOST = 512 }; /* words: 4 KiB, the limit of PTX before version 8.1 */

	VEC_EACH (fn, &g->funcs) {
		const Loc l = fn->locs ? locs_first(fn->locs) : (Loc){"?", "?"};

		if (fn->words > MOST)
			return diag_error(
				d, (DiagLoc){.node = l.node, .op = l.op},
				"kernel %s has %d tensors and sizes; a launch on a GPU takes %d",
				fn->name, fn->words, MOST);
		if (fn->declared > STATIC_SHARED || fn->declared + fn->shared > fn->most)
			return diag_error(
				d, (DiagLoc){.node = l.node, .op = l.op},
				"kernel %s declares %lld bytes of shared memory and takes %d in scratch; a block "
				"declares %d at most, and has %d in all",
				fn->name, (long long)fn->declared, fn->shared, STATIC_SHARED,
				fn->most);
	}
	return true;
}

bool gen_nvptx_compile(GenPtx *g, int jobs, Diag *d)
{
	LlvmWorker *w;
	bool ok = true;

	if (!kernels_fit(g, d))
		return false;

	jobs = jobs < 1 ? 1 : jobs > g->funcs.n ? g->funcs.n : jobs;
	w = NEW_ARRAY(g->arena, jobs + 1, LlvmWorker);
	fflush(NULL);
	for (int k = 0; k < jobs; k++) {
		w[k].out = memfd_create("ptx", MFD_CLOEXEC);
		w[k].log = memfd_create("log", MFD_CLOEXEC);
		w[k].pid = fork();
		if (w[k].pid == 0)
			child(g, k, jobs, w[k].out, w[k].log);
		if (w[k].pid < 0)
			return diag_error(d, (DiagLoc){.file = g->target->name},
					  "cannot start a process for LLVM");
	}
	for (int k = 0; k < jobs; k++) {
		ok = collect(g, &w[k], k, jobs, d) && ok;
		close(w[k].out);
		close(w[k].log);
	}
	return ok;
}

#endif

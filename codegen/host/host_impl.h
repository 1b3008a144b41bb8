/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that print the host stub share: codegen/host/gen_host.c, bind.c, describe.c. */
#ifndef CODEGEN_HOST_HOST_IMPL_H
#define CODEGEN_HOST_HOST_IMPL_H

#include "codegen/host/gen_host.h"

/* The number of a variant's kernel. */
typedef struct Guarded {
	const Node *node;
	const Schedule *s;
	int kernel;
} Guarded;

typedef struct Host {
	Module *m;
	GenC *const *gc;
	const HostOpts *o;
	StrBuf *b;
	int *sym_index;      /* by Sym.id: index in dl_desc.sym, -1 */
	VEC(Sym *) syms;     /* those known from shapes first */
	int nshape_syms;
	bool *known;         /* by Sym.id, while exec is printed */
	bool *fact_done;
	Sym **sym_waits, **fact_waits; /* by index in syms and in facts: an unknown symbol when last looked at */
	VEC(const char *) kernels, faults;
	int *kernel_id;      /* by Node.id: of schedules without a guard */
	VEC(Guarded) guarded;
	int kernel;          /* whose launches are printed */
	int nb, nd;          /* the most buffers and dims of a launch */
	bool dims;           /* there is a function for dims of inputs that are expressions */
	bool gpu;            /* the program for GPUs: m is the GPUs' module */
	const int64_t *presets; /* of the CPUs' memory plan, which is that of the weights in the host's memory */
	bool reads;          /* the code that is printed reads values that sizes depend on */
	VEC(const Value *) consts; /* those that kernels on its host read */
} Host;

/* ---- codegen/host/describe.c ---- */

/* The name of a static object of this file. */
const char *host_own(Host *h, const char *name);
/* Prints S as a C string. Where S has text from a model, the string is an argument of a format, never a format. */
void host_quote(Host *h, const char *s);
/* node "/MatMul" (MatMul), for messages of the runtime. The name is cut to 100 bytes, so that the rest has room. */
const char *host_node(Host *h, Loc l);
/* The name of input I, maybe empty. */
const char *host_input_name(const Graph *g, int i);
/* Prints the tables behind describe(). */
void host_desc(Host *h);

/* ---- codegen/host/bind.c ---- */

/* Gives each symbol that the stub knows its place in sym[]. */
void host_find_syms(Host *h);
/* The C of a symbol, and of a dim (INT64_MAX where it overflows). */
const char *host_sym(void *h, const Sym *s);
const char *host_dim(Host *h, Dim *d);
/* Prints what is known as soon as h->known is: symbols that stand for dims, and the checks of facts. */
void host_named(Host *h);
void host_facts(Host *h);
/* Prints the function that computes symbols and output shapes from input shapes; false after a diagnostic. */
bool host_bind(Host *h);

/* ---- codegen/host/gen_host.c, launch.c ---- */

/* Where buffer B of node N is, for target T. */
const char *host_buf(Host *h, int t, Node *n, Buf *b);
/* The number of the fault that the kernel of S reports. */
int host_fault_site(Host *h, const Schedule *s);
/* Prints a launch on the GPU, and the tables of a program for GPUs. */
void host_gpu_launch(Host *h, int t, Node *n, const Stage *st, const Schedule *s);
void host_gpu_tables(Host *h);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that print the host stub share: codegen/host/gen_host.c, bind.c, describe.c. */
#ifndef CODEGEN_HOST_HOST_IMPL_H
#define CODEGEN_HOST_HOST_IMPL_H

#include "codegen/host/gen_host.h"

/* The kernel number of a variant. */
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
	int *sym_index;  /* by Sym.id: index in dl_desc.sym, or -1 */
	VEC(Sym *) syms; /* symbols, first those known from shapes */
	int nshape_syms;
	bool *known; /* by Sym.id: its value is known at the current point of exec */
	bool *fact_done;
	/* by index in syms and in facts: a symbol that was unknown at the last test */
	Sym **sym_waits, **fact_waits;
	VEC(const char *) kernels, faults;
	int *kernel_id; /* by Node.id: number of the schedule without a guard */
	VEC(Guarded) guarded;
	int kernel; /* number of the current kernel */
	int nb, nd; /* maximum of buffers and of dims of a launch */
	bool dims;  /* there is a function that computes dims of inputs */
	bool gpu;   /* this is the program for GPUs, and m the GPUs' module */
	/* from the CPUs' memory plan, which is also that of the weights in host memory */
	const int64_t *presets;
	bool picks;                /* exec picks one of two regions */
	bool reads;                /* exec reads values that sizes depend on */
	VEC(const Value *) consts; /* constants that kernels on the host read */
} Host;

/* ---- codegen/host/describe.c ---- */

/* ---- codegen/host/bind.c ---- */

/* ---- codegen/host/gen_host.c, launch.c ---- */

/* ---- describe.c ---- */

/* The name of a static object in the generated file. */
const char *host_own(Host *h, const char *name);
/* Prints S as a C string. Where S has text from a model, the string is an argument of a format,
 * never a format. */
void host_quote(Host *h, const char *s);
/* node "/MatMul" (MatMul), for messages of the runtime. The name is cut to 100 bytes, so that the
 * rest has room. */
const char *host_node(Host *h, Loc l);
/* The name of input I, which may be empty. */
const char *host_input_name(const Graph *g, int i);
/* Prints the tables for describe(). */
void host_desc(Host *h);

/* ---- bind.c ---- */

/* Assigns each symbol of the stub its index in sym[]. */
void host_find_syms(Host *h);
/* The C text of a symbol and of a dim (INT64_MAX on overflow). */
const char *host_sym(void *h, const Sym *s);
const char *host_dim(Host *h, Dim *d);
/* Print what follows from the symbols in h->known: host_named prints symbols that are defined by
 * dims, host_facts the checks of facts. */
void host_named(Host *h);
void host_facts(Host *h);
/* Prints the function that computes symbols and output shapes from input shapes; false after a
 * diagnostic. */
bool host_bind(Host *h);

/* ---- gen_host.c ---- */

/* The C text of the address of buffer B of node N, for target T. */
const char *host_buf(Host *h, int t, Node *n, Buf *b);
/* The number of the fault message for the kernel of S. */
int host_fault_site(Host *h, const Schedule *s);

/* ---- launch.c ---- */

/* host_gpu_launch prints a launch on the GPU, host_gpu_tables the tables of a program for GPUs. */
void host_gpu_launch(Host *h, int t, Node *n, const Stage *st, const Schedule *s);
void host_gpu_tables(Host *h);

#endif

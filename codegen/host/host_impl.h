/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that print the host stub. */
#ifndef CODEGEN_HOST_HOST_IMPL_H
#define CODEGEN_HOST_HOST_IMPL_H

#include "codegen/host/gen_host.h"

/* The kernel number of a variant. */
typedef struct Guarded {
	const Node *node;
	const Schedule *s;
	int kernel;
} Guarded;

/* A dim with a function that computes it, and the text of a call. */
typedef struct WideDim {
	const Dim *dim;
	const char *call;
} WideDim;

/* A size that no iteration of a loop changes, and the variable that holds it. */
typedef struct LoopSize {
	Dim *dim;
	bool wraps; /* it is an argument (host_argument) */
	const char *name;
} LoopSize;

/* A loop whose body is being printed, and the sizes that are computed before it. */
typedef struct LoopSizes {
	struct LoopSizes *outer;
	bool *known; /* by Sym.id: its value is known before the loop */
	VEC(LoopSize) sizes;
} LoopSizes;

typedef struct Host {
	Module *m;
	GenC *const *gc;
	const HostOpts *o;
	StrBuf *b;
	const Sym *lacks; /* a symbol that the program uses, and no input determines; or null */
	int *sym_index;  /* by Sym.id: index in dl_desc.sym, or -1 */
	VEC(Sym *) syms; /* symbols, first those known from shapes */
	int nshape_syms;
	int npublic; /* symbols that the description has; after them, those of aliases */
	bool *of_alias; /* by Sym.id: the symbol is one of an alias */
	bool *known; /* by Sym.id: its value is known at the current point of exec */
	bool *fact_done;
	/* by index in syms and in facts: a symbol that was unknown at the last test */
	Sym **sym_waits, **fact_waits;
	VEC(const char *) kernels, faults;
	int *kernel_id; /* by Node.id: number of the schedule without a guard */
	VEC(Guarded) guarded;
	WideDim *wide; /* bind.c: a hash table with NSLOTS slots, NWIDE of which are used */
	int nslots, nwide;
	StrBuf *sizes; /* the text of these functions */
	LoopSizes *loop; /* bind.c: the innermost loop around what is printed; or null */
	int nloop_sizes; /* of all loops of an exec function */
	int kernel; /* number of the current kernel */
	int nb, nd; /* maximum of buffers and of dims of a launch */
	int64_t strings; /* constants of the program that are strings */
	bool dims;  /* there is a function that computes dims of inputs */
	bool gpu;   /* this is the program for GPUs, and m the GPUs' module */
	/* from the CPUs' memory plan, which is also that of the weights in host memory */
	const int64_t *presets;
	bool picks;                /* exec picks one of two regions */
	bool reads;                /* exec reads values on the host */
	VEC(const Value *) consts; /* constants that kernels on the host read */
} Host;

/* ---- describe.c ---- */

/* The name of a static object in the generated file. */
const char *host_own(Host *h, const char *name);
/* Prints S as a C string. If S has text from a model, the string is an argument of a format, never
 * a format. */
void host_quote(Host *h, const char *s);
/* The same for N bytes, which may be NUL. */
void host_quote_n(Host *h, const char *s, size_t n);
/* node "/MatMul" (MatMul), for messages of the runtime. The name is cut to 100 bytes, so that the
 * rest has room. */
const char *host_node(Host *h, Loc l);
/* The name of input I, which may be empty. */
const char *host_input_name(const Graph *g, int i);
/* Prints the tables for describe(). */
void host_desc(Host *h);

/* ---- bind.c ---- */

/* The input that result O may share memory with, on all devices; -1: none. */
int host_alias(const Host *h, int o);
/* Assigns each symbol of the stub its index in sym[]. */
void host_find_syms(Host *h);
/* The C text of a dim; its value is INT64_MAX on overflow. */
const char *host_dim(Host *h, Dim *d);
/* As host_dim, but it wraps on overflow: an argument of a kernel, which may be a value that the
 * model computes. */
const char *host_argument(Host *h, Dim *d);
/* The sizes in what is printed from now on are computed once, before loop L, unless iterations of
 * the loop change them. */
void host_open_loop(Host *h, LoopSizes *l);
/* Ends that, and prints the sizes. */
void host_close_loop(Host *h);
/* Whether all symbols of D have an index in the stub. */
bool host_dim_indexed(const Host *h, Dim *d);
/* Whether all symbols of D are in h->known. */
bool host_dim_known(const Host *h, const Dim *d);
/* Print the values that depend on the symbols in h->known: host_named prints symbols that are
 * defined by dims, host_facts the checks of facts. */
void host_named(Host *h);
void host_facts(Host *h);
/* Prints the function that computes symbols and output shapes from input shapes; false after a
 * diagnostic. */
bool host_bind(Host *h);

/* ---- exec.c ---- */

/* The name of the exec function of target T; with several targets, "exec" itself selects one. */
const char *host_exec_name(Host *h, int t);
/* Prints the exec function of target T. */
void host_exec(Host *h, int t);
/* The exec functions only launch kernels (dl_program.only_launches). */
bool host_only_launches(Host *h);
/* Prints the nodes from FROM up to, but without, TO, which is null at the end. */
void host_nodes(Host *h, int t, Node *from, const Node *to);
/* Prints the values that depend on the symbols that are read from N's results. */
void host_results_read(Host *h, Node *n);
/* Prints the call that gives output O its shape, if that is known only during the run. */
void host_output(Host *h, int o);
/* Prints a copy of V to TO. */
void host_copy(Host *h, const char *to, Value *v);
/* Appends the lines of BODY to B, indented by a further tab, and empties BODY. */
void host_indent(StrBuf *b, StrBuf *body);

/* ---- control.c ---- */

/* Print the loop that a For opens, and the two sides of a When. They return the bracket that
 * closes the block. */
Node *host_loop(Host *h, int t, Node *open);
Node *host_condition(Host *h, int t, Node *when);

/* ---- places.c ---- */

/* The variable that counts the iterations of the loop that OPEN opens. */
const char *host_iteration(Host *h, const Node *open);
/* The C text of an address: of P; of the part of stack S that the current iteration writes; of V in
 * host memory (in a program for CPUs, its address); of buffer B of node N, for target T. */
const char *host_place(Host *h, const Place *p);
const char *host_stack(Host *h, const Stack *s);
const char *host_value(Host *h, Value *v);
const char *host_buf(Host *h, int t, Node *n, Buf *b);
const Place *host_value_place(Host *h, Value *v);
/* Prints the allocation of P if it is outside of the plan; ON_HOST: in host memory, in a program
 * for GPUs. host_result_memory does so for the results of N, and gives outputs their shapes. */
void host_region(Host *h, const Place *p, bool on_host);
void host_result_memory(Host *h, Node *n);
/* Prints the memory to which this iteration writes carried value AT: the one of the two regions
 * that the iteration does not read. */
void host_next_region(Host *h, int at, Dim *bytes);
/* Prints the constants that host_value has numbered from FROM onwards. */
void host_consts(Host *h, int from);

/* ---- launch.c ---- */

/* Prints the launches of N's kernel, for target T, and the allocation of its results. */
void host_launch(Host *h, int t, Node *n);

/* ---- images.c ---- */

/* Prints the tables of a program for GPUs. */
void host_gpu_tables(Host *h);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph IR: SSA over tensors. A Graph is a list of Nodes in topological order; a Node has operands
 * (Values; an omitted optional operand is null), results, attributes, regions, and the ONNX names
 * it came from. Pass-private state lives in side arrays indexed by Value.id and Node.id, never
 * here.
 *
 *     graph @main(%x: f32[N,64], %r: f32[N,10]) -> (%4)
 *         where 1 <= N <= 64 {
 *       %w = Const {value = f32[64,10] file("weights.bin", 0, 2560)} : f32[64,10]  @"fc.weight"
 *       %3 = MatMul(%x, %w)                        : f32[N,10]  @"/fc/MatMul"
 *       %4 = Add(%3, %r)                           : f32[N,10]  @"/fc/Add"
 *     }
 */
#ifndef IR_GRAPH_GRAPH_H
#define IR_GRAPH_GRAPH_H

#include "base/vec.h"
#include "ir/kernel/kernel.h"
#include "ir/graph/type.h"

/* Operators: ir/graph/ops.def has the rows, except OP_Const and OP_Kernel, which belong to the
 * IR. */
typedef enum OpKind {
	OP_NONE,
#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) OP_##name,
#include "ir/graph/ops.def"
#undef OP
	OP_COUNT
} OpKind;

enum OpFlags {
	OPF_VIEW = 1,      /* the result is the first operand's elements in the same order */
	OPF_INTERNAL = 2,  /* not an ONNX op: cannot be imported */
	OPF_CONTROL = 4,   /* a bracket of control flow (ir/graph/blocks.h): it computes nothing itself */
	OPF_STRINGS = 8    /* its operands may be strings; so may those of an internal operator */
};

typedef struct OpRow {
	const char *name;
	int nin_min, nin_max, nout_min, nout_max; /* max -1: any number */
	int flags;
} OpRow;

extern const OpRow op_row[OP_COUNT];
OpKind op_by_name(const char *name); /* OP_NONE if there is none */
/* The operator that a model calls NAME, of DOMAIN ("": the ONNX standard); OP_NONE if there is
 * none. */
OpKind op_in_domain(const char *domain, const char *name);
/* OP's domain; *NAME is its name there. */
const char *op_domain(OpKind op, const char **name);
/* Whether any operator is of DOMAIN. */
bool op_domain_known(const char *domain);

/* The elements of a constant, in memory that outlives the graph (an arena or a mapped file). */
typedef struct Tensor {
	DType dtype;
	int rank;
	int64_t *dims;
	const void *data;   /* packed, row-major; STR: ids of Ctx.strings */
	int64_t bytes;
	const char *file;   /* the file that the data is mapped from, for dumps; null: not a file */
	int64_t offset;
	bool computed;      /* the data is in a temporary file (tensor_new_large) */
	/* if not null: the tensor is these NPARTS tensors, one after the other along dim AXIS */
	const struct Tensor *const *part;
	int nparts, axis;
} Tensor;

typedef enum AttrKind { ATTR_INT, ATTR_FLOAT, ATTR_STR, ATTR_INTS, ATTR_FLOATS, ATTR_STRS, ATTR_TENSOR, ATTR_TYPE, ATTR_KERNEL } AttrKind;

typedef struct Attr {
	const char *name; /* interned */
	AttrKind kind;
	int n;            /* number of elements of a list */
	union {
		int64_t i;
		float f;
		const char *s;
		int64_t *is;
		float *fs;
		const char **ss;
		Tensor *t;
		const Type *type;
		Kernel *kernel;
	};
} Attr;

/* In a program for GPUs: which memory holds a value, and which side computes it. Constants and
 * inputs may be in both. */
typedef enum ValuePlace { ON_DEVICE, ON_HOST, ON_BOTH } ValuePlace;

typedef struct Value Value;
typedef struct Node Node;
typedef struct Graph Graph;

/* An operand slot. All uses of a value form a linked list. */
typedef struct Use {
	Value *value;
	Node *user;  /* null: the slot is a result of the graph */
	int slot;
	struct Use *next, *prev;
} Use;

struct Value {
	Node *def;   /* null: a graph input */
	int index;   /* which result of def, or which input */
	int id;      /* dense in the graph */
	const Type *type; /* null until inferred */
	ValuePlace place; /* ON_DEVICE until pass `place` */
	const char *name; /* the ONNX name, for messages; may be null */
	Use *uses;
	Sym *syms; /* symbols that are read from its elements, linked by SymSource.next */
	const Tensor *preset; /* of an input: its default value, or null */
	/* until inferred: the type that the model file declares, as DType and rank + 1; 0: not
	 * declared */
	signed char declared, declared_rank;
	const int64_t *declared_dims; /* its sizes, -1 where it has no number; null: not declared */
};

/* A symbol that is read from a tensor is element AT of VALUE. */
typedef struct SymSource {
	Value *value; /* null: the graph does not read the symbol from a tensor */
	int64_t at;
	Sym *next; /* the next symbol that is read from VALUE */
} SymSource;

typedef VEC(SymSource) SymSources;

struct Node {
	OpKind op;
	int id;      /* dense in the graph, never reused */
	int nin, nout;
	Use *in;     /* nin slots; in[k].value may be null */
	Value **out; /* nout entries; null: an optional result that is not used */
	VEC(Attr) attrs;
	VEC(Graph *) regions;
	const Locs *locs; /* ONNX nodes that this node implements */
	Graph *graph;
	Node *next, *prev;
};

/*
 * Result RESULT may be computed in the memory of input INPUT. They differ at most in the size of
 * dim DIM. The runtime sets the symbols in each run; if the two do not share memory, each symbol
 * has the value of the dim that it abbreviates.
 */
typedef struct Alias {
	int result, input, dim;
	/* if the sizes differ: the sizes of DIM, in the input and in the result, that the caller's
	 * strides allow; else null */
	Sym *room_in, *room_out;
	Sym *copied; /* the extent of DIM that is copied; 0 if they share memory */
} Alias;

/* A size that a message shows, after NAME: `dim 0 of "x" is`, then 3. */
typedef struct FactSize {
	const char *name;
	Dim *dim; /* null: none */
} FactSize;

/* A relation between sizes that compile time could not prove, checked at run time: A == B or A
 * <= B. */
typedef struct Fact {
	Dim *a, *b;
	bool le;
	Loc loc;
	const char *what; /* "inner dimensions differ", for the message; may be null */
	FactSize show[2]; /* both null: the message shows A and B, a constant as expected */
} Fact;

/* Size K of the message of F, which is WHAT, then for each size its name, with the punctuation
 * before it, and its value: ": dim 0 of "x" is " 3 ", expected " 4. */
bool fact_size(Arena *a, const Fact *f, int k, FactSize *out);

/* An input or result of the graph as an application sees it: a tensor where TYPE is null, else a
 * value of that type, for which PARTS consecutive inputs or results stand (ops/infer/parts.h). */
typedef struct GraphForm {
	const char *name;
	const Type *type;
	int parts;
} GraphForm;

typedef struct GraphForms {
	GraphForm *at;
	int n, cap;
} GraphForms;

/* How exactly the elements of a value are determined, beyond the rounding of their type. */
typedef struct Accuracy {
	/* they are computed from floats and rounded to multiples of STEP, less or more a constant:
	 * where a float is near the middle, two right results differ by STEP; 0: they are not */
	double step;
	/* they are differences of numbers of about this magnitude, so that two right results may
	 * differ by some of its ulps, even if both are near 0; 0: they are not */
	double unit;
	/* result PART of the node UNORDERED, which leaves open in which order the elements along
	 * AXIS are; null: their order is determined */
	const Node *unordered;
	int part;
	int64_t axis;
} Accuracy;

/* The accuracy of the result NAME, as in Accuracy. UNORDERED: the elements along AXIS may have
 * another order, that of the result BY, which has their values; or null. */
typedef struct ResultAccuracy {
	const char *name;
	double step, unit;
	bool unordered;
	int64_t axis;
	const char *by;
} ResultAccuracy;

/* A key and a value of the author's. */
typedef struct Property {
	const char *key, *value;
} Property;

/* The metadata of the model's file, for applications. A text that it lacks is "". */
typedef struct Metadata {
	const char *producer, *producer_version, *domain, *doc, *graph, *graph_doc;
	int64_t version;
	VEC(Property) properties;
} Metadata;

/* The texts of Metadata, with their names in the IR's text. */
typedef struct MetadataText {
	const char *name;
	size_t at; /* offset in Metadata */
} MetadataText;

extern const MetadataText metadata_texts[]; /* the last has a null name */

/* The schedules of the graph's kernels for one target, which LINE of the text begins. */
typedef struct GraphSchedules {
	const char *target;
	int line;
	struct Schedule **of; /* by Node.id; null: not a kernel (ir/loop/loop.h) */
	int nof;              /* entries of it */
} GraphSchedules;

struct Graph {
	Ctx *ctx;
	Arena *arena;
	const char *name;
	VEC(Value *) inputs;
	VEC(Use *) results;      /* graph results, in order; a value may be a result twice */
	VEC(const char *) result_names;
	GraphForms takes, gives;      /* of all inputs, of all results; empty: they are tensors */
	Node *first, *last;
	SymSources *sources; /* by Sym.id; regions share the symbols of the graph around them */
	VEC(Fact) facts;
	VEC(Alias) aliases; /* set by the pass `alias` */
	VEC(const Sym *) batches; /* elements along these sizes are computed independently; set by the pass `batch` */
	VEC(ResultAccuracy) accuracy; /* of some results; set by the pass `infer` */
	int nvalues, nnodes;     /* next free ids */
	const char *file;        /* the model's file, for messages */
	/* null: the file says nothing of itself, except for a name of its graph */
	const Metadata *metadata;
	int opset;               /* the newest that the model has nodes of; 0: it is not ONNX */
	/* how kernels run, in a text that begins after the pass `sched`, which takes it */
	VEC(GraphSchedules) schedules;
};

Graph *graph_new(Ctx *c, Arena *a, const char *name);
/* A graph that becomes a region of a node of AROUND. */
Graph *graph_new_region(const Graph *around, const char *name);
Value *graph_input(Graph *g, const char *name, const Type *t);
void graph_result(Graph *g, Value *v, const char *name);
/* Replaces G's inputs by V; inputs that are removed must be unused. */
void graph_set_inputs(Graph *g, Value *const *v, int n);
/* G has the results V instead. */
void graph_set_results(Graph *g, Value *const *v, const char *const *names, int n);

/* Makes a node with NIN operands and NOUT results (their types null), before BEFORE, or at the
 * end if that is null. */
Node *node_new(Graph *g, OpKind op, Value *const *in, int nin, int nout, Node *before);
/* Ints of a node with regions: the number of values that each body captures, which are the last
 * operands of the node and the last inputs of the body. */
#define ATTR_CAPTURES "captures"
/* Prefix of attributes that are for tools. Any node may have them; the compiler does not read
 * them. */
#define NOTE_PREFIX "__"
/* An int that any node may have: not 0 where the model allows that rows which are multiplied by
 * narrow weights are quantised to bytes (passes/kernel/quantise_activations.c). */
#define ATTR_BYTE_ROWS "byte_rows"
/* A string that the node of a kernel has in a text that --dump-ir=forms printed: what the kernel is
 * (passes/forms/form.h). */
#define ATTR_FORM "form"

/* Null, or a text about a wrong COUNT of operands or results, which WHAT names. LEAST to MOST are
 * expected (MOST below 0: no limit): "has 1 operands, expected at least 2". */
const char *count_fault(Arena *a, const char *what, int count, int least, int most);

/* N replaces FROM, or a part of it: adds the locations of FROM to N's, and FROM's permissions
 * (ATTR_BYTE_ROWS). */
void node_locs_from(Node *n, const Node *from);
void node_set_input(Node *n, int k, Value *v); /* K == nin appends an operand */
void node_truncate_inputs(Node *n, int nin); /* drops the operands from number NIN on */
static inline Value *node_in(const Node *n, int k) { return k < n->nin ? n->in[k].value : NULL; }
static inline Value *node_out(const Node *n, int k) { return k < n->nout ? n->out[k] : NULL; }
/* Append to OUT in arena A the dims of the types of N's results and of N's attributes; those of the
 * types of G's inputs and of G's facts. */
void node_dims(const Node *n, Arena *a, DimList *out);
void graph_dims(const Graph *g, Arena *a, DimList *out);
/* Sets USED, which has sym_count entries, by Sym.id for the symbols that G mentions: in these dims,
 * in aliases, and in the dims that such symbols abbreviate. */
void graph_syms(const Graph *g, bool *used);
/* Whether S is a size that the application chooses: an input has it, and it may have several
 * values. */
bool graph_takes_size(const Graph *g, const Sym *s);
/* Whether N runs on the host: its results are there. */
static inline bool node_on_host(const Node *n) { return n->nout && n->out[0] && n->out[0]->place == ON_HOST; }
/* Removes a node whose results have no use. */
void node_remove(Node *n);
/* Every use of A becomes a use of B. */
void value_replace(Value *a, Value *b);
static inline bool graph_has_batch(const Graph *g, const Sym *s)
{
	for (int i = 0; i < g->batches.n; i++)
		if (g->batches.at[i] == s)
			return true;
	return false;
}
/* From which value G reads S. */
static inline SymSource graph_source(const Graph *g, const Sym *s)
{
	return s->id < g->sources->n ? g->sources->at[s->id] : (SymSource){0};
}
/* Makes S element AT of V in G; V null: G does not read it from a tensor. */
void graph_set_source(Graph *g, Sym *s, Value *v, int64_t at);
/* Replaces uses of FROM in G by TO. */
void graph_move_sources(Graph *g, Value *from, Value *to);
bool value_used_once(const Value *v);
/* Moves N before BEFORE, or to the end if that is null. */
void node_move(Node *n, Node *before);

const Attr *node_attr(const Node *n, const char *name); /* null if N has none */
int64_t node_int(const Node *n, const char *name, int64_t otherwise);
float node_float(const Node *n, const char *name, float otherwise);
const char *node_str(const Node *n, const char *name, const char *otherwise);
/* The attribute's list of ints; *COUNT is -1 if N has none. */
const int64_t *node_ints(const Node *n, const char *name, int *count);
const float *node_floats(const Node *n, const char *name, int *count);
void node_set_int(Node *n, const char *name, int64_t v);
void node_set_float(Node *n, const char *name, float v);
void node_set_str(Node *n, const char *name, const char *v);
void node_set_ints(Node *n, const char *name, const int64_t *v, int count);
void node_set_attr(Node *n, Attr a);
/* Removes the attribute NAME, if there is one. */
void node_remove_attr(Node *n, const char *name);

/* The constant that defines V, or null. */
const Tensor *value_const(const Value *v);
Tensor *tensor_new(Arena *a, DType t, int rank, const int64_t *dims); /* zeroed data */
/* The same; the data of a large one are in a temporary file, so that they need not stay in memory.
 * The file disappears when the process ends. */
Tensor *tensor_new_large(Arena *a, DType t, int rank, const int64_t *dims);
/* The N tensors of PART, one after the other along dim D, in which they may differ. Each row of a
 * part has whole bytes. */
Tensor *tensor_concat(Arena *a, const Tensor *const *part, int n, int d);
/* Whether the data of T is in a file, so that it need not stay in memory. */
bool tensor_in_file(const Tensor *t);
Value *graph_const(Graph *g, const Tensor *t, Node *before);
/* Make a constant: a 1-D i64, or a scalar. */
Value *graph_const_ints(Graph *g, const int64_t *v, int n, Node *before);
Value *graph_const_scalar(Graph *g, DType t, double v, Node *before);
int64_t tensor_numel(const Tensor *t);
bool tensor_is_zero(const Tensor *t); /* all bytes are 0 */
bool tensor_has_type(const Tensor *t, const Type *type); /* whether element type and dims agree */

Loc node_loc(const Node *n);
DiagLoc node_diag(const Node *n); /* for diag_error */
/* Sets the location of the current work (Diag.where) and returns the one before. */
DiagLoc diag_at(Ctx *c, DiagLoc where);

/* ---- graph_clone.c ---- */

/* A copy of G in A, with the same ids. The copy shares the objects that no pass changes in place:
 * tensors, attributes other than kernels, locations, and symbols. G's arena must live as long. */
Graph *graph_clone(const Graph *g, Arena *a);

/* ---- graph_print.c ---- */

/* Text, version 1 (docs/ir.md). Text that graph_parse reads prints as the same bytes. Constants
 * with up to 64 elements are printed whole; larger ones as file("name", offset, bytes) if
 * mapped, else as hex. */
void graph_print(StrBuf *b, const Graph *g);
/* The labels of G's values in that text, without the %, by Value.id. */
const char **graph_labels(const Graph *g, Arena *a);

/* ---- graph_parse.c ---- */

/* FILE is for messages: "FILE:LINE: error: expected ...". Null after an error. Does not verify
 * the graph. */
Graph *graph_parse(Ctx *c, Arena *a, const char *text, const char *file);

/* ---- graph_verify.c ---- */

/* Verifies order, uses, arities, the types of constants and kernels, and the sources of symbols.
 * A value without a type is an error unless PASS is "import" or "parse", which leave types to
 * inference. */
bool graph_verify(Graph *g, Diag *d, const char *pass);
/* A buffer of N's kernel that stands for no operand or result of N, or whose type is not known to
 * be the value's; null: there is none. */
const Buf *kernel_misfit(const Graph *g, const Node *n);

#endif

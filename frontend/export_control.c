/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets of control flow (ir/graph/blocks.h) as If and Loop, whose bodies use the names around
 * them:
 *
 *     When ... Else ... EndWhen            If
 *     For ... EndFor                       Loop; a Slice behind it reverses a stack
 *     Row                                  Gather of one index
 *
 * So the models of LSTM, GRU, RNN and Scan, which are brackets by then, become Loops, too. ONNX
 * tests the condition of a Loop before the first iteration and at the end of each. A While tests it
 * in the iteration, with the values that it begins with. The nodes up to the While are therefore
 * written twice more: before the loop, with the initial values, and at the end of its body, with
 * the next ones.
 */
#include "frontend/export_impl.h"

#include "base/arena.h"
#include "ir/graph/blocks.h"
#include "ops/op.h"

#include <string.h>

/* A body that is being written: of an If's side, or of a Loop. */
typedef struct ExportBody {
	struct ExportBody *around;
	const Node *open;
	ExportNodes node;  /* the nodes around it */
	const char **size; /* the sizes that are known around it */
	const char *condition, *trip, *iteration, *go;
	const Node *until; /* the loop's While, or null */
	Onnx__GraphProto *then;
} ExportBody;

static int nsizes(const Exporter *x)
{
	return sym_count(x->g->ctx) + 1;
}

/* From here on, sizes are the ones in FROM; those that are found later are not in it. */
static void use_sizes(Exporter *x, const char **from)
{
	x->size = arena_copy(x->a, from, (size_t)nsizes(x) * sizeof *from);
}

/* The only element of the vector NAME, which may be null. */
static const char *scalar_of(Exporter *x, const char *name)
{
	return name ? export_op(x, OP_Squeeze, name, NULL) : NULL;
}

/* Whether D is not 0, as ONNX's conditions are; null after a diagnostic. */
static const char *is_not_zero(Exporter *x, const Dim *d)
{
	const char *size = export_size(x, d);

	return size ? scalar_of(x, export_cast(x, size, DT_BOOL, export_fresh(x, "condition")))
		    : NULL;
}

static void open_body(Exporter *x, ExportBody b)
{
	b.around = x->body;
	b.node = x->node;
	b.size = x->size;
	x->body = arena_copy(x->a, &b, sizeof b);
	x->node = (ExportNodes){0};
	use_sizes(x, b.size);
}

/* The body that ends here, with the COUNT inputs IN, and V[0..n) as outputs after FIRST, if that is
 * not null. */
static Onnx__GraphProto *body(Exporter *x, const char *what, Onnx__ValueInfoProto **in, int count,
			      const char *first, Value *const *v, int n)
{
	Onnx__GraphProto *p = NEW(x->a, Onnx__GraphProto);
	Onnx__ValueInfoProto **out = NEW_ARRAY(x->a, n + 1, Onnx__ValueInfoProto *);
	int nout = 0;

	onnx__graph_proto__init(p);
	p->name = (char *)(uintptr_t)export_fresh(x, what);
	if (first)
		out[nout++] = export_value(x, first, type_tensor(x->g->ctx, DT_BOOL, 0, NULL));
	/* a value may be of the graph around, or be given twice */
	for (int i = 0; i < n; i++)
		out[nout++] = export_value(x, export_op(x, OP_Identity, export_name(x, v[i]), NULL),
					   v[i]->type);
	p->input = in;
	p->n_input = (size_t)count;
	p->output = out;
	p->n_output = (size_t)nout;
	COUNTED(p, node, x->node);
	return p;
}

/* Ends the innermost body. */
static void close_body(Exporter *x)
{
	x->node = x->body->node;
	x->size = x->body->size;
	x->body = x->body->around;
}

static void add_body(Exporter *x, Onnx__NodeProto *p, const char *name, Onnx__GraphProto *g)
{
	export_attribute(x, p, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = g;
}

/* ---- If ---- */

static bool open_when(Exporter *x, const Node *n)
{
	ExportBody b = {.open = n, .condition = is_not_zero(x, control_dim(n, "value"))};

	if (b.condition)
		open_body(x, b);
	return b.condition != NULL;
}

/* The results of side K of the EndWhen CLOSE are the outputs. */
static Onnx__GraphProto *side(Exporter *x, const Node *close, int k)
{
	Value **v = NEW_ARRAY(x->a, close->nout + 1, Value *);

	for (int i = 0; i < close->nout; i++)
		v[i] = node_in(close, k * close->nout + i);
	return body(x, k ? "else" : "then", NULL, 0, NULL, v, close->nout);
}

static bool open_else(Exporter *x, const Node *n)
{
	x->body->then = side(x, block_close(n), 0);
	x->node = (ExportNodes){0};
	use_sizes(x, x->body->size);
	return true;
}

static bool close_when(Exporter *x, const Node *n)
{
	const ExportBody *b = x->body;
	Onnx__GraphProto *otherwise = side(x, n, 1);
	const char **out = NEW_ARRAY(x->a, n->nout + 1, const char *);
	Onnx__NodeProto *p;

	close_body(x);
	for (int i = 0; i < n->nout; i++)
		out[i] = export_name(x, n->out[i]);
	p = export_add(x, OP_If, export_node_name(x, b->open), &b->condition, 1, out, n->nout);
	add_body(x, p, "then_branch", b->then);
	add_body(x, p, "else_branch", otherwise);
	return true;
}

/* ---- Loop ---- */

/* Writes what the While of loop OPEN tests, where V[k] is carried and ITERATION is the
 * iteration. Null after a diagnostic. */
static const char *go_on(Exporter *x, const Node *open, const Node *until, const char **v,
			 const char *iteration)
{
	const int n = x->g->nvalues;
	const char **values = x->value, **sizes = x->size, *go;
	int inner = 0; /* loops around M, within OPEN */
	bool ok = true;

	x->value = arena_copy(x->a, values, (size_t)n * sizeof *values);
	use_sizes(x, x->body && x->body->open == open ? x->body->size : sizes);
	for (int i = 0; i < open->nout; i++)
		x->value[open->out[i]->id] = v[i];
	for (const Node *m = open->next; m != until; m = m->next)
		for (int i = 0; i < m->nout && m->op != OP_Const; i++)
			if (m->out[i])
				x->value[m->out[i]->id] = NULL;
	for (const Node *m = open->next; m != until && ok; m = m->next) {
		inner += (m->op == OP_For) - (m->op == OP_EndFor);
		if (m->op == OP_Iteration && !inner)
			x->value[m->out[0]->id] = iteration;
		else if (m->op == OP_Const)
			values[m->out[0]->id] = export_name(x, m->out[0]);
		else
			ok = export_node(x, m);
	}
	go = ok ? is_not_zero(x, control_dim(until, "value")) : NULL;
	x->value = values;
	x->size = sizes;
	return go;
}

static bool open_for(Exporter *x, const Node *n)
{
	ExportBody b = {.open = n,
			.until = loop_while_of(n),
			.trip = "",
			.condition = "",
			.iteration = export_fresh(x, "iteration"),
			.go = export_fresh(x, "go")};
	const char **init = NEW_ARRAY(x->a, n->nin + 1, const char *);
	const Dim *trip = control_dim(n, "trip");

	for (int i = 0; i < n->nin; i++)
		init[i] = export_name(x, node_in(n, i));
	if (trip)
		b.trip = scalar_of(x, export_size(x, trip));
	if (b.until)
		b.condition = go_on(x, n, b.until, init, scalar_of(x, export_integer(x, 0)));
	if (!b.trip || !b.condition)
		return false;
	open_body(x, b);
	return true;
}

static bool is_reversed(const Node *close, int k)
{
	return k >= loop_carried(close) && stack_is_reversed(close, k);
}

/* NAME is the stack RAW in the reverse order. */
static void reverse(Exporter *x, const char *raw, const char *name)
{
	const char *in[] = {raw, export_integer(x, -1), export_integer(x, INT64_MIN),
			    export_integer(x, 0), export_integer(x, -1)};

	export_add(x, OP_Slice, export_fresh(x, "node"), in, 5, &name, 1);
}

static Onnx__ValueInfoProto **loop_inputs(Exporter *x, const ExportBody *b)
{
	Onnx__ValueInfoProto **in = NEW_ARRAY(x->a, b->open->nout + 2, Onnx__ValueInfoProto *);

	in[0] = export_value(x, b->iteration, type_tensor(x->g->ctx, DT_I64, 0, NULL));
	in[1] = export_value(x, b->go, type_tensor(x->g->ctx, DT_BOOL, 0, NULL));
	for (int i = 0; i < b->open->nout; i++)
		in[i + 2] = export_value(x, export_name(x, b->open->out[i]), b->open->out[i]->type);
	return in;
}

static bool close_for(Exporter *x, const Node *n)
{
	const ExportBody *b = x->body;
	const int carried = loop_carried(n);
	const char **in = NEW_ARRAY(x->a, carried + 2, const char *), *go;
	const char **out = NEW_ARRAY(x->a, n->nout + 1, const char *);
	Value **v = NEW_ARRAY(x->a, n->nout + 1, Value *);
	Onnx__GraphProto *g;

	for (int i = 0; i < n->nout; i++) {
		v[i] = node_in(n, i);
		out[i] = export_name(x, v[i]);
	}
	go = b->until
		     ? go_on(x, b->open, b->until, out,
			     export_op(x, OP_Add, b->iteration, scalar_of(x, export_integer(x, 1))))
		     : export_op(x, OP_Identity, b->go, NULL);
	if (!go)
		return false;
	g = body(x, "body", loop_inputs(x, b), carried + 2, go, v, n->nout);
	close_body(x);
	in[0] = b->trip;
	in[1] = b->condition;
	for (int i = 0; i < carried; i++)
		in[i + 2] = export_name(x, node_in(b->open, i));
	for (int i = 0; i < n->nout; i++)
		out[i] = is_reversed(n, i) ? export_fresh(x, "stack") : export_name(x, n->out[i]);
	add_body(
		x,
		export_add(x, OP_Loop, export_node_name(x, b->open), in, carried + 2, out, n->nout),
		"body", g);
	for (int i = 0; i < n->nout; i++)
		if (is_reversed(n, i))
			reverse(x, out[i], export_name(x, n->out[i]));
	return true;
}

static bool add_row(Exporter *x, const Node *n)
{
	const char *in[] = {export_name(x, node_in(n, 0)),
			    scalar_of(x, export_size(x, control_dim(n, "at")))};
	const char *out = export_name(x, n->out[0]);

	if (in[1])
		export_add(x, OP_Gather, export_node_name(x, n), in, 2, &out, 1);
	return in[1] != NULL;
}

/* The number of the iteration of the innermost loop. */
static const char *iteration_of(const Exporter *x)
{
	const ExportBody *b = x->body;

	while (!b->iteration)
		b = b->around;
	return b->iteration;
}

bool export_bracket(Exporter *x, const Node *n)
{
	switch (n->op) {
	case OP_When: return open_when(x, n);
	case OP_Else: return open_else(x, n);
	case OP_EndWhen: return close_when(x, n);
	case OP_For: return open_for(x, n);
	case OP_Iteration: x->value[n->out[0]->id] = iteration_of(x); return true;
	case OP_While: return true;
	case OP_EndFor: return close_for(x, n);
	default: return add_row(x, n);
	}
}

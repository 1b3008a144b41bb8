/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/export_impl.h"

#include "base/str.h"
#include "base/sys.h"
#include "ir/graph/blocks.h"
#include "ops/op.h"
#include "runtime/strtable.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* protobuf sizes are of 31 bits. */
enum { MOST_BYTES = INT32_MAX };

/* ---- Names ---- */

static bool is_taken(const Exporter *x, const char *name)
{
	for (int i = 0; i < x->taken.n; i++)
		if (!strcmp(x->taken.at[i], name))
			return true;
	return false;
}

const char *export_fresh(Exporter *x, const char *what)
{
	const char *s;

	do
		s = arena_printf(x->a, "dlcc/%s_%d", what, x->fresh++);
	while (is_taken(x, s));
	vec_push(x->a, &x->taken, s);
	return s;
}

/* NAME, or a new one where it is taken. */
static const char *take_name(Exporter *x, const char *name, const char *what)
{
	if (!name || !*name || is_taken(x, name))
		return export_fresh(x, what);
	vec_push(x->a, &x->taken, name);
	return name;
}

const char *export_name(Exporter *x, const Value *v)
{
	if (!v)
		return "";
	if (!x->value[v->id])
		x->value[v->id] = take_name(x, v->name, "value");
	return x->value[v->id];
}

/* ---- Tensors and types ---- */

static Onnx__TensorProto *tensor(Exporter *x, const Tensor *t, const char *name)
{
	Onnx__TensorProto *p = NEW(x->a, Onnx__TensorProto);

	onnx__tensor_proto__init(p);
	p->name = (char *)(uintptr_t)name;
	p->n_dims = (size_t)t->rank;
	p->dims = t->dims;
	p->has_data_type = 1;
	p->data_type = dtype_info[t->dtype].onnx;
	if (t->dtype == DT_STR) {
		const int64_t n = tensor_numel(t);

		p->n_string_data = (size_t)n;
		p->string_data = NEW_ARRAY(x->a, n + 1, ProtobufCBinaryData);
		for (int64_t i = 0; i < n; i++) {
			const dl_str s = strings_get(x->g->ctx->strings,
						     ((const int64_t *)t->data)[i]);

			p->string_data[i].data = (uint8_t *)(uintptr_t)s.p;
			p->string_data[i].len = (size_t)s.n;
		}
		return p;
	}
	p->has_raw_data = 1;
	p->raw_data.data = (uint8_t *)(uintptr_t)t->data;
	p->raw_data.len = (size_t)t->bytes;
	return p;
}

const char *export_constant(Exporter *x, const Tensor *t, const char *what)
{
	const char *name = export_fresh(x, what);

	vec_push(x->a, &x->constant, tensor(x, t, name));
	return name;
}

static const char *dim_text(Exporter *x, const Dim *d)
{
	STRBUF_LOCAL(b);

	if (dim_as_sym(d))
		return dim_as_sym(d)->name;
	dim_print(&b, d);
	return arena_strdup(x->a, strbuf_str(&b));
}

static Onnx__TypeProto *type(Exporter *x, const Type *t)
{
	Onnx__TypeProto *p = NEW(x->a, Onnx__TypeProto);
	Onnx__TypeProto__Tensor *tt = NEW(x->a, Onnx__TypeProto__Tensor);
	Onnx__TensorShapeProto *s = NEW(x->a, Onnx__TensorShapeProto);

	onnx__type_proto__init(p);
	onnx__type_proto__tensor__init(tt);
	onnx__tensor_shape_proto__init(s);
	p->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
	p->tensor_type = tt;
	tt->has_elem_type = 1;
	tt->elem_type = dtype_info[t->dtype].onnx;
	tt->shape = s;
	s->n_dim = (size_t)t->rank;
	s->dim = NEW_ARRAY(x->a, t->rank + 1, Onnx__TensorShapeProto__Dimension *);
	for (int i = 0; i < t->rank; i++) {
		Onnx__TensorShapeProto__Dimension *d = NEW(x->a, Onnx__TensorShapeProto__Dimension);

		onnx__tensor_shape_proto__dimension__init(d);
		if (dim_is_const(t->dims[i], &d->dim_value)) {
			d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
		} else {
			d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
			d->dim_param = (char *)(uintptr_t)dim_text(x, t->dims[i]);
		}
		s->dim[i] = d;
	}
	return p;
}

Onnx__ValueInfoProto *export_value(Exporter *x, const char *name, const Type *t)
{
	Onnx__ValueInfoProto *p = NEW(x->a, Onnx__ValueInfoProto);

	onnx__value_info_proto__init(p);
	p->name = (char *)(uintptr_t)name;
	p->type = type(x, t);
	return p;
}

/* ---- Nodes ---- */

bool export_fault(Exporter *x, const char *text)
{
	return diag_error(x->g->ctx->diag, node_diag(x->at), "cannot be written as ONNX: %s", text);
}

static void use_domain(Exporter *x, const char *domain)
{
	for (int i = 0; i < x->ndomains; i++)
		if (!strcmp(x->domain[i], domain))
			return;
	if (x->ndomains < (int)(sizeof x->domain / sizeof *x->domain))
		x->domain[x->ndomains++] = domain;
}

/* Operators that are newer than EXPORT_OPSET and that stand for operators of other domains. */
static const struct {
	OpKind op;
	int opset;
} newer[] = {{OP_TensorScatter, 24}};

static void use_operator(Exporter *x, OpKind op)
{
	for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
		if (newer[i].op == op && x->opset < newer[i].opset)
			x->opset = newer[i].opset;
}

Onnx__NodeProto *export_add(Exporter *x, OpKind op, const char *name, const char *const *in,
			    int nin, const char *const *out, int nout)
{
	Onnx__NodeProto *p = NEW(x->a, Onnx__NodeProto);
	const char *type, *domain = op_domain(op, &type);

	onnx__node_proto__init(p);
	p->op_type = (char *)(uintptr_t)type;
	if (*domain)
		p->domain = (char *)(uintptr_t)domain;
	p->name = (char *)(uintptr_t)name;
	p->n_input = (size_t)nin;
	p->input = arena_copy(x->a, in, (size_t)nin * sizeof *in);
	p->n_output = (size_t)nout;
	p->output = arena_copy(x->a, out, (size_t)nout * sizeof *out);
	p->attribute = NEW_ARRAY(x->a, 2, Onnx__AttributeProto *);
	use_domain(x, domain);
	use_operator(x, op);
	vec_push(x->a, &x->node, p);
	return p;
}

Onnx__AttributeProto *export_attribute(Exporter *x, Onnx__NodeProto *p, const char *name,
				       Onnx__AttributeProto__AttributeType type)
{
	Onnx__AttributeProto *a = NEW(x->a, Onnx__AttributeProto);

	onnx__attribute_proto__init(a);
	a->name = (char *)(uintptr_t)name;
	a->has_type = 1;
	a->type = type;
	p->attribute[p->n_attribute++] = a;
	return a;
}

void export_int(Exporter *x, Onnx__NodeProto *p, const char *name, int64_t v)
{
	Onnx__AttributeProto *a = export_attribute(x, p, name,
						   ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

	a->has_i = 1;
	a->i = v;
}

const char *export_cast(Exporter *x, const char *in, DType to, const char *out)
{
	export_int(x, export_add(x, OP_Cast, export_fresh(x, "node"), &in, 1, &out, 1), "to",
		   dtype_info[to].onnx);
	return out;
}

const char *export_op(Exporter *x, OpKind op, const char *a, const char *b)
{
	const char *out = export_fresh(x, "size"), *in[] = {a, b};

	export_add(x, op, out, in, b ? 2 : 1, &out, 1);
	return out;
}

/* ---- Sizes ---- */

const char *export_integer(Exporter *x, int64_t v)
{
	const int64_t one = 1;
	Tensor *t = tensor_new(x->a, DT_I64, 1, &one);

	*(int64_t *)(uintptr_t)t->data = v;
	return export_constant(x, t, "integer");
}

static void *size_constant(void *arg, int64_t v)
{
	return (void *)(uintptr_t)export_integer(arg, v);
}

/* Element I of a tensor of one dim, as another one. */
static const char *element(Exporter *x, const char *of, int64_t i)
{
	return export_op(x, OP_Gather, of, export_integer(x, i));
}

static bool is_integral(DType t)
{
	return t == DT_BOOL || dtype_is_int(t);
}

/* V, of integers or truth values, as a vector of i64. */
static const char *vector(Exporter *x, const Value *v)
{
	const char *name = export_name(x, v);

	if (v->type->dtype != DT_I64)
		name = export_cast(x, name, DT_I64, export_fresh(x, "size"));
	return export_op(x, OP_Reshape, name, export_integer(x, -1));
}

/* The value of S: a dim of an input, or an element that it is read from. */
static void *size_sym(void *arg, Sym *s)
{
	Exporter *x = arg;
	const char **to = &x->size[s->id];
	const SymSource source = graph_source(x->g, s);

	for (int i = 0; i < x->g->inputs.n && !*to; i++) {
		const Value *v = x->g->inputs.at[i];

		for (int d = 0; d < v->type->rank && !*to; d++)
			if (dim_as_sym(v->type->dims[d]) == s)
				*to = element(x, export_op(x, OP_Shape, export_name(x, v), NULL),
					      d);
	}
	if (!*to && source.value && is_integral(source.value->type->dtype))
		*to = element(x, vector(x, source.value), source.at);
	if (!*to)
		export_fault(x, "a size cannot be told from the inputs' shapes");
	return (void *)(uintptr_t)*to;
}

static void *size_op(void *arg, DimOp op, void *a, void *b)
{
	static const OpKind kind[] = {[DIM_OP_ADD] = OP_Add,
				      [DIM_OP_MUL] = OP_Mul,
				      [DIM_OP_FLOORDIV] = OP_Div,
				      [DIM_OP_MIN] = OP_Min,
				      [DIM_OP_MAX] = OP_Max};

	/* Div rounds towards 0, and the remainder of Mod has the divisor's sign. */
	if (op == DIM_OP_FLOORDIV)
		a = (void *)(uintptr_t)export_op(arg, OP_Sub, a, export_op(arg, OP_Mod, a, b));
	return (void *)(uintptr_t)export_op(arg, kind[op], a, b);
}

const char *export_size(Exporter *x, const Dim *d)
{
	const DimBuilder b = {size_constant, size_sym, size_op, x};

	return dim_walk(d, &b);
}

/* The dims of T as a tensor of one dim; null after a diagnostic. */
static const char *shape(Exporter *x, const Type *t)
{
	const char **parts = NEW_ARRAY(x->a, t->rank + 1, const char *), *out;
	int64_t dims[MAX_RANK];

	if (type_static(t, dims)) {
		const int64_t rank = t->rank;
		Tensor *c = tensor_new(x->a, DT_I64, 1, &rank);

		memcpy((void *)(uintptr_t)c->data, dims, (size_t)c->bytes);
		return export_constant(x, c, "shape");
	}
	for (int i = 0; i < t->rank; i++) {
		parts[i] = export_size(x, t->dims[i]);
		if (!parts[i])
			return NULL;
	}
	out = export_fresh(x, "shape");
	export_int(x, export_add(x, OP_Concat, out, parts, t->rank, &out, 1), "axis", 0);
	return out;
}

/* ---- Attributes ---- */

static ProtobufCBinaryData bytes_of(const char *s)
{
	return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

static Onnx__AttributeProto *attribute(Exporter *x, const Attr *at)
{
	Onnx__AttributeProto *p = NEW(x->a, Onnx__AttributeProto);

	onnx__attribute_proto__init(p);
	p->name = (char *)(uintptr_t)at->name;
	p->has_type = 1;
	switch (at->kind) {
	case ATTR_INT:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
		p->has_i = 1;
		p->i = at->i;
		return p;
	case ATTR_FLOAT:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
		p->has_f = 1;
		p->f = at->f;
		return p;
	case ATTR_STR:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
		p->has_s = 1;
		p->s = bytes_of(at->s);
		return p;
	case ATTR_INTS:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
		p->n_ints = (size_t)at->n;
		p->ints = at->is;
		return p;
	case ATTR_FLOATS:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
		p->n_floats = (size_t)at->n;
		p->floats = at->fs;
		return p;
	case ATTR_STRS:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
		p->n_strings = (size_t)at->n;
		p->strings = NEW_ARRAY(x->a, at->n + 1, ProtobufCBinaryData);
		for (int i = 0; i < at->n; i++)
			p->strings[i] = bytes_of(at->ss[i]);
		return p;
	case ATTR_TENSOR:
		p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
		p->t = tensor(x, at->t, NULL);
		return p;
	default: return NULL;
	}
}

static bool add_attributes(Exporter *x, Onnx__NodeProto *p, const Node *n)
{
	const char *type;
	OpAttr declared;

	p->attribute = NEW_ARRAY(x->a, n->attrs.n + 1, Onnx__AttributeProto *);
	for (int i = 0; i < n->attrs.n; i++) {
		Onnx__AttributeProto *at;

		if (!op_attr_find(n->op, n->attrs.at[i].name, &declared) || declared.own)
			continue; /* a note for tools, or the compiler's own */
		if (!*op_domain(n->op, &type) && x->opset < declared.since)
			x->opset = declared.since;
		at = attribute(x, &n->attrs.at[i]);
		if (!at)
			return export_fault(x, "an attribute has no form there");
		p->attribute[p->n_attribute++] = at;
	}
	return true;
}

/* ---- The graph ---- */

/* It is the name of N, if N is the model's operator with that name; else the name with a suffix. */
const char *export_node_name(Exporter *x, const Node *n)
{
	const Loc loc = node_loc(n);
	const char *type;

	op_domain(n->op, &type);
	if (loc.node && (!loc.op || !strcmp(loc.op, type)))
		return take_name(x, loc.node, "node");
	return take_name(x, loc.node ? arena_printf(x->a, "%s/%s", loc.node, type) : NULL, "node");
}

static const char *number(Exporter *x, double v)
{
	Tensor *t = tensor_new(x->a, DT_F32, 0, NULL);

	*(float *)(uintptr_t)t->data = (float)v;
	return export_constant(x, t, "number");
}

/* Here, casts of floats to bytes saturate, like QuantizeLinear; ONNX leaves the result for floats
 * out of range open. So IN is clipped first. */
static const char *saturated(Exporter *x, const Node *n, const char *in)
{
	const Type *from = node_in(n, 0)->type, *to = n->out[0]->type;
	const int bits = dtype_info[to->dtype].bits;
	const bool sign = dtype_is_signed(to->dtype);
	const char *out, *ins[3] = {in};

	if (from->dtype != DT_F32 || !dtype_is_int(to->dtype) || bits > 16)
		return in;
	ins[1] = number(x, sign ? -ldexp(1, bits - 1) : 0);
	ins[2] = number(x, ldexp(1, sign ? bits - 1 : bits) - 1);
	out = export_fresh(x, "clipped");
	export_add(x, OP_Clip, export_fresh(x, "node"), ins, 3, &out, 1);
	return out;
}

static bool add_operator(Exporter *x, const Node *n)
{
	const char **in = NEW_ARRAY(x->a, n->nin + 1, const char *);
	const char **out = NEW_ARRAY(x->a, n->nout + 1, const char *);
	int nin = n->nin, nout = n->nout;

	for (int i = 0; i < n->nin; i++)
		in[i] = export_name(x, node_in(n, i));
	for (int i = 0; i < n->nout; i++)
		out[i] = export_name(x, n->out[i]);
	if (n->op == OP_Cast)
		in[0] = saturated(x, n, in[0]);
	while (nin && !*in[nin - 1])
		nin--;
	while (nout && !*out[nout - 1])
		nout--;
	return add_attributes(x, export_add(x, n->op, export_node_name(x, n), in, nin, out, nout),
			      n);
}

/* RESULT is OF in the shape of T. */
static bool add_reshape(Exporter *x, const Node *n)
{
	const char *in[] = {export_name(x, node_in(n, 0)), shape(x, n->out[0]->type)};
	const char *out = export_name(x, n->out[0]);

	if (in[1])
		export_add(x, OP_Reshape, export_node_name(x, n), in, 2, &out, 1);
	return in[1] != NULL;
}

/* The sizes are a vector of i64, and the result may be a scalar of another type: a condition. */
static bool add_dims(Exporter *x, const Node *n)
{
	const Type *to = n->out[0]->type;
	const char *sizes = shape(x, node_attr(n, "value")->type), *out = export_name(x, n->out[0]);
	const char *as = to->rank == 1 ? NULL : shape(x, to);

	if (!sizes || (to->rank != 1 && !as))
		return false;
	if (as)
		sizes = export_op(x, OP_Reshape, sizes, as);
	export_cast(x, sizes, to->dtype, out);
	return true;
}

bool export_node(Exporter *x, const Node *n)
{
	x->at = n;
	if (n->op == OP_Const) {
		vec_push(x->a, &x->constant,
			 tensor(x, node_attr(n, "value")->t, export_name(x, n->out[0])));
		return true;
	}
	if (n->op == OP_View)
		return add_reshape(x, n);
	if (n->op == OP_Dims)
		return add_dims(x, n);
	if (n->op == OP_Row || op_is_control(n->op))
		return export_bracket(x, n);
	if (op_row[n->op].flags & OPF_INTERNAL || n->regions.n)
		return export_fault(
			x,
			"no ONNX operator has the form that the passes gave it; a library can be made of it (-o model.so)");
	if (n->op == OP_Conv && !dtype_is_float(n->out[0]->type->dtype))
		return export_fault(x, "ONNX has convolutions of integers only for bytes");
	return add_operator(x, n);
}

/* Inputs and results have the names that applications know; in a text they may lack names. */
static void name_ends(Exporter *x)
{
	const Graph *g = x->g;

	for (int i = 0; i < g->inputs.n; i++)
		x->value[g->inputs.at[i]->id] = take_name(x, g->inputs.at[i]->name, "input");
	for (int i = 0; i < g->results.n; i++)
		if (g->result_names.at[i])
			vec_push(x->a, &x->taken, g->result_names.at[i]);
	for (int i = 0; i < g->results.n; i++) {
		const Value *v = g->results.at[i]->value;
		const char *name = g->result_names.at[i];

		x->result[i] = name ? name : take_name(x, v->name, "output");
		if (!x->value[v->id])
			x->value[v->id] = x->result[i];
	}
}

static bool export_graph(Exporter *x, Onnx__GraphProto *p)
{
	VEC(Onnx__ValueInfoProto *) in = {0}, out = {0};

	name_ends(x);
	VEC_EACH (v, &x->g->inputs) {
		vec_push(x->a, &in, export_value(x, export_name(x, v), v->type));
		if (v->preset)
			vec_push(x->a, &x->constant, tensor(x, v->preset, export_name(x, v)));
	}
	for (const Node *n = x->g->first; n; n = n->next)
		if (!export_node(x, n))
			return false;
	for (int i = 0; i < x->g->results.n; i++) {
		const Value *v = x->g->results.at[i]->value;
		const char *name = x->result[i], *of = export_name(x, v);

		if (strcmp(name, of) != 0)
			export_add(x, OP_Identity, export_fresh(x, "node"), &of, 1, &name, 1);
		vec_push(x->a, &out, export_value(x, name, v->type));
	}
	COUNTED(p, node, x->node);
	COUNTED(p, initializer, x->constant);
	COUNTED(p, input, in);
	COUNTED(p, output, out);
	p->name = (char *)(uintptr_t) "main";
	return true;
}

static void add_opsets(Exporter *x, Onnx__ModelProto *m)
{
	m->opset_import = NEW_ARRAY(x->a, x->ndomains, Onnx__OperatorSetIdProto *);
	for (int i = 0; i < x->ndomains; i++) {
		Onnx__OperatorSetIdProto *p = NEW(x->a, Onnx__OperatorSetIdProto);

		onnx__operator_set_id_proto__init(p);
		p->domain = (char *)(uintptr_t)x->domain[i];
		p->has_version = 1;
		p->version = *x->domain[i] ? 1 : x->opset;
		m->opset_import[m->n_opset_import++] = p;
	}
}

/* The author's texts about the model; the producer is dlcc. */
static void add_metadata(const Exporter *x, Onnx__ModelProto *m)
{
	const Metadata *from = x->g->metadata;

	if (!from)
		return;
	m->domain = (char *)(uintptr_t)from->domain;
	m->doc_string = (char *)(uintptr_t)from->doc;
	m->graph->doc_string = (char *)(uintptr_t)from->graph_doc;
	m->has_model_version = from->version != 0;
	m->model_version = from->version;
	m->metadata_props = NEW_ARRAY(x->a, from->properties.n + 1, Onnx__StringStringEntryProto *);
	for (int i = 0; i < from->properties.n; i++) {
		Onnx__StringStringEntryProto *p = NEW(x->a, Onnx__StringStringEntryProto);

		onnx__string_string_entry_proto__init(p);
		p->key = (char *)(uintptr_t)from->properties.at[i].key;
		p->value = (char *)(uintptr_t)from->properties.at[i].value;
		m->metadata_props[m->n_metadata_props++] = p;
	}
}

static bool write_model(Exporter *x, const Onnx__ModelProto *m, const char *path)
{
	Diag *d = x->g->ctx->diag;
	const size_t n = onnx__model_proto__get_packed_size(m);
	uint8_t *bytes;
	bool ok;

	if (n > MOST_BYTES)
		return diag_error(d, (DiagLoc){.file = path},
				  "the model would have %zu bytes, and ONNX files have at most %d",
				  n, MOST_BYTES);
	bytes = malloc(n + 1);
	if (!bytes)
		return diag_error(d, (DiagLoc){.file = path}, "no memory for %zu bytes", n);
	onnx__model_proto__pack(m, bytes);
	ok = write_file(path, bytes, n) ||
	     diag_error(d, (DiagLoc){.file = path}, "cannot be written: %s", strerror(errno));
	free(bytes);
	return ok;
}

bool onnx_write(Graph *g, const char *path, const char *version)
{
	Exporter x = {.g = g, .a = arena_new()};
	Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
	Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
	bool ok;

	x.value = NEW_ARRAY(x.a, g->nvalues + 1, const char *);
	x.result = NEW_ARRAY(x.a, g->results.n + 1, const char *);
	x.size = NEW_ARRAY(x.a, sym_count(g->ctx) + 1, const char *);
	x.opset = g->opset > EXPORT_OPSET ? g->opset : EXPORT_OPSET;
	use_domain(&x, "");
	ok = (!g->takes.n && !g->gives.n) ||
	     diag_error(g->ctx->diag, (DiagLoc){.file = path},
			"cannot be written as ONNX: the model takes or gives sequences or maps");
	ok = ok && export_graph(&x, &graph);
	if (ok) {
		m.has_ir_version = 1;
		m.ir_version = EXPORT_IR_VERSION;
		m.producer_name = (char *)(uintptr_t) "dlcc";
		m.producer_version = (char *)(uintptr_t)version;
		m.graph = &graph;
		add_metadata(&x, &m);
		add_opsets(&x, &m);
		ok = write_model(&x, &m, path);
	}
	arena_free(x.a);
	return ok;
}

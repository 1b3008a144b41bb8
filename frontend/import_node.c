/* SPDX-License-Identifier: Apache-2.0 */
/* Imports one ONNX node as a node of the graph. */
#include "frontend/import_impl.h"

#include "frontend/listing.h"
#include "frontend/upgrade.h"
#include "ir/graph/definition.h"
#include "ops/op.h"

enum {
	OPERANDS_MAX = 100000,
	ATTRS_MAX = 1000,
	MISSING_MAX = 64, /* kinds of operators that are reported as not supported */
	OTHERS_NAMED = 4, /* limit on further nodes of such an operator that a message names */
};

void import_add_loc(Import *im, Node *n, DiagLoc loc)
{
	const Locs *one = locs_one(im->arena, (Loc){.node = loc.node, .op = loc.op});

	n->locs = locs_union(im->arena, n->locs, one);
}

const char *import_op_shown(Import *im, const Onnx__NodeProto *p)
{
	const bool call = !onnx_definition(im->ctx, p) && import_function(im, p);
	const char *op = call ? text(p->op_type) : onnx_op_shown(im->scratch, p);

	return ctx_name(im->ctx, op);
}

static void break_results(Import *im, Scope *s, const Onnx__NodeProto *p, int index)
{
	for (size_t i = 0; i < p->n_output; i++) {
		Binding *b = scope_find(s, ctx_name(im->ctx, p->output[i]));

		if (b && b->kind == BIND_NODE && b->node == index)
			b->kind = BIND_BROKEN;
	}
}

static bool import_constant(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p,
			    int index, DiagLoc loc)
{
	for (size_t i = 0; i < p->n_attribute; i++) {
		const Onnx__AttributeProto *a = attr_resolve(&fr->args, p->attribute[i]);
		const char *name = text(p->attribute[i]->name);
		Tensor *t;
		Value *v;

		if (!a || (!str_starts(name, "value") && strcmp(name, "sparse_value") != 0))
			continue;
		t = attr_constant(im->ctx, im->arena, im->file, name, a, loc);
		if (!t || !p->n_output)
			return t != NULL;
		v = graph_const(s->graph, t, NULL);
		import_add_loc(im, v->def, loc);
		name = ctx_name(im->ctx, p->output[0]);
		import_bind(s, name, index, v, name);
		return true;
	}
	return diag_error(im->diag, loc,
			  "the constant has no value: none of its attributes is one");
}

/* How an attribute is imported. */
typedef enum AttrUse { TAKEN, IGNORED, REFUSED } AttrUse;

/* An attribute that the operator does not have. WARNED: diag_named_error gave a warning. */
static AttrUse use_unknown(bool warned)
{
	return warned ? IGNORED : REFUSED;
}

/* Whether operator OP, which the file names OP_TYPE ("": not a standard operator), has an attribute
 * NAME of KIND, and sets *A to its declaration; else a diagnostic. A definition declares its own
 * attributes. */
static AttrUse op_takes(Import *im, OpKind op, const char *op_type, const char *name,
			const char *kind, DiagLoc loc, OpAttr *a)
{
	STRBUF_LOCAL(b);
	int since;
	bool ok;

	*a = (OpAttr){0};
	if (op == OP_Call)
		return TAKEN;
	if (op_attr_find(op, name, a) && !a->own) {
		ok = !strcmp(a->kind, kind) ||
		     diag_error(im->diag, loc,
				"attribute \"%s\" is of kind %s, and the operator takes %s", name,
				kind, a->kind);
		return ok ? TAKEN : REFUSED;
	}
	since = upgrade_input_since(op_type, name);
	if (since)
		return use_unknown(diag_named_error(
			im->diag, loc, "attribute",
			"has no attribute \"%s\": from opset %d on it is an input of the operator",
			name, since));
	op_attrs_print(&b, op);
	ok = diag_named_error(im->diag, loc, "attribute",
			      "has no attribute \"%s\"; the newest form of the operator takes %s",
			      name, strbuf_str(&b));
	return use_unknown(ok);
}

/* Whether attribute A of the newest form exists in version VERSION of DOMAIN; else a diagnostic.
 * Version 0 is not known and has everything. */
static AttrUse version_has(Import *im, const OpAttr *a, const char *domain, int64_t version,
			   DiagLoc loc)
{
	const char *of = *domain ? " of " : "";

	if (!version)
		return TAKEN;
	if (version < a->since)
		return use_unknown(diag_named_error(
			im->diag, loc, "attribute",
			"attribute \"%s\" exists since opset %d%s%s, and the model uses opset %lld",
			a->name, a->since, of, domain, (long long)version));
	if (a->until && version >= a->until)
		return use_unknown(diag_named_error(
			im->diag, loc, "attribute",
			"attribute \"%s\" exists until opset %d%s%s, and the model uses opset %lld",
			a->name, a->until - 1, of, domain, (long long)version));
	return TAKEN;
}

/* Whether N, which P became in its newest form, has no attribute of P that its operator does not
 * take, or loses it after a warning; else a diagnostic. Notes are for tools, and ONNX's checker
 * takes them. */
static bool attrs_hold(Import *im, const Frame *fr, const Onnx__NodeProto *p, Node *n, DiagLoc loc)
{
	const char *domain = domain_of(p->domain), *standard = *domain ? "" : text(p->op_type);
	const int64_t version = *domain ? import_version(fr, domain)
					: upgrade_attrs_version(text(p->op_type), fr->opset);
	OpAttr declared;

	for (size_t i = 0; i < p->n_attribute; i++) {
		const Attr *a = node_attr(n, ctx_name(im->ctx, text(p->attribute[i]->name)));
		AttrUse use;

		if (!a || str_starts(a->name, NOTE_PREFIX))
			continue;
		use = op_takes(im, n->op, standard, a->name, attr_kind_name(a->kind), loc,
			       &declared);
		if (use == TAKEN)
			use = version_has(im, &declared, domain, version, loc);
		if (use == REFUSED)
			return false;
		if (use == IGNORED)
			node_remove_attr(n, a->name);
	}
	return true;
}

static bool add_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
		       const Onnx__AttributeProto *a, DiagLoc loc)
{
	OpAttr declared;
	const AttrUse use = op_takes(im, n->op, "", name, "graph", loc, &declared);

	if (use != TAKEN)
		return use == IGNORED;
	if (!a->g)
		return diag_error(im->diag, loc, "attribute \"%s\" holds no graph", name);
	return import_region(im, fr, s, n, name, a->g, loc);
}

static bool add_attrs(Import *im, const Frame *fr, Scope *s, Node *n, const Onnx__NodeProto *p,
		      DiagLoc loc)
{
	for (size_t i = 0; i < p->n_attribute; i++) {
		const Onnx__AttributeProto *a = attr_resolve(&fr->args, p->attribute[i]);
		const char *name = ctx_name(im->ctx, text(p->attribute[i]->name));
		Attr v;

		if (!a)
			continue;
		if (node_attr(n, name))
			return diag_error(im->diag, loc, "attribute \"%s\" is given twice", name);
		if (attr_type(a) == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH) {
			if (!add_region(im, fr, s, n, name, a, loc))
				return false;
			continue;
		}
		if (!attr_convert(im->ctx, im->arena, im->file, name, a, loc, &v))
			return false;
		node_set_attr(n, v);
	}
	return true;
}

static bool arity_holds(Import *im, const Node *n, DiagLoc loc)
{
	const OpRow *row = &op_row[n->op];
	const char *why =
		count_fault(im->scratch, "operands", n->nin, row->nin_min, row->nin_max);

	if (why)
		return diag_error(im->diag, loc, "%s", why);
	for (int i = 0; i < row->nin_min; i++)
		if (!node_in(n, i))
			return diag_error(im->diag, loc, "operand %d is missing", i + 1);
	if (row->nout_max >= 0 && n->nout > row->nout_max)
		return diag_error(im->diag, loc, "has %d results; at most %d are supported",
				  n->nout, row->nout_max);
	return true;
}

static bool same_operator(const ListedNode *a, const ListedNode *b)
{
	return !strcmp(a->domain, b->domain) && !strcmp(a->op, b->op);
}

static void note_others(Import *im, const Listing *l, int first, int others)
{
	STRBUF_LOCAL(b);
	int named = 0;

	for (int i = first + 1; named < OTHERS_NAMED && named < others; i++) {
		const ListedNode *n = &l->nodes.at[i];

		if (!n->known && same_operator(n, &l->nodes.at[first]))
			strbuf_printf(&b, "%s\"%s\"", named++ ? ", " : "", n->name);
	}
	if (others > named)
		strbuf_printf(&b, " and %d more", others - named);
	diag_note(im->diag, "the same for %s", strbuf_str(&b));
}

/* The first node of its operator, and the number of others. */
typedef struct Missing {
	int first, others;
} Missing;

void import_missing(Import *im)
{
	Listing l;
	VEC(Missing) kinds = {0};
	int k;

	if (!im->unknown.node)
		return;
	l = onnx_nodes(im->ctx, im->scratch, im->file);
	for (int i = 0; i < l.nodes.n; i++) {
		if (l.nodes.at[i].known)
			continue;
		for (k = 0; k < kinds.n; k++)
			if (same_operator(&l.nodes.at[i], &l.nodes.at[kinds.at[k].first]))
				break;
		if (k < kinds.n)
			kinds.at[k].others++;
		else if (k < MISSING_MAX)
			vec_push(im->scratch, &kinds, ((Missing){i, 0}));
	}
	for (k = 0; k < kinds.n; k++) {
		const ListedNode *n = &l.nodes.at[kinds.at[k].first];
		const DiagLoc loc = {.file = im->file->path, .node = n->name, .op = n->op};

		diag_error(im->diag, loc, "%s", onnx_op_missing(im->ctx, im->scratch, n));
		if (kinds.at[k].others)
			note_others(im, &l, kinds.at[k].first, kinds.at[k].others);
	}
	if (!kinds.n)
		diag_error(im->diag, im->unknown, "not supported");
}

static size_t without_trailing(char *const *names, size_t n)
{
	while (n && !*names[n - 1])
		n--;
	return n;
}

/* Makes the node, with operands IN. */
static bool make_node(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		      OpKind op, DiagLoc loc, Value *const *in)
{
	int nout = (int)without_trailing(p->output, p->n_output);
	int nin = (int)without_trailing(p->input, p->n_input);
	Node *n = node_new(s->graph, op, in, nin, nout > 1 ? nout : 1, NULL);
	Value **out;

	import_add_loc(im, n, loc);
	if (op == OP_Call)
		node_set_str(n, CALL_NAME,
			     definition_name(im->ctx, domain_of(p->domain), text(p->op_type)));
	for (int i = op_row[op].nout_min; i < nout; i++)
		if (!*p->output[i])
			n->out[i] = NULL;
	out = arena_copy(im->scratch, n->out, (size_t)n->nout * sizeof *out);
	if (!add_attrs(im, fr, s, n, p, loc))
		return false;
	if (op != OP_Call && !*domain_of(p->domain) &&
	    !upgrade_node(&n, text(p->op_type), fr->opset, out))
		return false;
	if (n && (!attrs_hold(im, fr, p, n, loc) || !arity_holds(im, n, loc)))
		return false;
	for (int i = 0; i < nout; i++) {
		const char *name = ctx_name(im->ctx, p->output[i]);

		if (*name)
			import_bind(s, name, index, out[i],
				    ctx_name(im->ctx,
					     arena_printf(im->scratch, "%s%s", fr->prefix, name)));
	}
	return true;
}

static void note_unknown(Import *im, DiagLoc loc)
{
	if (!im->unknown.node)
		im->unknown = loc;
}

static bool import_op(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		      DiagLoc loc, Value *const *in, bool sound)
{
	const bool standard = !*domain_of(p->domain);

	if (onnx_definition(im->ctx, p) && onnx_op_known(p))
		return diag_error(im->diag, loc,
				  "the operator is one of dlcc's and cannot be redefined");
	if (onnx_definition(im->ctx, p))
		return sound && make_node(im, fr, s, p, index, OP_Call, loc, in);
	if (standard && !fr->opset) {
		if (!im->opset_reported)
			diag_error(im->diag, loc,
				   "the model does not say which opset of the standard "
				   "operators it uses; its opset_import lacks the domain \"\"");
		im->opset_reported = true;
		return false;
	}
	if (standard && !strcmp(text(p->op_type), "Constant"))
		return import_constant(im, fr, s, p, index, loc);
	if (!onnx_op_known(p)) {
		note_unknown(im, loc);
		return false;
	}
	return sound && make_node(im, fr, s, p, index, onnx_op(p), loc, in);
}

void import_node(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index)
{
	const char *name = import_node_name(im, fr, p);
	const Onnx__FunctionProto *fn = onnx_definition(im->ctx, p) ? NULL : import_function(im, p);
	DiagLoc loc = {.file = im->file->path, .node = name, .op = import_op_shown(im, p)};
	Value **in = NEW_ARRAY(im->scratch, p->n_input, Value *);
	bool *known = NEW_ARRAY(im->scratch, p->n_input, bool);
	bool sound = true;

	if (p->n_input > OPERANDS_MAX || p->n_output > OPERANDS_MAX || p->n_attribute > ATTRS_MAX) {
		diag_error(im->diag, loc,
			   "has %zu operands, %zu results and %zu attributes, more than any "
			   "operator",
			   p->n_input, p->n_output, p->n_attribute);
		break_results(im, s, p, index);
		return;
	}
	for (size_t i = 0; i < p->n_input; i++) {
		known[i] = !*p->input[i] ||
			   import_lookup(im, s, ctx_name(im->ctx, p->input[i]), loc, &in[i]);
		sound &= known[i];
	}
	if (fn ? import_call(im, fr, s, p, index, fn, loc, in, known)
	       : import_op(im, fr, s, p, index, loc, in, sound))
		return;
	break_results(im, s, p, index);
}

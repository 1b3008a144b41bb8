/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the attributes of nodes: numbers, strings, lists, tensors, types, kernels. */
#include "base/sys.h"
#include "ir/dim/bindings.h"
#include "ir/graph/text_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Tensors ---- */

/* Opens PATH; a relative path is relative to the folder of the text. */
static int open_beside(GraphText *r, const char *path, struct stat *st)
{
	const char *slash = r->file ? strrchr(r->file, '/') : NULL;

	if (slash && *path != '/')
		path = arena_printf(r->tmp, "%.*s/%s", (int)(slash - r->file), r->file, path);
	return open_regular(path, st);
}

static const Mapped *map_file(GraphText *r, const char *path)
{
	Mapped m = {.path = path};
	const char *why = "it is empty";
	struct stat st;
	int fd;

	for (int i = 0; i < r->files.n; i++)
		if (r->files.at[i].path == path)
			return &r->files.at[i];
	fd = open_beside(r, path, &st);
	if (fd >= 0 && st.st_size > 0) {
		m.size = st.st_size;
		m.data = mmap(NULL, (size_t)m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	if (fd < 0 || m.data == MAP_FAILED)
		why = open_error();
	if (fd >= 0)
		close(fd);
	if (!m.data || m.data == MAP_FAILED) {
		text_fault(r, r->line, "cannot map the file \"%s\": %s", path, why);
		return NULL;
	}
	vec_push(r->tmp, &r->files, m);
	return &vec_last(&r->files);
}

/* Maps the file that T is in. The mapping is never removed, since constants point into it. */
static bool read_file_part(GraphText *r, Tensor *t, int64_t bytes)
{
	const char *path = text_string(r);
	const Mapped *m;

	if (r->ctx->bound)
		return text_fault(r, r->line, "the tensors of a definition are in its text");
	if (!path || !text_want(r, ",") || !text_i64(r, &t->offset) || !text_want(r, ",") ||
	    !text_i64(r, &t->bytes) || !text_want(r, ")"))
		return false;
	if (t->bytes != bytes)
		return text_fault(r, r->line, "the tensor's type and its size in the file differ");
	if (!(m = map_file(r, path)))
		return false;
	if (t->offset < 0 || t->offset > m->size || t->bytes > m->size - t->offset)
		return text_fault(r, r->line, "the tensor extends past the end of its file");
	t->data = m->data + t->offset;
	t->file = path;
	return true;
}

static bool read_hex(GraphText *r, Tensor *t, int64_t bytes)
{
	unsigned char *to;
	size_t n = 0;

	if (text_peek(r) != '"')
		return text_fail(r, "hexadecimal digits in quotes");
	r->p++;
	while (text_hex_digit(r->p[n]) >= 0)
		n++;
	if (n % 2 || n / 2 != (size_t)bytes || r->p[n] != '"')
		return text_fault(r, r->line, "the tensor's type and its number of digits differ");
	to = arena_alloc(r->arena, n / 2);
	for (size_t i = 0; i < n / 2; i++)
		to[i] = (unsigned char)(text_hex_digit(r->p[2 * i]) * 16 +
					text_hex_digit(r->p[2 * i + 1]));
	r->p += n + 1;
	t->data = to;
	t->bytes = bytes;
	return text_want(r, ")");
}

typedef union AttrElement {
	double f;
	int64_t i;
} AttrElement;

static bool read_element(GraphText *r, DType t, AttrElement *e)
{
	uint64_t u = 0;

	if (t == DT_STR)
		return text_string_id(r, &e->i);
	if (dtype_is_float(t))
		return text_f64(r, &e->f);
	if (t != DT_U64)
		return text_i64(r, &e->i);
	if (!text_u64(r, &u))
		return false;
	memcpy(&e->i, &u, sizeof u);
	return true;
}

static bool read_elements(GraphText *r, Tensor *t, int64_t count)
{
	VEC(AttrElement) v = {0};
	Tensor *own;
	void *to;

	while (!text_take(r, ")")) {
		AttrElement e;

		if ((v.n && !text_want(r, ",")) || !read_element(r, t->dtype, &e))
			return false;
		vec_push(r->tmp, &v, e);
	}
	if (v.n != count)
		return text_fault(r, r->line,
				  "the tensor's type and its number of elements differ");
	own = tensor_new(r->arena, t->dtype, t->rank, t->dims);
	to = (void *)(uintptr_t)own->data;
	for (int i = 0; i < v.n; i++) {
		if (dtype_is_float(t->dtype))
			dtype_store_f64(t->dtype, to, i, v.at[i].f);
		else
			dtype_store_i64(t->dtype, to, i, v.at[i].i);
	}
	*t = *own;
	return true;
}

static bool read_shape(GraphText *r, Tensor *t, int64_t *count)
{
	int64_t dims[MAX_RANK];

	*count = 1;
	if (!text_want(r, "["))
		return false;
	while (!text_take(r, "]")) {
		if (t->rank == MAX_RANK)
			return text_fault(r, r->line, "the tensor has too many dimensions");
		if ((t->rank && !text_want(r, ",")) || !text_i64(r, &dims[t->rank]))
			return false;
		if (dims[t->rank] < 0 || __builtin_mul_overflow(*count, dims[t->rank], count))
			return text_fault(r, r->line, "the tensor's size is negative or too large");
		t->rank++;
	}
	t->dims = arena_copy(r->arena, dims, (size_t)t->rank * sizeof *dims);
	return true;
}

/* Whether PART can be one of the parts of T along dim D: of whole bytes in each row. */
static bool is_part(const Tensor *t, const Tensor *part, int d)
{
	int64_t row = 1;
	bool ok = part->dtype == t->dtype && part->rank == t->rank;

	for (int i = 0; ok && i < t->rank; i++) {
		row *= i < d ? 1 : part->dims[i];
		ok = i == d || part->dims[i] == t->dims[i];
	}
	return ok && row * dtype_info[t->dtype].bits % 8 == 0;
}

static Tensor *tensor(GraphText *r, bool part);

static bool read_parts(GraphText *r, Tensor *t)
{
	VEC(const Tensor *) parts = {0};
	int64_t d, size = 0;

	if (!text_i64(r, &d))
		return false;
	if (d < 0 || d >= t->rank)
		return text_fault(r, r->line, "the tensor has no such dim");
	while (!text_take(r, ")")) {
		const Tensor *part = text_want(r, ",") ? tensor(r, true) : NULL;

		if (!part)
			return false;
		if (!is_part(t, part, (int)d))
			return text_fault(r, r->line, "the tensor cannot have such a part");
		size += part->dims[d];
		vec_push(r->tmp, &parts, part);
	}
	if (!parts.n || size != t->dims[d])
		return text_fault(r, r->line, "the parts have another size than the tensor");
	*t = *tensor_concat(r->arena, parts.at, parts.n, (int)d);
	return true;
}

static Tensor *read_tensor(GraphText *r, DType dt, bool part)
{
	Tensor *t = NEW(r->arena, Tensor);
	int64_t count, bytes;
	bool ok;

	t->dtype = dt;
	if (!read_shape(r, t, &count))
		return NULL;
	bytes = dtype_size(dt, count);
	if (bytes < 0) {
		text_fault(r, r->line, "the tensor's size is too large");
		return NULL;
	}
	if (dt != DT_STR && text_take(r, "file("))
		ok = read_file_part(r, t, bytes);
	else if (dt != DT_STR && text_take(r, "hex("))
		ok = read_hex(r, t, bytes);
	else if (dt != DT_STR && !part && text_take(r, "concat("))
		ok = read_parts(r, t);
	else if (text_take_word(r, "computed"))
		ok = text_fault(r, r->line,
				"the text lacks the elements of a constant that a pass computed; "
				"take a text from before that pass");
	else
		ok = text_want(r, "(") && read_elements(r, t, count);
	return ok ? t : NULL;
}

/* A tensor, or, as PART, one that has no parts itself. */
static Tensor *tensor(GraphText *r, bool part)
{
	const char *before = r->p, *word = text_word(r);
	DType t = word ? bound_dtype(r->ctx, word, strlen(word)) : DT_NONE;

	if (t != DT_NONE)
		return read_tensor(r, t, part);
	r->p = before;
	text_fail(r, "a tensor");
	return NULL;
}

Tensor *text_tensor(GraphText *r)
{
	return tensor(r, false);
}

/* ---- Attributes ---- */

static bool read_ints(GraphText *r, Attr *a)
{
	VEC(int64_t) v = {0};
	int64_t i;

	do {
		if (!text_i64(r, &i))
			return false;
		vec_push(r->arena, &v, i);
	} while (text_take(r, ","));
	a->kind = ATTR_INTS;
	a->is = v.at;
	a->n = v.n;
	return text_want(r, "]");
}

static bool read_floats(GraphText *r, Attr *a)
{
	VEC(float) v = {0};
	double f;

	do {
		if (!text_f64(r, &f))
			return false;
		vec_push(r->arena, &v, (float)f);
	} while (text_take(r, ","));
	a->kind = ATTR_FLOATS;
	a->fs = v.at;
	a->n = v.n;
	return text_want(r, "]");
}

static bool read_strs(GraphText *r, Attr *a)
{
	VEC(const char *) v = {0};
	const char *s;

	do {
		if (!(s = text_string(r)))
			return false;
		vec_push(r->arena, &v, s);
	} while (text_take(r, ","));
	a->kind = ATTR_STRS;
	a->ss = v.at;
	a->n = v.n;
	return text_want(r, "]");
}

static bool read_number(GraphText *r, Attr *a)
{
	double f;

	if (text_float_ahead(r)) {
		if (!text_f64(r, &f))
			return false;
		a->kind = ATTR_FLOAT;
		a->f = (float)f;
		return true;
	}
	a->kind = ATTR_INT;
	return text_i64(r, &a->i);
}

static bool read_empty_list(GraphText *r, Attr *a)
{
	if (text_take(r, "ints[]"))
		a->kind = ATTR_INTS;
	else if (text_take(r, "floats[]"))
		a->kind = ATTR_FLOATS;
	else if (text_take(r, "strs[]"))
		a->kind = ATTR_STRS;
	else
		return false;
	a->is = arena_alloc(r->arena, 0);
	return true;
}

static bool read_word_value(GraphText *r, Attr *a)
{
	const char *before = r->p, *word = text_word(r);
	DType t;

	if (word && !strcmp(word, "kernel")) {
		r->p = before;
		a->kind = ATTR_KERNEL;
		a->kernel = kernel_parse(r->ctx, r->arena, &r->p, &r->line);
		r->failed = r->failed || !a->kernel;
		return a->kernel != NULL;
	}
	if (word && !strcmp(word, "type") && text_take(r, "(")) {
		a->kind = ATTR_TYPE;
		return text_type(r, &a->type) && (a->type || text_fail(r, "a type")) &&
		       text_want(r, ")");
	}
	t = word ? bound_dtype(r->ctx, word, strlen(word)) : DT_NONE;
	if (t == DT_NONE) {
		r->p = before;
		return text_fail(r, "an attribute's value");
	}
	a->kind = ATTR_TENSOR;
	a->t = read_tensor(r, t, false);
	return a->t != NULL;
}

bool text_value(GraphText *r, Attr *a)
{
	char c = text_peek(r);

	if (c == '"') {
		a->kind = ATTR_STR;
		return (a->s = text_string(r)) != NULL;
	}
	if (text_take(r, "[")) {
		if (text_peek(r) == '"')
			return read_strs(r, a);
		return text_float_ahead(r) ? read_floats(r, a) : read_ints(r, a);
	}
	if (c == '-' || isdigit((unsigned char)c) || text_float_ahead(r))
		return read_number(r, a);
	return read_empty_list(r, a) || read_word_value(r, a);
}

/* The elements of A as a tensor; null for strings. */
static Tensor *attr_tensor(Arena *arena, const Attr *a)
{
	const bool list = a->kind == ATTR_INTS || a->kind == ATTR_FLOATS;
	const bool ints = a->kind == ATTR_INT || a->kind == ATTR_INTS;
	int64_t n = list ? a->n : 1;
	Tensor *t;

	if (a->kind == ATTR_TENSOR)
		return a->t;
	if (!ints && a->kind != ATTR_FLOAT && a->kind != ATTR_FLOATS)
		return NULL;
	t = tensor_new(arena, ints ? DT_I64 : DT_F32, list, &n);
	memcpy((void *)(uintptr_t)t->data, list ? (const void *)a->is : (const void *)&a->i,
	       (size_t)t->bytes);
	return t;
}

/* Reads, after "@", the name of an attribute of the node that a definition is used for, whose
 * value is A's. *GIVEN is whether the node has it. A constant's value may be a number or a list. */
static bool read_reference(GraphText *r, const Node *n, Attr *a, bool *given)
{
	const char *name = text_name(r), *own = a->name;
	const BoundAttr *b = name ? bound_attr(r->ctx, name) : NULL;

	if (name && !b)
		return text_fault(r, r->line, "there is no attribute \"%s\" here", name);
	*given = b && b->value;
	if (!*given)
		return b != NULL;
	*a = *b->value;
	a->name = own;
	if (n->op != OP_Const)
		return true;
	a->t = attr_tensor(r->arena, b->value);
	a->kind = ATTR_TENSOR;
	return a->t || text_fault(r, r->line, "a constant of strings is not supported");
}

bool text_attrs(GraphText *r, Node *n)
{
	if (!text_take(r, "{"))
		return true;
	do {
		Attr a = {0};

		bool given = true;

		if (!(a.name = text_name(r)) || !text_want(r, "=") ||
		    !(text_take(r, "@") ? read_reference(r, n, &a, &given) : text_value(r, &a)))
			return false;
		if (!given)
			continue;
		if (node_attr(n, a.name))
			return text_fault(r, r->line, "the attribute '%s' is given twice", a.name);
		node_set_attr(n, a);
	} while (text_take(r, ","));
	return text_want(r, "}");
}

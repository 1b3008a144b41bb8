/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what graph_print wrote (docs/ir.md has the grammar). The first fault is the diagnostic; what
 * was read before it stays in the arena. Symbols have no bounds until all is read, so that no bound decides a
 * min or max that the graph had from before the bound was found.
 */
#include "ir/graph.h"

#include "ir/text_impl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_REGION_DEPTH = 24, MAX_OPERANDS = 1 << 16 };

typedef struct Named {
	const char *label; /* interned */
	Value *v;
} Named;

typedef struct Mapped {
	const char *path;
	const char *data;
	int64_t size;
} Mapped;

/* What a symbol gets in the end: its bounds, and its source where it has one. */
typedef struct Pending {
	Sym *sym;
	int64_t lo, hi;
	const char *label;
	int64_t at;
	int line;
} Pending;

typedef struct Reader {
	Ctx *ctx;
	Arena *arena, *tmp;
	const char *file, *p;
	int line, depth;
	bool failed;
	Named *map;
	int n, cap;
	VEC(Pending) pending;
	VEC(Mapped) files;
} Reader;

/* ---- Characters and words ---- */

static bool fail(Reader *r, const char *expected)
{
	char found[24];
	size_t n = 0;

	if (r->failed)
		return false;
	r->failed = true;
	while (n < sizeof found - 1 && isgraph((unsigned char)r->p[n])) {
		found[n] = r->p[n];
		n++;
	}
	found[n] = 0;
	return diag_error(r->ctx->diag, (DiagLoc){.file = r->file, .line = r->line}, "expected %s, found %s%s%s",
			  expected, n ? "'" : "", n ? found : *r->p ? "an odd character" : "the end of the file",
			  n ? "'" : "");
}

static bool fail_at(Reader *r, int line, const char *what)
{
	if (r->failed)
		return false;
	r->failed = true;
	return diag_error(r->ctx->diag, (DiagLoc){.file = r->file, .line = line}, "%s", what);
}

/* Blanks, and comments from #, ; or // to the end of the line. */
static char peek(Reader *r)
{
	for (;; r->p++) {
		if (*r->p == '#' || *r->p == ';' || (*r->p == '/' && r->p[1] == '/'))
			while (*r->p && *r->p != '\n')
				r->p++;
		if (*r->p == '\n')
			r->line++;
		else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r')
			return *r->p;
	}
}

static bool take(Reader *r, const char *s)
{
	size_t n = strlen(s);

	peek(r);
	if (strncmp(r->p, s, n))
		return false;
	r->p += n;
	return true;
}

static bool is_word_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* A whole word. */
static bool take_word(Reader *r, const char *s)
{
	size_t n = strlen(s);

	peek(r);
	if (strncmp(r->p, s, n) || is_word_char(r->p[n]))
		return false;
	r->p += n;
	return true;
}

static bool want(Reader *r, const char *s)
{
	char text[16];

	if (take(r, s))
		return true;
	snprintf(text, sizeof text, "'%s'", s);
	return fail(r, text);
}

static const char *read_word(Reader *r)
{
	const char *from;

	peek(r);
	from = r->p;
	while (is_word_char(*r->p))
		r->p++;
	return r->p == from ? NULL : intern_n(r->ctx->names, from, (size_t)(r->p - from));
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* One escape after the backslash; false where it is none. */
static bool read_escape(Reader *r, char *out)
{
	char c = *r->p;

	if (c == 'x' && hex_digit(r->p[1]) >= 0 && hex_digit(r->p[2]) >= 0) {
		*out = (char)(hex_digit(r->p[1]) * 16 + hex_digit(r->p[2]));
		r->p += 3;
		return *out != 0;
	}
	*out = c == 'n' ? '\n' : c == 't' ? '\t' : c;
	r->p++;
	return c == 'n' || c == 't' || c == '"' || c == '\\';
}

/* "...", interned; null after a diagnostic. */
static const char *read_string(Reader *r)
{
	StrBuf b = {0};
	const char *s = NULL;
	bool ok = true;

	if (peek(r) != '"') {
		fail(r, "a string in quotes");
		return NULL;
	}
	r->p++;
	while (ok && *r->p && *r->p != '"' && *r->p != '\n') {
		char c = *r->p++;

		if (c == '\\')
			ok = read_escape(r, &c);
		strbuf_put(&b, &c, 1);
	}
	if (ok && *r->p == '"') {
		r->p++;
		s = ctx_name(r->ctx, strbuf_str(&b));
	} else {
		fail(r, ok ? "the string's closing quote" : "one of \\\\ \\\" \\n \\t \\xHH in the string");
	}
	strbuf_free(&b);
	return s;
}

/* A word, or anything quoted. */
static const char *read_name(Reader *r)
{
	const char *s;

	if (peek(r) == '"')
		return read_string(r);
	s = read_word(r);
	if (!s)
		fail(r, "a name");
	return s;
}

/* ---- Numbers ---- */

static bool read_i64(Reader *r, int64_t *out)
{
	char *end;

	peek(r);
	if (!isdigit((unsigned char)r->p[*r->p == '-']))
		return fail(r, "an integer");
	errno = 0;
	*out = strtoll(r->p, &end, 10);
	if (errno || is_word_char(*end) || *end == '.')
		return fail(r, "an integer of 64 bits");
	r->p = end;
	return true;
}

static bool read_u64(Reader *r, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)peek(r)))
		return fail(r, "an integer that is not negative");
	errno = 0;
	*out = strtoull(r->p, &end, 10);
	if (errno || is_word_char(*end) || *end == '.')
		return fail(r, "an integer of 64 bits");
	r->p = end;
	return true;
}

static bool read_f64(Reader *r, double *out)
{
	char *end;
	const char *p;

	peek(r);
	p = r->p + (*r->p == '-');
	if (!isdigit((unsigned char)*p) && strncmp(p, "inf", 3) && strncmp(p, "nan", 3))
		return fail(r, "a number");
	*out = strtod(r->p, &end);
	if (is_word_char(*end) || *end == '(')
		return fail(r, "a number");
	r->p = end;
	return true;
}

/* Whether the number ahead is written as a float. */
static bool float_ahead(Reader *r)
{
	const char *p;

	peek(r);
	p = r->p + (*r->p == '-');
	if (!isdigit((unsigned char)*p))
		return (!strncmp(p, "inf", 3) || !strncmp(p, "nan", 3)) && !is_word_char(p[3]);
	while (isdigit((unsigned char)*p))
		p++;
	return *p == '.' || *p == 'e' || *p == 'E' || *p == 'x';
}

static Dim *read_dim(Reader *r)
{
	Dim *d;

	peek(r);
	d = dim_parse(r->ctx, &r->p);
	if (!d)
		fail(r, "a size");
	return d;
}

/* "?": not inferred. False after a diagnostic. */
static bool read_type(Reader *r, const Type **out)
{
	*out = NULL;
	if (peek(r) == '?' && r->p[1] != '[') {
		r->p++;
		return true;
	}
	*out = type_parse(r->ctx, &r->p);
	return *out || fail(r, "a type");
}

/* ---- Values ---- */

static Named *named_slot(const Reader *r, const char *label)
{
	size_t mask = (size_t)r->cap - 1, i = hash_bytes(HASH_SEED, &label, sizeof label) & mask;

	while (r->map[i].label && r->map[i].label != label)
		i = (i + 1) & mask;
	return &r->map[i];
}

static void grow_map(Reader *r)
{
	Named *old = r->map;
	int cap = r->cap;

	r->cap = cap ? cap * 2 : 256;
	r->map = NEW_ARRAY(r->tmp, r->cap, Named);
	for (int i = 0; i < cap; i++)
		if (old[i].label)
			*named_slot(r, old[i].label) = old[i];
}

static const char *read_label(Reader *r)
{
	const char *s = NULL;

	if (take(r, "%"))
		s = is_word_char(*r->p) ? read_word(r) : NULL;
	if (!s)
		fail(r, "a value: % and a label");
	return s;
}

/* Names V by the label and its own name, if any. */
static bool read_definition(Reader *r, Value *(*make)(void *arg), void *arg, Value **out)
{
	const char *label = read_label(r), *name = NULL;
	Value *v;

	if (!label)
		return false;
	if (peek(r) == '"' && !(name = read_string(r)))
		return false;
	if ((r->n + 1) * 2 > r->cap)
		grow_map(r);
	if (named_slot(r, label)->label)
		return fail_at(r, r->line, arena_printf(r->tmp, "the value %%%s is defined twice", label));
	v = make(arg);
	v->name = name ? name : isdigit((unsigned char)*label) ? NULL : label;
	*named_slot(r, label) = (Named){label, v};
	r->n++;
	*out = v;
	return true;
}

static Value *find_value(Reader *r, const Graph *g, const char *label, int line)
{
	const Named *at = r->cap ? named_slot(r, label) : NULL;
	Value *v = at && at->label ? at->v : NULL;
	bool here = v && (v->def ? v->def->graph == g
				 : v->index < g->inputs.n && g->inputs.at[v->index] == v);

	if (here)
		return v;
	fail_at(r, line, arena_printf(r->tmp, v ? "the value %%%s is of another graph" :
				      "the value %%%s is not defined before this", label));
	return NULL;
}

/* ---- Tensors ---- */

static const Mapped *map_file(Reader *r, const char *path)
{
	Mapped m = {.path = path};
	struct stat st;
	int fd;

	for (int i = 0; i < r->files.n; i++)
		if (r->files.at[i].path == path)
			return &r->files.at[i];
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		m.size = st.st_size;
		m.data = mmap(NULL, (size_t)m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	if (fd >= 0)
		close(fd);
	if (!m.data || m.data == MAP_FAILED) {
		fail_at(r, r->line, arena_printf(r->tmp, "cannot map the file \"%s\"", path));
		return NULL;
	}
	vec_push(r->tmp, &r->files, m);
	return &vec_last(&r->files);
}

/* The mapping stays for as long as the process: constants point into it. */
static bool read_file(Reader *r, Tensor *t, int64_t bytes)
{
	const char *path = read_string(r);
	const Mapped *m;

	if (!path || !want(r, ",") || !read_i64(r, &t->offset) || !want(r, ",") || !read_i64(r, &t->bytes) ||
	    !want(r, ")"))
		return false;
	if (t->bytes != bytes)
		return fail_at(r, r->line, "the tensor's type and its size in the file differ");
	if (!(m = map_file(r, path)))
		return false;
	if (t->offset < 0 || t->offset > m->size || t->bytes > m->size - t->offset)
		return fail_at(r, r->line, "the tensor lies past the end of its file");
	t->data = m->data + t->offset;
	t->file = path;
	return true;
}

static bool read_hex(Reader *r, Tensor *t, int64_t bytes)
{
	unsigned char *to;
	size_t n = 0;

	if (peek(r) != '"')
		return fail(r, "hexadecimal digits in quotes");
	r->p++;
	while (hex_digit(r->p[n]) >= 0)
		n++;
	if (n % 2 || n / 2 != (size_t)bytes || r->p[n] != '"')
		return fail_at(r, r->line, "the tensor's type and its number of digits differ");
	to = arena_alloc(r->arena, n / 2);
	for (size_t i = 0; i < n / 2; i++)
		to[i] = (unsigned char)(hex_digit(r->p[2 * i]) * 16 + hex_digit(r->p[2 * i + 1]));
	r->p += n + 1;
	t->data = to;
	t->bytes = bytes;
	return want(r, ")");
}

typedef union Element {
	const char *s;
	double f;
	int64_t i;
} Element;

static bool read_element(Reader *r, DType t, Element *e)
{
	uint64_t u = 0;

	if (t == DT_STR)
		return (e->s = read_string(r)) != NULL;
	if (dtype_is_float(t))
		return read_f64(r, &e->f);
	if (t != DT_U64)
		return read_i64(r, &e->i);
	if (!read_u64(r, &u))
		return false;
	memcpy(&e->i, &u, sizeof u);
	return true;
}

static bool read_elements(Reader *r, Tensor *t, int64_t count)
{
	VEC(Element) v = {0};
	Tensor *own;
	void *to;

	while (!take(r, ")")) {
		Element e;

		if ((v.n && !want(r, ",")) || !read_element(r, t->dtype, &e))
			return false;
		vec_push(r->tmp, &v, e);
	}
	if (v.n != count)
		return fail_at(r, r->line, "the tensor's type and its number of elements differ");
	own = tensor_new(r->arena, t->dtype, t->rank, t->dims);
	to = (void *)(uintptr_t)own->data;
	for (int i = 0; i < v.n; i++) {
		if (t->dtype == DT_STR)
			((const char **)to)[i] = v.at[i].s;
		else if (dtype_is_float(t->dtype))
			dtype_store_f64(t->dtype, to, i, v.at[i].f);
		else
			dtype_store_i64(t->dtype, to, i, v.at[i].i);
	}
	*t = *own;
	return true;
}

static bool read_shape(Reader *r, Tensor *t, int64_t *count)
{
	int64_t dims[MAX_RANK];

	*count = 1;
	if (!want(r, "["))
		return false;
	while (!take(r, "]")) {
		if (t->rank == MAX_RANK)
			return fail_at(r, r->line, "the tensor has too many dimensions");
		if ((t->rank && !want(r, ",")) || !read_i64(r, &dims[t->rank]))
			return false;
		if (dims[t->rank] < 0 || __builtin_mul_overflow(*count, dims[t->rank], count))
			return fail_at(r, r->line, "the tensor's size is negative or too large");
		t->rank++;
	}
	t->dims = arena_copy(r->arena, dims, (size_t)t->rank * sizeof *dims);
	return true;
}

static Tensor *read_tensor(Reader *r, DType dt)
{
	Tensor *t = NEW(r->arena, Tensor);
	int64_t count, bytes;
	bool ok;

	t->dtype = dt;
	if (!read_shape(r, t, &count))
		return NULL;
	bytes = dt == DT_STR ? 0 : dtype_size(dt, count);
	if (bytes < 0) {
		fail_at(r, r->line, "the tensor's size is too large");
		return NULL;
	}
	if (dt != DT_STR && take(r, "file("))
		ok = read_file(r, t, bytes);
	else if (dt != DT_STR && take(r, "hex("))
		ok = read_hex(r, t, bytes);
	else
		ok = want(r, "(") && read_elements(r, t, count);
	return ok ? t : NULL;
}

/* ---- Attributes ---- */

static bool read_ints(Reader *r, Attr *a)
{
	VEC(int64_t) v = {0};
	int64_t i;

	do {
		if (!read_i64(r, &i))
			return false;
		vec_push(r->arena, &v, i);
	} while (take(r, ","));
	a->kind = ATTR_INTS;
	a->is = v.at;
	a->n = v.n;
	return want(r, "]");
}

static bool read_floats(Reader *r, Attr *a)
{
	VEC(float) v = {0};
	double f;

	do {
		if (!read_f64(r, &f))
			return false;
		vec_push(r->arena, &v, (float)f);
	} while (take(r, ","));
	a->kind = ATTR_FLOATS;
	a->fs = v.at;
	a->n = v.n;
	return want(r, "]");
}

static bool read_strs(Reader *r, Attr *a)
{
	VEC(const char *) v = {0};
	const char *s;

	do {
		if (!(s = read_string(r)))
			return false;
		vec_push(r->arena, &v, s);
	} while (take(r, ","));
	a->kind = ATTR_STRS;
	a->ss = v.at;
	a->n = v.n;
	return want(r, "]");
}

static bool read_number(Reader *r, Attr *a)
{
	double f;

	if (float_ahead(r)) {
		if (!read_f64(r, &f))
			return false;
		a->kind = ATTR_FLOAT;
		a->f = (float)f;
		return true;
	}
	a->kind = ATTR_INT;
	return read_i64(r, &a->i);
}

static bool read_empty_list(Reader *r, Attr *a)
{
	if (take(r, "ints[]"))
		a->kind = ATTR_INTS;
	else if (take(r, "floats[]"))
		a->kind = ATTR_FLOATS;
	else if (take(r, "strs[]"))
		a->kind = ATTR_STRS;
	else
		return false;
	a->is = arena_alloc(r->arena, 0);
	return true;
}

static bool read_word_value(Reader *r, Attr *a)
{
	const char *before = r->p, *word = read_word(r);
	DType t;

	if (word && !strcmp(word, "kernel")) {
		r->p = before;
		a->kind = ATTR_KERNEL;
		a->kernel = kernel_parse(r->ctx, r->arena, &r->p, &r->line);
		r->failed = r->failed || !a->kernel;
		return a->kernel != NULL;
	}
	if (word && !strcmp(word, "type") && take(r, "(")) {
		a->kind = ATTR_TYPE;
		return read_type(r, &a->type) && (a->type || fail(r, "a type")) && want(r, ")");
	}
	t = word ? dtype_by_name(word) : DT_NONE;
	if (t == DT_NONE) {
		r->p = before;
		return fail(r, "an attribute's value");
	}
	a->kind = ATTR_TENSOR;
	a->t = read_tensor(r, t);
	return a->t != NULL;
}

static bool read_value(Reader *r, Attr *a)
{
	char c = peek(r);

	if (c == '"') {
		a->kind = ATTR_STR;
		return (a->s = read_string(r)) != NULL;
	}
	if (take(r, "[")) {
		if (peek(r) == '"')
			return read_strs(r, a);
		return float_ahead(r) ? read_floats(r, a) : read_ints(r, a);
	}
	if (c == '-' || isdigit((unsigned char)c) || float_ahead(r))
		return read_number(r, a);
	return read_empty_list(r, a) || read_word_value(r, a);
}

static bool read_attrs(Reader *r, Node *n)
{
	if (!take(r, "{"))
		return true;
	do {
		Attr a = {0};

		if (!(a.name = read_name(r)) || !want(r, "=") || !read_value(r, &a))
			return false;
		if (node_attr(n, a.name))
			return fail_at(r, r->line, arena_printf(r->tmp, "the attribute '%s' is given twice", a.name));
		node_set_attr(n, a);
	} while (take(r, ","));
	return want(r, "}");
}

/* ---- Nodes ---- */

/* After @. */
static bool read_loc(Reader *r, const char *op, Loc *l)
{
	*l = (Loc){.op = op};
	if (!take_word(r, "_") && !(l->node = read_string(r)))
		return false;
	if (*r->p != '(')
		return true;
	r->p++;
	l->op = NULL;
	if (take(r, ")"))
		return true;
	return (l->op = read_name(r)) && want(r, ")");
}

static bool read_locs(Reader *r, Node *n)
{
	if (!take(r, "@"))
		return true;
	do {
		Loc l;

		if (n->locs.n && !want(r, "@"))
			return false;
		if (!read_loc(r, ctx_name(r->ctx, op_row[n->op].name), &l))
			return false;
		vec_push(r->arena, &n->locs, l);
	} while (take(r, ","));
	return true;
}

/* The text of a node's results, read once the operator is known. */
static int skip_results(Reader *r)
{
	int n = 0;

	if (peek(r) != '%' && !(*r->p == '_' && !is_word_char(r->p[1])))
		return 0;
	do {
		if (!take_word(r, "_")) {
			if (!read_label(r) || (peek(r) == '"' && !read_string(r)))
				return -1;
		}
		n++;
	} while (take(r, ","));
	return want(r, "=") ? n : -1;
}

typedef struct Slot {
	Node *n;
	int k;
} Slot;

static Value *result_at(void *arg)
{
	const Slot *s = arg;

	return s->n->out[s->k];
}

static bool read_results(Reader *r, Node *n)
{
	Value *v;

	for (int k = 0; k < n->nout; k++) {
		Slot s = {n, k};

		if (k && !want(r, ","))
			return false;
		if (take_word(r, "_"))
			n->out[k] = NULL;
		else if (!read_definition(r, result_at, &s, &v))
			return false;
	}
	return true;
}

static bool read_types(Reader *r, Node *n)
{
	if (!n->nout)
		return true;
	if (!want(r, ":"))
		return false;
	for (int k = 0; k < n->nout; k++) {
		const Type *t;

		if (k && !want(r, ","))
			return false;
		if (!n->out[k]) {
			if (!take_word(r, "_"))
				return fail(r, "'_' for the omitted result");
			continue;
		}
		if (!read_type(r, &t))
			return false;
		n->out[k]->type = t;
	}
	return true;
}

static bool read_operands(Reader *r, Graph *g, Value ***in, int *nin)
{
	VEC(Value *) v = {0};

	*nin = 0;
	if (!take(r, "("))
		return true;
	while (!take(r, ")")) {
		const char *label;
		Value *x = NULL;

		if (v.n && !want(r, ","))
			return false;
		if (v.n == MAX_OPERANDS)
			return fail_at(r, r->line, "the node has too many operands");
		if (!take_word(r, "_") && (!(label = read_label(r)) || !(x = find_value(r, g, label, r->line))))
			return false;
		vec_push(r->tmp, &v, x);
	}
	*in = v.at;
	*nin = v.n;
	return true;
}

static Graph *read_graph(Reader *r, bool region);

static bool read_regions(Reader *r, Node *n)
{
	if (!take(r, "{"))
		return true;
	while (!take(r, "}")) {
		Graph *g = read_graph(r, true);

		if (!g)
			return false;
		vec_push(r->arena, &n->regions, g);
	}
	return true;
}

static bool read_node(Reader *r, Graph *g)
{
	const char *start, *after, *word;
	int nout, nin, start_line, after_line;
	Value **in = NULL;
	OpKind op;
	Node *n;

	peek(r);
	start = r->p;
	start_line = r->line;
	if ((nout = skip_results(r)) < 0)
		return false;
	peek(r);
	after = r->p;
	word = read_word(r);
	op = word ? op_by_name(word) : OP_NONE;
	if (op == OP_NONE) {
		r->p = after;
		return fail(r, word ? "the name of an operator" : "a node or '}'");
	}
	if (!read_operands(r, g, &in, &nin))
		return false;
	n = node_new(g, op, in, nin, nout, NULL);
	if (!read_attrs(r, n))
		return false;
	after = r->p;
	after_line = r->line;
	r->p = start;
	r->line = start_line;
	if (!read_results(r, n))
		return false;
	r->p = after;
	r->line = after_line;
	return read_types(r, n) && read_locs(r, n) && read_regions(r, n);
}

/* ---- Headers ---- */

/* Over a bracketed list, strings and all. */
static bool skip_list(Reader *r)
{
	int depth = 0;

	if (peek(r) != '(')
		return fail(r, "'('");
	do {
		char c = peek(r);

		if (!c)
			return fail(r, "')'");
		if (c == '"') {
			if (!read_string(r))
				return false;
			continue;
		}
		depth += c == '(' ? 1 : c == ')' ? -1 : 0;
		r->p++;
	} while (depth);
	return true;
}

static void see_last(void *arg, Sym *s) { *(int *)arg = s->id; }

/* What S is a name for: a size over symbols that were there before it, so that none means itself. */
static bool read_meaning(Reader *r, Sym *s)
{
	Dim *d = read_dim(r);
	int last = -1;

	if (!d)
		return false;
	dim_syms(d, see_last, &last);
	if (last >= s->id)
		return fail_at(r, r->line, "a symbol stands for a size over the symbols before it");
	s->def = d;
	return true;
}

static bool read_source(Reader *r, Pending *s)
{
	return (s->label = read_label(r)) && want(r, "[") && read_i64(r, &s->at) && want(r, "]");
}

static bool read_symbol(Reader *r)
{
	Pending s = {.line = r->line, .hi = DIM_INF};
	Dim *d;

	if (!read_i64(r, &s.lo) || !want(r, "<=") || !(d = read_dim(r)))
		return false;
	s.sym = dim_as_sym(d);
	if (!s.sym)
		return fail_at(r, r->line, "only a symbol has bounds");
	if (take(r, "<=") && !read_i64(r, &s.hi))
		return false;
	if (s.lo > s.hi)
		return fail_at(r, r->line, "the bounds leave no value");
	s.sym->lo = -DIM_INF;
	s.sym->hi = DIM_INF;
	if (take(r, "=") && !(peek(r) == '%' ? read_source(r, &s) : read_meaning(r, s.sym)))
		return false;
	vec_push(r->tmp, &r->pending, s);
	return true;
}

static bool read_symbols(Reader *r)
{
	if (!take_word(r, "where"))
		return true;
	do {
		if (!read_symbol(r))
			return false;
	} while (take(r, ","));
	return true;
}

static bool read_fact(Reader *r, Graph *g)
{
	Fact f = {0};

	if (!(f.a = read_dim(r)))
		return false;
	f.le = take(r, "<=");
	if ((!f.le && !want(r, "==")) || !(f.b = read_dim(r)))
		return false;
	if (take(r, "@") && !read_loc(r, NULL, &f.loc))
		return false;
	if (peek(r) == '"' && !(f.what = read_string(r)))
		return false;
	vec_push(r->arena, &g->facts, f);
	return true;
}

static Value *input_of(void *arg) { return graph_input(arg, NULL, NULL); }

static bool read_inputs(Reader *r, Graph *g)
{
	if (!want(r, "("))
		return false;
	while (!take(r, ")")) {
		Value *v;

		if (g->inputs.n && !want(r, ","))
			return false;
		if (!read_definition(r, input_of, g, &v) || !want(r, ":") || !read_type(r, &v->type))
			return false;
	}
	return true;
}

/* The results' names and labels, which the body defines. */
static bool read_graph_results(Reader *r, Graph *g)
{
	if (!want(r, "("))
		return false;
	for (int k = 0; !take(r, ")"); k++) {
		const char *label, *name = NULL;
		Value *v;

		if (k && !want(r, ","))
			return false;
		if (!(label = read_label(r)) || !(v = find_value(r, g, label, r->line)))
			return false;
		if (peek(r) == '"' && !(name = read_string(r)))
			return false;
		graph_result(g, v, name);
	}
	return true;
}

static bool read_body(Reader *r, Graph *g)
{
	if (!want(r, "{"))
		return false;
	while (!take(r, "}"))
		if (!read_node(r, g))
			return false;
	return true;
}

typedef struct Place {
	const char *p;
	int line;
} Place;

static Place here(const Reader *r) { return (Place){r->p, r->line}; }

static void go(Reader *r, Place to)
{
	r->p = to.p;
	r->line = to.line;
}

/* Symbols first, in their order, then inputs and facts, then the body, then the results that it defines. */
static bool read_parts(Reader *r, Graph *g, bool region)
{
	Place inputs = here(r), results, facts, end;

	if (!skip_list(r) || !want(r, "->"))
		return false;
	results = here(r);
	if (!skip_list(r) || (!region && !read_symbols(r)))
		return false;
	facts = here(r);
	go(r, inputs);
	if (!read_inputs(r, g))
		return false;
	go(r, facts);
	while (take_word(r, "check"))
		if (!read_fact(r, g))
			return false;
	if (!read_body(r, g))
		return false;
	end = here(r);
	go(r, results);
	if (!read_graph_results(r, g))
		return false;
	go(r, end);
	return true;
}

static Graph *read_graph(Reader *r, bool region)
{
	const char *name;
	Graph *g;
	bool ok;

	if (!take_word(r, "graph")) {
		fail(r, region ? "'graph' or '}'" : "'graph'");
		return NULL;
	}
	if (!want(r, "@") || !(name = read_name(r)))
		return NULL;
	if (++r->depth > MAX_REGION_DEPTH) {
		fail_at(r, r->line, "graphs are nested too deep");
		return NULL;
	}
	g = graph_new(r->ctx, r->arena, name);
	g->file = r->file;
	ok = read_parts(r, g, region);
	r->depth--;
	return ok ? g : NULL;
}

static bool resolve_symbols(Reader *r)
{
	for (int i = 0; i < r->pending.n; i++) {
		const Pending *s = &r->pending.at[i];
		const Named *at = s->label && r->cap ? named_slot(r, s->label) : NULL;

		s->sym->lo = s->lo;
		s->sym->hi = s->hi;
		if (!s->label)
			continue;
		if (!at || !at->label)
			return fail_at(r, s->line, arena_printf(r->tmp, "a symbol comes from %%%s, which is not defined",
								s->label));
		s->sym->src = at->v;
		s->sym->at = s->at;
	}
	return true;
}

Graph *graph_parse(Ctx *c, Arena *a, const char *text, const char *file)
{
	Reader r = {.ctx = c, .arena = a, .tmp = arena_new(), .p = text, .line = 1,
		    .file = file ? ctx_name(c, file) : NULL};
	Graph *g = NULL;

	if (!take_word(&r, "dlir"))
		fail(&r, "'dlir 1'");
	else if (!take_word(&r, "1"))
		fail(&r, "version 1 of the text");
	else
		g = read_graph(&r, false);
	if (g && peek(&r))
		fail(&r, "the end of the file");
	if (g && !r.failed)
		resolve_symbols(&r);
	arena_free(r.tmp);
	return r.failed ? NULL : g;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fuzz/mutate.h"

#include "base/str.h"
#include "frontend/onnx.pb-c.h"
#include "ir/graph/graph.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 100, MAX_FILE = 1 << 18 };

typedef struct Message Message;

/* One field as it stands in the file. A field that is not a message of the schema is a number or
 * bytes. */
typedef struct Field {
	const ProtobufCFieldDescriptor *desc; /* null: not of the schema */
	uint32_t number;
	int wire;
	uint64_t value; /* wire types 0, 1, 5 */
	Bytes bytes;    /* wire type 2, where MESSAGE is null */
	Message *message;
} Field;

struct Message {
	const ProtobufCMessageDescriptor *desc;
	VEC(Field) fields;
};

/* Where a field stands: the message is changed through it. */
typedef struct Spot {
	Message *in;
	int at;
} Spot;

typedef VEC(Spot) Spots;

typedef struct Mutator {
	Arena *a;
	Rng *r;
	const Seeds *seeds;
	Message *root;
	Spots all;
} Mutator;

uint64_t rng_next(Rng *r)
{
	uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t rng_below(Rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

bool chance(Rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

/* ---- Reading and writing ---- */

static bool read_varint(Bytes *b, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; b->n && shift < 70; shift += 7) {
		uint8_t c = *b->p++;

		b->n--;
		if (shift < 64)
			*out |= (uint64_t)(c & 127) << shift;
		if (c < 128)
			return true;
	}
	return false;
}

static bool read_fixed(Bytes *b, size_t n, uint64_t *out)
{
	*out = 0;
	if (b->n < n)
		return false;
	memcpy(out, b->p, n);
	b->p += n;
	b->n -= n;
	return true;
}

static Message *read_message(Arena *a, const ProtobufCMessageDescriptor *desc, Bytes b, int depth);

static bool read_field(Arena *a, const ProtobufCMessageDescriptor *desc, Bytes *b, int depth, Field *f)
{
	uint64_t tag, n;

	if (!read_varint(b, &tag) || tag >> 3 == 0 || tag >> 3 > 1 << 20)
		return false;
	*f = (Field){.number = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
	f->desc = protobuf_c_message_descriptor_get_field(desc, f->number);
	switch (f->wire) {
	case 0: return read_varint(b, &f->value);
	case 1: return read_fixed(b, 8, &f->value);
	case 5: return read_fixed(b, 4, &f->value);
	case 2: break;
	default: return false;
	}
	if (!read_varint(b, &n) || n > b->n)
		return false;
	f->bytes = (Bytes){b->p, n};
	b->p += n;
	b->n -= n;
	if (f->desc && f->desc->type == PROTOBUF_C_TYPE_MESSAGE && depth < MAX_DEPTH)
		f->message = read_message(a, f->desc->descriptor, f->bytes, depth + 1);
	return true;
}

/* Null if B is not a message. */
static Message *read_message(Arena *a, const ProtobufCMessageDescriptor *desc, Bytes b, int depth)
{
	Message *m = NEW(a, Message);

	m->desc = desc;
	while (b.n) {
		Field f;

		if (!read_field(a, desc, &b, depth, &f))
			return NULL;
		vec_push(a, &m->fields, f);
	}
	return m;
}

static void write_varint(StrBuf *b, uint64_t v)
{
	char c[10];
	size_t n = 0;

	for (; v > 127; v >>= 7)
		c[n++] = (char)(v | 128);
	c[n++] = (char)v;
	strbuf_put(b, c, n);
}

static void write_message(StrBuf *b, const Message *m)
{
	for (int i = 0; i < m->fields.n; i++) {
		const Field *f = &m->fields.at[i];
		StrBuf inner = {0};

		write_varint(b, (uint64_t)f->number << 3 | (uint64_t)f->wire);
		if (f->wire == 0)
			write_varint(b, f->value);
		else if (f->wire != 2)
			strbuf_put(b, (const char *)&f->value, f->wire == 1 ? 8 : 4);
		if (f->wire != 2)
			continue;
		if (f->message)
			write_message(&inner, f->message);
		else if (f->bytes.n)
			strbuf_put(&inner, (const char *)f->bytes.p, f->bytes.n);
		write_varint(b, inner.n);
		strbuf_put(b, strbuf_str(&inner), inner.n);
		strbuf_free(&inner);
	}
}

static Bytes bytes_of(Arena *a, StrBuf *b)
{
	Bytes out = {arena_copy(a, strbuf_str(b), b->n), b->n};

	strbuf_free(b);
	return out;
}

/* ---- Finding ---- */

static void collect(Arena *a, Message *m, Spots *out)
{
	for (int i = 0; i < m->fields.n; i++) {
		vec_push(a, out, ((Spot){m, i}));
		if (m->fields.at[i].message)
			collect(a, m->fields.at[i].message, out);
	}
}

static Field *field_at(Spot s)
{
	return &s.in->fields.at[s.at];
}

static bool is_field(Spot s, const char *message, const char *name)
{
	const Field *f = field_at(s);

	return f->desc && !strcmp(s.in->desc->short_name, message) && !strcmp(f->desc->name, name);
}

/* One of the spots that KIND accepts, or false. */
static bool pick(Mutator *m, bool (*kind)(Spot s), Spot *out)
{
	uint64_t seen = 0;

	for (int i = 0; i < m->all.n; i++)
		if (kind(m->all.at[i]) && rng_below(m->r, ++seen) == 0)
			*out = m->all.at[i];
	return seen > 0;
}

static bool is_number(Spot s)
{
	const Field *f = field_at(s);

	return f->desc && (f->wire == 0 || (f->wire == 2 && !f->message && f->desc->type != PROTOBUF_C_TYPE_STRING &&
					    f->desc->type != PROTOBUF_C_TYPE_BYTES && f->desc->type != PROTOBUF_C_TYPE_FLOAT &&
					    f->desc->type != PROTOBUF_C_TYPE_DOUBLE && f->desc->type != PROTOBUF_C_TYPE_MESSAGE));
}

static bool is_float(Spot s)
{
	return field_at(s)->wire == 5;
}

static bool is_name(Spot s)
{
	const Field *f = field_at(s);

	return f->desc && f->wire == 2 && f->desc->type == PROTOBUF_C_TYPE_STRING;
}

static bool is_data(Spot s)
{
	const Field *f = field_at(s);

	return f->wire == 2 && !f->message && f->bytes.n &&
	       (!f->desc || f->desc->type == PROTOBUF_C_TYPE_BYTES || f->desc->label == PROTOBUF_C_LABEL_REPEATED);
}

static bool is_message(Spot s)
{
	return field_at(s)->message != NULL;
}

static bool is_node(Spot s)
{
	return is_message(s) && !strcmp(field_at(s)->message->desc->short_name, "NodeProto");
}

static bool is_op_type(Spot s)
{
	return is_field(s, "NodeProto", "op_type");
}

static bool is_dim(Spot s)
{
	return is_message(s) && !strcmp(field_at(s)->message->desc->short_name, "Dimension");
}

static bool is_value_name(Spot s)
{
	return is_field(s, "NodeProto", "input") || is_field(s, "NodeProto", "output") || is_field(s, "ValueInfoProto", "name") ||
	       is_field(s, "TensorProto", "name");
}

static bool is_attr_name(Spot s)
{
	return is_field(s, "AttributeProto", "name");
}

/* ---- Changing ---- */

static uint64_t hostile(Rng *r)
{
	static const int64_t far[] = {63, 64, 65, 127, 128, 255, 4095, 65535, 65536, 1 << 20, INT32_MAX, INT64_C(1) << 31, UINT32_MAX,
				      INT64_C(1) << 32, INT64_C(1) << 40, INT64_C(1) << 60, INT64_C(1) << 61, INT64_C(1) << 62, INT64_MAX,
				      INT64_MIN, -(INT64_C(1) << 31), -(INT64_C(1) << 62), -5, -100, INT64_MIN + 1};

	if (chance(r, 65))
		return rng_below(r, 12) - 3;
	return (uint64_t)far[rng_below(r, sizeof far / sizeof *far)];
}

static Bytes flip(Arena *a, Rng *r, Bytes b)
{
	uint8_t *p = arena_copy(a, b.p, b.n);

	for (uint64_t i = 1 + (chance(r, 30) ? rng_below(r, 8) : 0); i && b.n; i--)
		p[rng_below(r, b.n)] ^= (uint8_t)(1 << rng_below(r, 8));
	return (Bytes){p, b.n};
}

static void change_packed(Mutator *m, Field *f)
{
	Bytes b = f->bytes;
	StrBuf out = {0};
	uint64_t v, n = 0, at, i = 0;

	for (Bytes c = b; read_varint(&c, &v);)
		n++;
	at = rng_below(m->r, n + 1);
	while (read_varint(&b, &v))
		write_varint(&out, i++ == at ? hostile(m->r) : v);
	if (at == n)
		write_varint(&out, hostile(m->r));
	f->bytes = bytes_of(m->a, &out);
}

static bool change_number(Mutator *m)
{
	Spot s = {0};

	if (!pick(m, is_number, &s))
		return false;
	if (field_at(s)->wire == 2)
		change_packed(m, field_at(s));
	else if (strstr(field_at(s)->desc->name, "type"))
		field_at(s)->value = rng_below(m->r, 30);
	else
		field_at(s)->value = chance(m->r, 20) ? field_at(s)->value + rng_below(m->r, 3) - 1 : hostile(m->r);
	return true;
}

static bool change_float(Mutator *m)
{
	static const float far[] = {0, -0.0f, 1, -1, 0.5f, 1e-45f, 3e38f, -3e38f, 1e10f, (float)INFINITY, -(float)INFINITY, (float)NAN, 2, 1e-6f};
	uint32_t bits;
	Spot s = {0};

	if (!pick(m, is_float, &s))
		return false;
	memcpy(&bits, &far[rng_below(m->r, sizeof far / sizeof *far)], 4);
	field_at(s)->value = bits;
	return true;
}

static Bytes text(Arena *a, const char *s)
{
	return (Bytes){(const uint8_t *)arena_strdup(a, s), strlen(s)};
}

static bool change_op(Mutator *m)
{
	Spot s = {0};

	if (!pick(m, is_op_type, &s))
		return false;
	field_at(s)->bytes = text(m->a, op_row[1 + rng_below(m->r, OP_COUNT - 1)].name);
	return true;
}

/* Another name of the same kind. */
static bool change_reference(Mutator *m)
{
	Spot s = {0}, other = {0};
	bool (*kind)(Spot) = chance(m->r, 75) ? is_value_name : is_attr_name;

	if (!pick(m, kind, &s) || !pick(m, kind, &other))
		return false;
	field_at(s)->bytes = chance(m->r, 10) ? (Bytes){NULL, 0} : field_at(other)->bytes;
	return true;
}

/* A dim becomes a symbol, a number, or nothing. */
static bool change_dim(Mutator *m)
{
	static const char *const names[] = {"N", "M", "N + 1", "2*N", "N*", "a-b", "", "N + M", "N/2", "-1", "9999999999999999999",
					    "((((((((((((N))))))))))))", "N*N*N*N*N*N*N*N*N*N*N*N*N*N*N*N*N", "unk__1", "N - 1000000000000"};
	Spot s = {0};
	Message *d;
	Field f = {.number = 1};

	if (!pick(m, is_dim, &s))
		return false;
	d = field_at(s)->message;
	d->fields.n = 0;
	if (chance(m->r, 60)) {
		f = (Field){.number = 2, .wire = 2, .bytes = text(m->a, names[chance(m->r, 50) ? rng_below(m->r, 4) : rng_below(m->r, 15)])};
	} else if (chance(m->r, 10)) {
		return true;
	} else {
		f.value = hostile(m->r);
	}
	vec_push(m->a, &d->fields, f);
	return true;
}

static bool change_name(Mutator *m)
{
	Spot s = {0};

	if (!pick(m, is_name, &s))
		return false;
	if (chance(m->r, 20))
		field_at(s)->bytes = (Bytes){NULL, 0};
	else
		field_at(s)->bytes = flip(m->a, m->r, field_at(s)->bytes);
	return true;
}

/* Hostile to what prints names: C, its comments and strings, formats, the IR's text, JSON,
 * terminals. */
static Bytes hostile_name(Mutator *m)
{
	static const char *const pieces[] = {
		"default", "NULL", "valid", "linux", "k", "end", "for", "over", "where", "dl_min_i64", "%s%n", "%d", "*/", "/*", "\"", "\\",
		"\\x41", "?\077/", "\n", "\n#error", "\r", "\t", "\x1b[31m", "\x7f", "\xc3\xa9", "\xe2\x80\xae", "\xff", "\xc0\x80", "; ----",
		"/", "..", "$", "$kernel$", "@", "a b", "a_b", "_2", "9", "", "    "};
	StrBuf b = {0};

	for (uint64_t n = 1 + rng_below(m->r, chance(m->r, 10) ? 100 : 3); n; n--)
		strbuf_puts(&b, pieces[rng_below(m->r, sizeof pieces / sizeof *pieces)]);
	return bytes_of(m->a, &b);
}

/* A name becomes a hostile one wherever it stands: the model stays what it was. */
static bool change_names(Mutator *m)
{
	Spot s = {0};
	Bytes was, is = hostile_name(m);

	if (!pick(m, is_name, &s))
		return false;
	was = field_at(s)->bytes;
	for (int i = 0; i < m->all.n; i++) {
		Field *f = field_at(m->all.at[i]);

		if (is_name(m->all.at[i]) && f->bytes.n == was.n && (!was.n || !memcmp(f->bytes.p, was.p, was.n)))
			f->bytes = is;
	}
	return true;
}

static bool change_data(Mutator *m)
{
	Spot s = {0};
	Bytes *b;

	if (!pick(m, is_data, &s))
		return false;
	b = &field_at(s)->bytes;
	if (chance(m->r, 80))
		*b = flip(m->a, m->r, *b);
	else
		b->n = rng_below(m->r, b->n);
	return true;
}

/* ---- Messages ---- */

static void insert(Mutator *m, Message *in, int at, Field f)
{
	vec_push(m->a, &in->fields, f);
	for (int i = in->fields.n - 1; i > at; i--)
		in->fields.at[i] = in->fields.at[i - 1];
	in->fields.at[at] = f;
}

static Field copy_field(Mutator *m, const Field *f)
{
	Field out = *f;
	StrBuf b = {0};

	if (f->message) {
		write_message(&b, f->message);
		out.bytes = bytes_of(m->a, &b);
		out.message = read_message(m->a, f->message->desc, out.bytes, 0);
	}
	return out;
}

static bool change_message(Mutator *m)
{
	Spot s = {NULL, 0};
	Message *in;
	uint64_t times;
	int other;

	if (!m->all.n)
		return false;
	s = m->all.at[rng_below(m->r, (uint64_t)m->all.n)];
	in = s.in;
	switch (rng_below(m->r, 4)) {
	case 0:
		for (int i = s.at; i + 1 < in->fields.n; i++)
			in->fields.at[i] = in->fields.at[i + 1];
		in->fields.n--;
		return true;
	case 1:
		times = chance(m->r, 80) ? 1 : 1 + rng_below(m->r, 20);
		while (times--)
			insert(m, in, s.at, copy_field(m, field_at(s)));
		return true;
	case 2:
		other = (int)rng_below(m->r, (uint64_t)in->fields.n);
		Field f = in->fields.at[other];
		in->fields.at[other] = in->fields.at[s.at];
		in->fields.at[s.at] = f;
		return true;
	default:
		field_at(s)->number = 1 + (uint32_t)rng_below(m->r, 26);
		return true;
	}
}

/* A message of another seed takes the place of one of its type, or stands beside it. */
static bool splice_message(Mutator *m)
{
	const Bytes *seed = &m->seeds->at[rng_below(m->r, (uint64_t)m->seeds->n)];
	Message *other = read_message(m->a, &onnx__model_proto__descriptor, *seed, 0);
	Spots theirs = {0};
	Spot s = {NULL, 0}, from = {NULL, 0};
	uint64_t seen = 0;

	if (!other || !pick(m, is_message, &s))
		return false;
	collect(m->a, other, &theirs);
	for (int i = 0; i < theirs.n; i++)
		if (is_message(theirs.at[i]) && field_at(theirs.at[i])->message->desc == field_at(s)->message->desc &&
		    rng_below(m->r, ++seen) == 0)
			from = theirs.at[i];
	if (!seen)
		return false;
	if (chance(m->r, 60))
		field_at(s)->message = field_at(from)->message;
	else
		insert(m, s.in, s.at, *field_at(from));
	return true;
}

static Field *named(Message *node, const char *name)
{
	for (int i = 0; i < node->fields.n; i++)
		if (is_field((Spot){node, i}, "NodeProto", name))
			return &node->fields.at[i];
	return NULL;
}

/* A node becomes a chain of copies of itself, each working on the result of the one before. */
static bool chain(Mutator *m)
{
	static const int lengths[] = {2, 3, 10, 40, 200, 1000};
	Spot s = {0};
	Field *in, *out;
	Bytes last;
	int n = lengths[rng_below(m->r, sizeof lengths / sizeof *lengths)];

	if (!pick(m, is_node, &s))
		return false;
	in = named(field_at(s)->message, "input");
	out = named(field_at(s)->message, "output");
	if (!in || !out || field_at(s)->bytes.n * (size_t)n > MAX_FILE)
		return false;
	last = out->bytes;
	for (int i = 0; i < n; i++) {
		Field copy = copy_field(m, field_at((Spot){s.in, s.at + i}));

		if (!copy.message)
			return false;
		named(field_at((Spot){s.in, s.at + i})->message, "output")->bytes = text(m->a, arena_printf(m->a, "chain_%d", i));
		named(copy.message, "input")->bytes = text(m->a, arena_printf(m->a, "chain_%d", i));
		named(copy.message, "output")->bytes = last;
		insert(m, s.in, s.at + i + 1, copy);
	}
	return true;
}

/* ---- Files ---- */

Bytes change_bytes(Arena *a, Rng *r, const Seeds *seeds, Bytes b)
{
	const Bytes *other = &seeds->at[rng_below(r, (uint64_t)seeds->n)];
	StrBuf out = {0};
	uint64_t at, n;

	switch (rng_below(r, 3)) {
	case 0: return flip(a, r, b);
	case 1: return (Bytes){b.p, rng_below(r, b.n + 1)};
	default: break;
	}
	at = rng_below(r, b.n + 1);
	n = rng_below(r, other->n + 1);
	n = n < 200 ? n : 200;
	strbuf_put(&out, (const char *)b.p, at);
	strbuf_put(&out, (const char *)other->p + rng_below(r, other->n - n + 1), n);
	if (chance(r, 50))
		at = at + n < b.n ? at + n : b.n;
	strbuf_put(&out, (const char *)b.p + at, b.n - at);
	return bytes_of(a, &out);
}

typedef struct Change {
	bool (*fn)(Mutator *m);
	unsigned weight;
} Change;

static const Change changes[] = {
	{change_number, 26}, {change_dim, 14}, {change_op, 10}, {change_reference, 10}, {change_message, 10}, {splice_message, 10},
	{change_data, 8}, {change_float, 3}, {change_name, 3}, {change_names, 4}, {chain, 2},
};

static bool change_tree(Mutator *m)
{
	uint64_t at = rng_below(m->r, 100);

	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		if (at < changes[i].weight)
			return changes[i].fn(m);
		at -= changes[i].weight;
	}
	return false;
}

static bool change_schema(Arena *a, Rng *r, const Seeds *seeds, Bytes *b)
{
	Mutator m = {.a = a, .r = r, .seeds = seeds, .root = read_message(a, &onnx__model_proto__descriptor, *b, 0)};
	StrBuf out = {0};

	if (!m.root)
		return false;
	collect(a, m.root, &m.all);
	if (!change_tree(&m))
		return false;
	write_message(&out, m.root);
	*b = bytes_of(a, &out);
	return true;
}

Bytes mutate(Arena *a, Rng *r, const Seeds *seeds)
{
	Bytes b = seeds->at[rng_below(r, (uint64_t)seeds->n)];

	for (uint64_t n = chance(r, 60) ? 1 : 2 + rng_below(r, 2); n; n--) {
		if (chance(r, 88))
			for (int tries = 0; tries < 4 && !change_schema(a, r, seeds, &b); tries++)
				;
		else
			b = change_bytes(a, r, seeds, b);
	}
	return b;
}

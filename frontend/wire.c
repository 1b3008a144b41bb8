/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/wire.h"

#include "frontend/onnx.pb-c.h"

#include <inttypes.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum {
	TENSOR_FLOAT_DATA = 4,
	TENSOR_RAW_DATA = 9,
	TENSOR_DOUBLE_DATA = 10,
	TENSOR_RAW_REF = 10000
};
enum { MEMBER_COST = 64, LENGTH_BYTES = 5 };

/* Limit on the memory for decoding: enough for any small file, and proportionally more for a
 * large one. */
static const uint64_t budget_base = UINT64_C(256) << 20;
static const uint64_t budget_per_byte = 8;
/* protobuf-c stores lengths in an int. */
static const size_t compact_max = (size_t)1 << 30;

typedef struct Walk {
	Arena *arena;
	Diag *diag;
	const char *file;
	const uint8_t *bytes;
	size_t n;
	StrBuf *out;
	WireRanges *ranges;
	uint64_t budget;
} Walk;

typedef struct Span {
	size_t at, end;
} Span;

typedef ProtobufCMessageDescriptor Message;
typedef ProtobufCFieldDescriptor Field;

/* What a file may be instead, by its first bytes. */
static const char *other_format(const Walk *w)
{
	enum { LOOKED_AT = 64 };
	static const uint8_t elf[] = {0x7f, 'E', 'L', 'F'};
	size_t n = 0;

	if (w->n >= sizeof elf && !memcmp(w->bytes, elf, sizeof elf))
		return "the file is a library or a program; dlrun runs what dlcc has compiled";
	while (n < w->n && n < LOOKED_AT &&
	       ((w->bytes[n] >= ' ' && w->bytes[n] < 0x7f) ||
		(w->bytes[n] >= '\t' && w->bytes[n] <= '\r')))
		n++;
	if (n == w->n || n == LOOKED_AT)
		return "the file is text, maybe a web page in place of the model";
	return "the file is damaged, cut short or of another format";
}

static bool fault(Walk *w, size_t at, const Message *m, const char *what)
{
	return diag_error(w->diag, (DiagLoc){.file = w->file},
			  "not a valid ONNX file: %s, at byte %zu in a %s; %s", what, at,
			  m->short_name, other_format(w));
}

static bool spend(Walk *w, size_t at, const Message *m, uint64_t cost)
{
	if (cost > w->budget)
		return fault(w, at, m, "more elements than a file of this size may have");
	w->budget -= cost;
	return true;
}

/* Reads a varint of up to ten bytes; refuses longer ones and values above 64 bits. */
static bool get_varint(Walk *w, Span *s, const Message *m, uint64_t *v)
{
	size_t start = s->at;

	*v = 0;
	for (int shift = 0; shift < 70; shift += 7) {
		uint8_t b;

		if (s->at >= s->end)
			return fault(w, start, m, "the number is cut short");
		b = w->bytes[s->at++];
		if (shift == 63 && b > 1)
			break;
		*v |= (uint64_t)(b & 127) << shift;
		if (b < 128)
			return true;
	}
	return fault(w, start, m, "the number is too long");
}

static void put_varint(Walk *w, uint64_t v)
{
	char b[10];
	size_t n = 0;

	do {
		b[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
		v >>= 7;
	} while (v);
	strbuf_put(w->out, b, n);
}

static void put_tag(Walk *w, uint32_t field, int wire)
{
	put_varint(w, (uint64_t)field << 3 | (unsigned)wire);
}

/* Writes the tag and a length of fixed width, which is set after the contents are written. */
static size_t open_message(Walk *w, uint32_t field)
{
	put_tag(w, field, WIRE_BYTES);
	strbuf_put(w->out, "\200\200\200\200\0", LENGTH_BYTES);
	return w->out->n;
}

static void close_message(Walk *w, size_t start)
{
	size_t n = w->out->n - start;
	char *len = w->out->at + start - LENGTH_BYTES;

	for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7)
		len[i] = (char)((n & 127) | (i + 1 < LENGTH_BYTES ? 128 : 0));
}

static int wire_of(ProtobufCType t)
{
	switch (t) {
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32;
	case PROTOBUF_C_TYPE_DOUBLE:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
	default: return WIRE_VARINT;
	}
}

static size_t width_of(int wire)
{
	return wire == WIRE_32 ? 4 : wire == WIRE_64 ? 8 : 1;
}

/* The singular fields that conflict with F, as bits: F itself and the other fields of its oneof. */
static uint64_t once_mask(const Message *m, const Field *f)
{
	uint64_t mask = 0;

	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return 0;
	for (unsigned i = 0; i < m->n_fields; i++)
		if (&m->fields[i] == f || ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
					   (m->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
					   m->fields[i].quantifier_offset == f->quantifier_offset))
			mask |= UINT64_C(1) << i;
	return mask;
}

static bool is_data(const Message *m, const Field *f)
{
	return m == &onnx__tensor_proto__descriptor &&
	       (f->id == TENSOR_FLOAT_DATA || f->id == TENSOR_RAW_DATA ||
		f->id == TENSOR_DOUBLE_DATA);
}

/* Checks packed scalars: each one, and that they fill S exactly. */
static bool walk_packed(Walk *w, const Message *m, const Field *f, Span s)
{
	int wire = wire_of(f->type);
	size_t n = s.end - s.at, start = s.at, count = 0;
	uint64_t v;

	if (wire == WIRE_VARINT) {
		for (Span c = s; c.at < c.end; count++)
			if (!get_varint(w, &c, m, &v))
				return false;
	} else {
		if (n % width_of(wire))
			return fault(w, start, m, "packed numbers do not fill their length");
		count = n / width_of(wire);
	}
	if (!spend(w, start, m, MEMBER_COST + count * 8))
		return false;
	put_tag(w, f->id, WIRE_BYTES);
	put_varint(w, n);
	strbuf_put(w->out, (const char *)w->bytes + start, n);
	return true;
}

static bool walk_bytes(Walk *w, const Message *m, const Field *f, Span s)
{
	size_t n = s.end - s.at;

	if (f->type == PROTOBUF_C_TYPE_STRING && memchr(w->bytes + s.at, 0, n))
		return fault(w, s.at, m, "a name holds a zero byte");
	if (!spend(w, s.at, m, MEMBER_COST + n))
		return false;
	put_tag(w, f->id, WIRE_BYTES);
	put_varint(w, n);
	strbuf_put(w->out, (const char *)w->bytes + s.at, n);
	return true;
}

static void cut(Walk *w, const Field *f, Span s)
{
	WireRange r = {.at = s.at, .size = s.end - s.at, .field = f->id};

	vec_push(w->arena, &w->ranges->v, r);
	put_tag(w, TENSOR_RAW_REF, WIRE_VARINT);
	put_varint(w, (uint64_t)w->ranges->v.n - 1);
}

/* The contents of the field at S, length-prefixed or a plain number; advances S past it. */
static bool take(Walk *w, Span *s, const Message *m, int wire, Span *body)
{
	uint64_t n = width_of(wire);

	body->at = s->at;
	if (wire == WIRE_VARINT) {
		if (!get_varint(w, s, m, &n))
			return false;
		body->end = s->at;
		return true;
	}
	if (wire == WIRE_BYTES && !get_varint(w, s, m, &n))
		return false;
	if (n > s->end - s->at)
		return fault(w, body->at, m, "a length leads past the end");
	body->at = s->at;
	body->end = s->at += (size_t)n;
	return true;
}

static bool walk_message(Walk *w, const Message *m, Span s, int depth);

/* Walks the contents S of a length-prefixed field of the schema. */
static bool walk_contents(Walk *w, const Message *m, const Field *f, Span s, int depth)
{
	size_t start;

	if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
		start = open_message(w, f->id);
		if (!walk_message(w, f->descriptor, s, depth + 1))
			return false;
		close_message(w, start);
		return true;
	}
	if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES)
		return walk_bytes(w, m, f, s);
	return walk_packed(w, m, f, s);
}

static bool walk_scalar(Walk *w, const Message *m, const Field *f, Span s)
{
	int wire = wire_of(f->type);
	uint64_t v;

	if (!spend(w, s.at, m, MEMBER_COST))
		return false;
	put_tag(w, f->id, wire);
	if (wire == WIRE_VARINT) {
		if (!get_varint(w, &s, m, &v))
			return false;
		put_varint(w, v);
	} else {
		strbuf_put(w->out, (const char *)w->bytes + s.at, s.end - s.at);
	}
	return true;
}

/* Tensor data. *CUT_OUT: it stays in the file. *DATA becomes 1 after small data and 2 after large
 * data. */
static bool walk_data(Walk *w, const Message *m, const Field *f, Span s, int *data, bool *cut_out)
{
	size_t n = s.end - s.at;
	bool large = n >= WIRE_CUT;

	if (*data && (large || *data == 2))
		return fault(w, s.at, m, "the data of a tensor is in several pieces");
	*data = large ? 2 : 1;
	*cut_out = large;
	if (!large)
		return true;
	if (f->id != TENSOR_RAW_DATA && n % width_of(wire_of(f->type)))
		return fault(w, s.at, m, "packed numbers do not fill their length");
	cut(w, f, s);
	return spend(w, s.at, m, MEMBER_COST);
}

/* Walks one field after its tag. SEEN: the singular fields so far; DATA: as in walk_data. */
static bool walk_field(Walk *w, const Message *m, const Field *f, int wire, Span *s, uint64_t *seen,
		       int *data, int depth)
{
	bool packed = f->label == PROTOBUF_C_LABEL_REPEATED && wire == WIRE_BYTES;
	uint64_t once = once_mask(m, f);
	bool cut_out = false;
	char what[96];
	Span body;

	if (wire != wire_of(f->type) && !packed) {
		snprintf(what, sizeof what, "\"%s\" has wire type %d", f->name, wire);
		return fault(w, s->at, m, what);
	}
	if (*seen & once) {
		snprintf(what, sizeof what, "\"%s\" is given twice", f->name);
		return fault(w, s->at, m, what);
	}
	*seen |= once;
	if (!take(w, s, m, wire, &body))
		return false;
	if (is_data(m, f) && !walk_data(w, m, f, body, data, &cut_out))
		return false;
	if (cut_out)
		return true;
	if (wire == WIRE_BYTES)
		return walk_contents(w, m, f, body, depth);
	return walk_scalar(w, m, f, body);
}

static bool walk_message(Walk *w, const Message *m, Span s, int depth)
{
	uint64_t seen = 0;
	int data = 0;

	if (depth > WIRE_MAX_DEPTH)
		return fault(w, s.at, m, "messages are nested too deeply");
	if (!spend(w, s.at, m, MEMBER_COST + m->sizeof_message))
		return false;
	while (s.at < s.end) {
		size_t start = s.at;
		const Field *f;
		uint64_t tag;
		int wire;
		Span body;

		if (!get_varint(w, &s, m, &tag))
			return false;
		wire = (int)(tag & 7);
		if (tag >> 3 == 0 || tag >> 32)
			return fault(w, start, m, "a field has no valid number");
		if (wire != WIRE_VARINT && wire != WIRE_64 && wire != WIRE_BYTES && wire != WIRE_32)
			return fault(w, start, m, "a field has no valid wire type");
		f = protobuf_c_message_descriptor_get_field(m, (unsigned)(tag >> 3));
		if (!f || (m == &onnx__tensor_proto__descriptor && f->id == TENSOR_RAW_REF)) {
			if (!take(w, &s, m, wire, &body))
				return false;
			continue;
		}
		if (!walk_field(w, m, f, wire, &s, &seen, &data, depth))
			return false;
		if (w->out->n > compact_max)
			return fault(w, start, m, "more than 1 GiB besides the tensors' raw data");
	}
	return true;
}

bool wire_compact(Arena *a, Diag *d, const char *file, const ProtobufCMessageDescriptor *root,
		  const uint8_t *bytes, size_t n, StrBuf *out, WireRanges *ranges)
{
	Walk w = {.arena = a,
		  .diag = d,
		  .file = file,
		  .bytes = bytes,
		  .n = n,
		  .out = out,
		  .ranges = ranges,
		  .budget = budget_base};

	w.budget += n > UINT64_MAX / 32 ? UINT64_MAX / 4 : (uint64_t)n * budget_per_byte;
	return walk_message(&w, root, (Span){0, n}, 1);
}

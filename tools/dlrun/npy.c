/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy files; the format is a magic, a version, and a Python dict as text before the data. */
#include "tools/dlrun/npy.h"

#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_RANK = 64 };

static const char magic[] = "\x93NUMPY";

static const struct {
	DType dtype;
	const char *descr; /* without the byte order */
} types[] = {
	{DT_F32, "f4"}, {DT_F64, "f8"}, {DT_F16, "f2"}, {DT_U8, "u1"},
	{DT_I8, "i1"},  {DT_U16, "u2"}, {DT_I16, "i2"}, {DT_I32, "i4"},
	{DT_I64, "i8"}, {DT_U32, "u4"}, {DT_U64, "u8"}, {DT_BOOL, "b1"},
};

static const char *descr_of(DType t)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].dtype == t)
			return types[i].descr;
	return dtype_info[t].bits == 16 ? "u2" : "u1";
}

static bool bad(Diag *d, const char *path, const char *what)
{
	return diag_error(d, (DiagLoc){.file = path}, "%s", what);
}

/* The text after 'key': in the header, or null. */
static const char *entry(const char *header, const char *key)
{
	const char *p = strstr(header, key);

	p = p ? strchr(p, ':') : NULL;
	if (!p)
		return NULL;
	for (p++; *p == ' '; p++)
		;
	return p;
}

/* A file's strings have one size each: '<U5' has 5 code points of 4 bytes, '|S5' 5 bytes, and zeros
 * after shorter ones. Sets *SIZE, the bytes of one, or 0. */
static void string_type(const char *descr, Array *v, size_t *size, bool *wide)
{
	char *end;
	unsigned long n;

	*size = 0;
	*wide = descr[2] == 'U';
	if (descr[2] != 'U' && descr[2] != 'S')
		return;
	n = strtoul(descr + 3, &end, 10);
	if (end == descr + 3 || *end != '\'' || n > 1u << 28)
		return;
	v->dtype = DT_STR;
	*size = *wide ? n * 4 : n;
}

static bool parse_header(Arena *a, Diag *d, const char *path, const char *header, Array *v,
			 size_t *string, bool *wide)
{
	const char *descr = entry(header, "'descr'"), *order = entry(header, "'fortran_order'");
	const char *shape = entry(header, "'shape'");

	if (!descr || !order || !shape || *shape != '(' || strlen(descr) < 4)
		return bad(d, path, "no .npy header");
	if (descr[1] == '>')
		return diag_error(d, (DiagLoc){.file = path},
				  "elements are big-endian; convert them: array.astype('<%.2s')",
				  descr + 2);
	if (strncmp(order, "False", 5))
		return bad(d, path,
			   "only row-major arrays are read; numpy.ascontiguousarray makes them so");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strncmp(descr + 2, types[i].descr, 2) && descr[4] == '\'')
			v->dtype = types[i].dtype;
	string_type(descr, v, string, wide);
	if (v->dtype == DT_NONE)
		return diag_error(d, (DiagLoc){.file = path}, "elements of type %.*s are not read",
				  (int)strcspn(descr + 1, "'"), descr + 1);
	v->dims = NEW_ARRAY(a, MAX_RANK, int64_t);
	for (const char *p = shape + 1; *p && *p != ')';) {
		char *end;
		const long long n = strtoll(p, &end, 10);

		if (end == p || n < 0 || v->rank == MAX_RANK)
			return bad(d, path, "a shape that is not read");
		v->dims[v->rank++] = n;
		for (p = end; *p == ',' || *p == ' ' || *p == 'L'; p++)
			;
	}
	return true;
}

/* Refuses V, whose elements of EACH bytes follow in F, before memory is taken for them. *BYTES:
 * their size. */
static bool elements_fit(Diag *d, const char *path, FILE *f, const Array *v, size_t each,
			 size_t *bytes)
{
	const long at = ftell(f);
	int64_t n = (int64_t)each;
	struct stat st;

	for (int32_t i = 0; i < v->rank; i++)
		if (__builtin_mul_overflow(n, v->dims[i], &n))
			return bad(d, path, "its shape has more elements than any memory holds");
	*bytes = (size_t)n;
	if (at < 0 || fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || n <= st.st_size - at)
		return true;
	return diag_error(d, (DiagLoc){.file = path},
			  "has %" PRId64 " bytes of elements, its shape needs %" PRId64,
			  (int64_t)st.st_size - at, n);
}

/* The string in the N bytes at P. */
static dl_str string_at(Arena *a, const char *p, size_t n, bool wide)
{
	StrBuf text = {0};
	dl_str s;

	if (!wide) {
		while (n && !p[n - 1])
			n--;
		return (dl_str){p, n};
	}
	for (; n; n -= 4, p += 4) {
		uint32_t c;

		memcpy(&c, p, sizeof(c));
		strbuf_put_code(&text, c);
	}
	while (text.n && !text.at[text.n - 1])
		text.n--;
	s = (dl_str){arena_strndup(a, strbuf_str(&text), text.n), text.n};
	strbuf_free(&text);
	return s;
}

static void take_strings(Arena *a, Array *v, const char *data, size_t each, bool wide)
{
	dl_str *to = NEW_ARRAY(a, array_count(v), dl_str);

	for (int64_t i = 0; i < array_count(v); i++)
		to[i] = string_at(a, data + (size_t)i * each, each, wide);
	v->data = to;
}

/* Refuses F, whose first 10 bytes are HEAD. */
static bool not_npy(Diag *d, const char *path, FILE *f, const unsigned char *head)
{
	char text[64];

	memcpy(text, head, 10);
	return bad(d, path,
		   is_lfs_pointer(text, 10 + fread(text + 10, 1, sizeof(text) - 10, f))
			   ? LFS_POINTER
			   : "not a .npy file");
}

static bool read_open(Arena *a, Diag *d, const char *path, FILE *f, Array *v)
{
	unsigned char head[12] = {0};
	char *header;
	size_t n, bytes = 0, string = 0;
	bool wide = false;

	if (fread(head, 1, 10, f) != 10 || memcmp(head, magic, 6) || head[6] < 1 || head[6] > 3)
		return not_npy(d, path, f, head);
	n = (size_t)head[8] | (size_t)head[9] << 8;
	if (head[6] > 1) {
		if (fread(head + 10, 1, 2, f) != 2)
			return bad(d, path, "not a .npy file");
		n |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
	}
	if (n > 1u << 20)
		return bad(d, path, "a header that is too long");
	header = arena_alloc(a, n + 1);
	if (fread(header, 1, n, f) != n)
		return bad(d, path, "ends early");
	*v = (Array){.name = ""};
	if (!parse_header(a, d, path, header, v, &string, &wide) ||
	    !elements_fit(d, path, f, v,
			  v->dtype == DT_STR ? string : (size_t)dtype_size(v->dtype, 1), &bytes))
		return false;
	v->data = arena_alloc(a, bytes);
	if (fread(v->data, 1, bytes, f) != bytes)
		return bad(d, path, "ends early");
	if (v->dtype == DT_STR)
		take_strings(a, v, v->data, string, wide);
	return true;
}

bool npy_read(Arena *a, Diag *d, const char *path, Array *v)
{
	FILE *f = fopen(path, "rb");
	bool ok;

	if (!f)
		return bad(d, path, strerror(errno));
	ok = read_open(a, d, path, f, v);
	fclose(f);
	return ok;
}

bool npy_retype(Arena *a, Array *v, DType t)
{
	const int64_t n = array_count(v);
	void *packed;

	if (v->dtype == t)
		return true;
	if (dtype_info[t].bits == dtype_info[v->dtype].bits &&
	    (v->dtype == DT_U8 || v->dtype == DT_U16)) {
		v->dtype = t;
		return true;
	}
	if (dtype_info[t].bits >= 8 || (v->dtype != DT_U8 && v->dtype != DT_I8))
		return false;
	packed = arena_alloc(a, (size_t)dtype_size(t, n));
	for (int64_t i = 0; i < n; i++)
		for (int b = 0; b < dtype_info[t].bits; b++) {
			const int64_t at = i * dtype_info[t].bits + b;
			const int bit = ((const uint8_t *)v->data)[i] >> b & 1;

			((uint8_t *)packed)[at / 8] |= (uint8_t)(bit << at % 8);
		}
	v->data = packed;
	v->dtype = t;
	return true;
}

/* Writes elements of less than 8 bits, one byte each. */
static void write_unpacked(FILE *f, const Array *v)
{
	const int bits = dtype_info[v->dtype].bits;

	for (int64_t i = 0, n = array_count(v); i < n; i++) {
		int byte = 0;

		for (int b = 0; b < bits; b++) {
			const int64_t at = i * bits + b;

			byte |= (((const uint8_t *)v->data)[at / 8] >> at % 8 & 1) << b;
		}
		putc(byte, f);
	}
}

/* The bytes of the longest string, at least 1. */
static size_t longest(const Array *v)
{
	const dl_str *s = v->data;
	size_t n = 1;

	for (int64_t i = 0; i < array_count(v); i++)
		n = s[i].n > n ? s[i].n : n;
	return n;
}

static void put_strings(FILE *f, const Array *v, size_t each)
{
	const dl_str *s = v->data;

	for (int64_t i = 0; i < array_count(v); i++) {
		fwrite(s[i].p, 1, s[i].n, f);
		for (size_t k = s[i].n; k < each; k++)
			putc(0, f);
	}
}

/* V of a type that descr_of names, or of strings, as a file's bytes. */
static void put_npy(FILE *f, const Array *v)
{
	const size_t each = v->dtype == DT_STR ? longest(v) : 0;
	const char *descr = descr_of(v->dtype);
	char header[96 + MAX_RANK * 24], type[32];
	int n;

	if (each)
		snprintf(type, sizeof(type), "|S%zu", each);
	else
		snprintf(type, sizeof(type), "%c%s", descr[1] == '1' ? '|' : '<', descr);
	n = snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': (",
		     type);
	for (int32_t i = 0; i < v->rank; i++)
		n += snprintf(header + n, sizeof(header) - (size_t)n, "%" PRId64 "%s", v->dims[i],
			      v->rank == 1 || i + 1 < v->rank ? "," : "");
	n += snprintf(header + n, sizeof(header) - (size_t)n, "), }");
	while ((10 + n + 1) % 64)
		header[n++] = ' ';
	header[n++] = '\n';
	fwrite(magic, 1, 6, f);
	fwrite((const char[]){1, 0, (char)(n & 255), (char)(n >> 8)}, 1, 4, f);
	fwrite(header, 1, (size_t)n, f);
	if (each)
		put_strings(f, v, each);
	else if (dtype_info[v->dtype].bits < 8)
		write_unpacked(f, v);
	else if (array_count(v))
		fwrite(v->data, 1, (size_t)dtype_size(v->dtype, array_count(v)), f);
}

bool npy_write(Diag *d, const char *path, const Array *v)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f;
	bool ok;

	f = open_memstream(&text, &n);
	if (f)
		put_npy(f, v);
	ok = f && !ferror(f);
	if (f && fclose(f))
		ok = false;
	if (!ok)
		bad(d, path, "no memory to write it");
	else if (!write_file(path, text, n))
		ok = bad(d, path, strerror(errno));
	free(text);
	return ok;
}
